package guardtest

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// Redis returns a store on Redis that is closed when the test ends.
func Redis(t testing.TB, c redisstore.Config) *redisstore.Store {
	t.Helper()
	return testkit.Opened(redisstore.Open(t.Context(), c))(t)
}

// Stack returns a stack over a store. It is closed when the test ends. Unless c has a Logger, it
// logs nothing.
func Stack(t testing.TB, store driver.BatchStore, c resilience.Config) *resilience.Stack {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return testkit.Opened(resilience.New(store, c))(t)
}

// Failing is a store that fails in everything, with Err. It takes batches, as package resilience
// wants.
type Failing struct{ Err error }

// Take fails.
func (f Failing) Take(context.Context, stint.Request) (stint.Decision, error) {
	return stint.Decision{}, f.Err
}

// TakeBatch fails.
func (f Failing) TakeBatch(_ context.Context, batch []*driver.Call) {
	for _, c := range batch {
		c.Err = f.Err
	}
}

// Amend fails.
func (f Failing) Amend(context.Context, stint.Charge, stint.Amendment) (stint.Amended, error) {
	return stint.Amended{}, f.Err
}

// Command fails.
func (f Failing) Command(context.Context, stint.Command) error { return f.Err }

// Away decides as a store that is unavailable, under [stint.FailDeny]: it denies for a second.
type Away struct{ stint.Store }

// Take denies.
func (Away) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	d := stint.Decision{Degraded: true, Unavailable: true, RetryAfter: time.Second,
		Charge: driver.NewCharge(r.Claims, driver.ChargeData{})}
	for i := range d.MakeUsages(len(r.Claims[0].Limits)) {
		d.Usages()[i].RetryAfter = time.Second
	}
	return d, nil
}

// Unhurried ignores deadlines: on a busy machine, some answers on rules in shadow would be missing.
type Unhurried struct{ stint.Store }

// Take decides, however long that takes.
func (s Unhurried) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx = context.WithoutCancel(ctx)
	}
	return s.Store.Take(ctx, r)
}
