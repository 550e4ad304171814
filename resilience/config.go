package resilience

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// Config configures a [Stack]. The zero Config is recommended: a zero field means the default.
// Negative numbers are invalid.
type Config struct {
	// Failure applies to requests without a policy of their own. By default, this process decides
	// if the store has not decided within 15 ms.
	Failure stint.FailurePolicy
	// Instances is the number of processes that share the store, if the store does not count them
	// or has not counted them yet. Zero means unknown: the stack assumes one process, and logs a
	// warning when it first relies on that.
	Instances int
	// LocalBytes bounds the memory for deciding without the store. The default is 64 MiB. When the
	// memory is full, the subjects that have used the least of their limits are forgotten first.
	LocalBytes int64
	// BreakerFailures is the number of failed calls in a row that opens the breaker. While the
	// process cannot make further calls because none of those under way has been answered, each
	// time budget that passes counts as a failed call. The default is 5.
	BreakerFailures int
	// BreakerProbe is the interval at which an open breaker pings the store, give or take a fifth.
	// The default is 250 ms.
	BreakerProbe time.Duration
	// BreakerRetry is the time for which an open breaker waits before it lets a call through
	// without a successful ping, for stores that have no Ping or do not permit it. The default is
	// 30 s.
	BreakerRetry time.Duration
	// MaxWaiting is the maximum number of requests that wait to be sent to the store. The failure
	// policy decides any further requests at once. The same maximum applies separately to
	// amendments. The default is 10,000.
	MaxWaiting int
	// Denials is the number of denials that are remembered, rounded up to a power of two. The
	// default is 65,536. Each takes about 240 bytes, and 24 more for every limit past the third.
	Denials int
	// Leases is the maximum number of leases held at once, one for each subject, scope and list of
	// limits. The default is 10,000. Requests without a lease go to the store.
	Leases int

	// NoDenyCache sends requests to the store even for subjects that were just denied.
	NoDenyCache bool
	// NoLeases makes the store decide every request under leased limits.
	NoLeases bool
	// NoRestore disables restoring a store that has lost its state. By default, processes write
	// back the usage from before the loss.
	NoRestore bool

	// Observer receives a [*Decided] for every decision, a [*StoreCall] for calls to the store, and
	// a [*BreakerChange] when the breaker changes. It may be nil.
	Observer stint.Observer
	// Logger receives messages about the store, for instance when it is lost and when it is back.
	// The default is slog.Default().
	Logger *slog.Logger
}

// validate reports every mistake in one [*stint.InvalidError].
func (c *Config) validate() error {
	errs := []error{contract.ValidateFailure(&c.Failure)}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Instances", int64(c.Instances)}, {"LocalBytes", c.LocalBytes}, {"BreakerFailures", int64(c.BreakerFailures)},
		{"BreakerProbe", int64(c.BreakerProbe)}, {"BreakerRetry", int64(c.BreakerRetry)},
		{"MaxWaiting", int64(c.MaxWaiting)}, {"Denials", int64(c.Denials)}, {"Leases", int64(c.Leases)},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d; want 0 for the default, or more", f.name, f.value))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &stint.InvalidError{Err: err}
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Failure.Budget = cmp.Or(c.Failure.Budget, contract.DefaultBudget)
	c.LocalBytes = cmp.Or(c.LocalBytes, 64<<20)
	c.BreakerFailures = cmp.Or(c.BreakerFailures, contract.DefaultBreakerFailures)
	c.BreakerProbe = cmp.Or(c.BreakerProbe, contract.DefaultBreakerProbe)
	c.BreakerRetry = cmp.Or(c.BreakerRetry, contract.DefaultBreakerRetry)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 10_000)
	c.Denials = cmp.Or(c.Denials, 1<<16)
	c.Leases = cmp.Or(c.Leases, 10_000)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
