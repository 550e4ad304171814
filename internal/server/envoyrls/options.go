package envoyrls

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// ServiceName is the name of the gRPC service, for health checks.
const ServiceName = "envoy.service.ratelimit.v3.RateLimitService"

// Window selects how limits are counted.
type Window uint8

const (
	// Sliding, the default, never allows more than a limit in any window. A denied request charges
	// nothing, except hits at the end of a stream, which have already been used.
	Sliding Window = iota
	// Fixed counts as envoyproxy/ratelimit does: in windows aligned to the Unix epoch, and each
	// descriptor separately, whether it is denied or not.
	Fixed
	// Calendar is Fixed with calendar months, in UTC, instead of 30 days, like the setting
	// USE_CALENDAR_MONTH_RATE_LIMIT of envoyproxy/ratelimit.
	Calendar
)

var windowNames = [...]string{"sliding", "fixed", "calendar"}

// String returns the name that [ParseWindow] parses.
func (w Window) String() string { return windowNames[w] }

// ParseWindow parses "sliding", "fixed" or "calendar". "" means the default.
func ParseWindow(name string) (Window, error) {
	i := slices.Index(windowNames[:], cmp.Or(name, Sliding.String()))
	if i < 0 {
		return 0, fmt.Errorf("%q; want sliding, fixed or calendar", name)
	}
	return Window(i), nil
}

// Headers selects the header fields that answers ask Envoy to add. The fields describe a limit that
// is exceeded or, if there is none, the limit with the least left.
type Headers uint8

const (
	// HeadersDefault is HeadersAll with [Sliding], and HeadersNone with [Fixed] and [Calendar],
	// which is also the default of envoyproxy/ratelimit.
	HeadersDefault Headers = iota
	// HeadersNone adds no fields.
	HeadersNone
	// HeadersUpstream adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, or the names
	// in [HeaderNames], as envoyproxy/ratelimit does if configured.
	HeadersUpstream
	// HeadersAll adds the fields of HeadersUpstream, and X-RateLimit-Limit, X-RateLimit-Remaining
	// and X-RateLimit-Reset. To a denial, it also adds Retry-After unless waiting does not help,
	// and X-RateLimit-Denial, an id for "stint why", if there is an observer. Resets are in seconds
	// from now.
	HeadersAll
)

var headersNames = [...]string{"default", "none", "upstream", "all"}

// ParseHeaders parses "default", "none", "upstream" or "all". "" means the default.
func ParseHeaders(name string) (Headers, error) {
	i := slices.Index(headersNames[:], cmp.Or(name, "default"))
	if i < 0 {
		return 0, fmt.Errorf("%q; want none, upstream or all", name)
	}
	return Headers(i), nil
}

// HeaderNames renames header fields. An empty name means the default.
type HeaderNames struct{ Limit, Remaining, Reset string }

// Options configures a [Service]. The zero value is ready to use.
type Options struct {
	// Window selects how limits are counted. The default is Sliding.
	Window Window
	// StopOverLimit applies to Fixed and Calendar windows: if one descriptor of a request is over
	// its limit, the other descriptors are not charged, as with
	// STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT in envoyproxy/ratelimit. All descriptors are checked
	// before any is charged, so concurrent requests may be charged in part. An exceeded limit in
	// shadow or quota mode also keeps other descriptors from being charged, although it lets the
	// request through. Sliding windows have neither flaw, and ignore this option.
	StopOverLimit bool
	// Failure defines how to answer requests that the store cannot decide. The default of its
	// Budget is 15 ms. With [stint.FailError], these requests fail with UNAVAILABLE, and Envoy
	// applies its failure_mode_deny.
	Failure stint.FailurePolicy
	// Headers selects header fields. The default is HeadersDefault.
	Headers     Headers
	HeaderNames HeaderNames
	// Metadata adds dynamic metadata to answers: the request, and the metadata of the descriptors
	// that passed.
	Metadata bool
	// ShadowMode answers OK to every request, as if every limit were in shadow mode. Statuses still
	// show which limits are exceeded.
	ShadowMode bool
	// QuotaMode treats every limit as if it were in quota mode, and a descriptor without a limit as
	// a quota with room. An unlimited descriptor is not a quota.
	QuotaMode bool
	// Public makes [Service.JSONHandler] serve all callers. By default, it serves only callers on
	// this host that address it as localhost or by its IP address. Any caller can use up the limits
	// of any subject, so require a token or a certificate in front of the handler.
	Public bool
	// NegativeHits lets requests give hits back. This lets any caller undo all use of a limit, so
	// set NegativeHits only if every caller, over gRPC and over HTTP, has presented a token or a
	// certificate.
	NegativeHits bool
	// Observer receives a [*policy.Verdict] for each descriptor, and one for a request that could
	// not be decided. If Observer is a [policy.Guard], the guard logs the verdicts. Observer may be
	// nil.
	Observer stint.Observer
	// Stats counts requests under the names of envoyproxy/ratelimit. It may be nil.
	Stats *Stats
	// Logger logs events that are not part of a decision, such as failed refunds. The default is
	// slog.Default().
	Logger *slog.Logger
	// Now replaces the clock, for tests that also replace the store's clock. Nil means time.Now.
	Now func() time.Time
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
