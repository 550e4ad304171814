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
	// Sliding, the default, never allows more hits than the limit in any window. A denied request
	// is not charged, except for hits at the end of a stream, which have already been used.
	Sliding Window = iota
	// Fixed counts hits as envoyproxy/ratelimit does: in windows that are aligned to the Unix
	// epoch, and separately for each descriptor, even if it is denied.
	Fixed
	// Calendar is like Fixed, but a month is a calendar month in UTC instead of 30 days. It
	// corresponds to the setting USE_CALENDAR_MONTH_RATE_LIMIT of envoyproxy/ratelimit.
	Calendar
)

var windowNames = [...]string{"sliding", "fixed", "calendar"}

// String returns the name of w, which [ParseWindow] parses.
func (w Window) String() string { return windowNames[w] }

// ParseWindow parses "sliding", "fixed" or "calendar". "" means the default.
func ParseWindow(name string) (Window, error) {
	i := slices.Index(windowNames[:], cmp.Or(name, Sliding.String()))
	if i < 0 {
		return 0, fmt.Errorf("%q; want sliding, fixed or calendar", name)
	}
	return Window(i), nil
}

// Headers selects the header fields that Envoy is told to add to its responses. The fields describe
// a limit that is exceeded or, if there is none, the limit with the fewest remaining hits.
type Headers uint8

const (
	// HeadersDefault means HeadersAll with [Sliding], and HeadersNone with [Fixed] and [Calendar].
	// HeadersNone is also the default of envoyproxy/ratelimit.
	HeadersDefault Headers = iota
	// HeadersNone adds no fields.
	HeadersNone
	// HeadersUpstream adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, which
	// envoyproxy/ratelimit can be configured to add. [HeaderNames] can rename these fields.
	HeadersUpstream
	// HeadersAll adds the fields of HeadersUpstream, and X-RateLimit-Limit, X-RateLimit-Remaining
	// and X-RateLimit-Reset. If a request is denied, it also adds Retry-After, unless waiting would
	// not help. If there is an observer, it also adds X-RateLimit-Denial to denials, with an ID for
	// "stint why". The values of the reset fields are in seconds from now.
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

// HeaderNames are the names of header fields. An empty name means the default.
type HeaderNames struct{ Limit, Remaining, Reset string }

// Options configures a [Service]. The zero value is ready to use.
type Options struct {
	// Window selects how limits are counted. The default is Sliding.
	Window Window
	// StopOverLimit applies to Fixed and Calendar windows: if one descriptor of a request is over
	// its limit, the other descriptors are not charged, as with
	// STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT in envoyproxy/ratelimit. All descriptors are checked
	// before any of them is charged. Between these steps, another request can use up a limit, so a
	// request may still be charged in part. An exceeded limit in shadow or quota mode also keeps
	// other descriptors from being charged, although it does not deny the request. Sliding windows
	// have neither problem, and ignore this option.
	StopOverLimit bool
	// Failure defines how to answer requests that the store cannot decide. If its Budget is 0, the
	// budget is 15 ms. With [stint.FailError], these requests fail with UNAVAILABLE, and Envoy
	// applies its failure_mode_deny.
	Failure stint.FailurePolicy
	// Headers selects the header fields. The default is HeadersDefault.
	Headers     Headers
	HeaderNames HeaderNames
	// Metadata adds dynamic metadata to answers: the request, and the metadata of the descriptors
	// that passed.
	Metadata bool
	// ShadowMode answers every request with OK, as if every limit were in shadow mode. The statuses
	// of descriptors still show which limits are exceeded.
	ShadowMode bool
	// QuotaMode treats every limit as if it were in quota mode, and a descriptor without a limit as
	// a quota that is not exceeded. Descriptors that are configured as unlimited do not count as
	// quotas.
	QuotaMode bool
	// Public makes [Service.JSONHandler] serve all callers. By default, it serves only callers on
	// this host that address it as localhost or by its IP address. Any caller can use up the limits
	// of any subject. If Public is set, require a token or a certificate in front of the handler.
	Public bool
	// NegativeHits allows requests with negative hits, which give hits back. Any caller can then
	// undo all use of a limit, so set NegativeHits only if every caller, over gRPC and over HTTP,
	// has presented a token or a certificate.
	NegativeHits bool
	// Observer receives a [*policy.Verdict] for each descriptor, or a single one for a request that
	// could not be decided. If Observer is a [policy.Guard], the guard logs the verdicts. Observer
	// may be nil.
	Observer stint.Observer
	// Stats counts requests in metrics like those of envoyproxy/ratelimit. It may be nil.
	Stats *Stats
	// Logger logs events that are not part of a decision, such as failed refunds. The default is
	// slog.Default().
	Logger *slog.Logger
	// Now replaces time.Now, for tests that also replace the store's clock. It may be nil.
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
