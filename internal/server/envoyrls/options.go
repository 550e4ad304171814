package envoyrls

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/words"
)

// ServiceName is the name of the gRPC service, for health checks.
const ServiceName = "envoy.service.ratelimit.v3.RateLimitService"

// Window is how limits are counted.
type Window uint8

const (
	// Sliding, the default, never exceeds a limit in any window; a denied request charges nothing.
	Sliding Window = iota
	// Fixed counts as envoyproxy/ratelimit does: in windows aligned to the Unix epoch, every
	// descriptor by itself, whether it is denied or not.
	Fixed
	// Calendar is Fixed, but months are those of the calendar, in UTC, and not 30 days, as with the
	// setting USE_CALENDAR_MONTH_RATE_LIMIT of envoyproxy/ratelimit.
	Calendar
)

var windowNames = [...]string{"sliding", "fixed", "calendar"}

// String returns the name that [ParseWindow] reads.
func (w Window) String() string { return windowNames[w] }

// ParseWindow reads "sliding", "fixed" or "calendar". "" is the default.
func ParseWindow(name string) (Window, error) {
	i := slices.Index(windowNames[:], cmp.Or(name, Sliding.String()))
	if i < 0 {
		return 0, fmt.Errorf("envoyrls: window %q; want sliding, fixed or calendar", name)
	}
	return Window(i), nil
}

// Options set up a [Service]. The zero Options are ready for use.
type Options struct {
	// Window is Sliding unless set.
	Window Window
	// StopOverLimit, with Fixed and Calendar windows, charges nothing to the other descriptors of a
	// request in which one is over its limit, like the setting
	// STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT of envoyproxy/ratelimit. As there, all are looked at
	// before any is charged, so requests at the same moment may be charged in part, and limits that
	// let a request through although they are exceeded, being in shadow or quota mode, stop the
	// others too. Sliding windows, where it changes nothing, have neither flaw.
	StopOverLimit bool
	// Failure says what becomes of requests that the store cannot decide. Its Budget is 15 ms
	// unless set. With [stint.FailError] they fail with UNAVAILABLE, and Envoy does as its
	// failure_mode_deny says.
	Failure stint.FailurePolicy
	// Headers are HeadersDefault unless set.
	Headers     Headers
	HeaderNames HeaderNames
	// Metadata adds dynamic metadata to answers: what was asked, and the metadata of the
	// descriptors that passed.
	Metadata bool
	// ShadowMode answers OK to everything, as if every limit were in shadow mode; statuses still
	// tell which are exceeded.
	ShadowMode bool
	// QuotaMode treats every limit as one in quota mode, and a descriptor without a limit as one
	// with room. A descriptor that is unlimited is no quota.
	QuotaMode bool
	// Public has [Service.JSONHandler] answer everybody whom it is called for. Without it only
	// callers on this host are answered, who call it localhost or by its address. Who asks can use
	// up anybody's limits: ask for a token before, or for a certificate.
	Public bool
	// NegativeHits lets requests give hits back. Who may do that can undo anybody's use of a limit:
	// set it only where every caller, over gRPC and over HTTP, has shown a token or a certificate.
	NegativeHits bool
	// Observer receives a [*policy.Verdict] for each descriptor, and one for a request that could
	// not be decided. A [policy.Guard] logs them. It may be nil.
	Observer stint.Observer
	// Stats count in addition, under the names of envoyproxy/ratelimit. It may be nil.
	Stats *Stats
	// Logger logs what is not part of a decision, such as refunds that fail. It is slog.Default()
	// unless set.
	Logger *slog.Logger
	// Now replaces the clock, for tests that replace the store's too. Nil means time.Now.
	Now func() time.Time
}

func (o *Options) validate() error {
	var errs []error
	if err := contract.ValidateFailure(&o.Failure); err != nil {
		errs = append(errs, err)
	}
	for _, name := range []string{o.HeaderNames.Limit, o.HeaderNames.Remaining, o.HeaderNames.Reset} {
		if name != "" && !words.IsToken(name) {
			errs = append(errs, fmt.Errorf("HeaderNames: %q is not the name of a header field; want one such as X-Limit", name))
		}
	}
	if errs != nil {
		return &stint.InvalidError{Err: errors.Join(errs...)}
	}
	return nil
}

func (o *Options) fill() {
	o.Failure.Budget = cmp.Or(o.Failure.Budget, contract.DefaultBudget)
	if o.Headers == HeadersDefault {
		o.Headers = HeadersAll
		if o.Window != Sliding {
			o.Headers = HeadersNone
		}
	}
	names := &o.HeaderNames
	names.Limit = cmp.Or(names.Limit, "RateLimit-Limit")
	names.Remaining = cmp.Or(names.Remaining, "RateLimit-Remaining")
	names.Reset = cmp.Or(names.Reset, "RateLimit-Reset")
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
}
