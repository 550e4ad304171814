package httplimit

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/policy"
)

// Option sets up [New] or [Limit].
type Option func(*responder)

// responder is how requests are answered, whoever decides on them.
type responder struct {
	claims  func(*http.Request, string) string
	denied  func(http.ResponseWriter, *http.Request, *Denial)
	failed  func(http.ResponseWriter, *http.Request, error)
	headers *policy.Headers // nil: as the configuration says
	name    string
	logger  *slog.Logger
	shares  bool           // the verdict, with the handler
	timeout time.Duration  // of a write
	random  func() float64 // 0 to below 1
	idle    sync.Pool      // of exchanges
	texts   atomic.Pointer[setText]
}

func newResponder(options []Option) *responder {
	f := &responder{name: "default", logger: slog.Default(), random: rand.Float64, timeout: defaultSendTimeout}
	for _, option := range options {
		option(f)
	}
	return f
}

// WithClaims hands over what the application knows of the caller: the value of a claim of that
// name, such as "user" or "plan", or "". It is called while the request is judged, so whatever
// authenticates the request stands in front of the middleware. By default there are none. [Limit]
// has no use for them.
func WithClaims(claims func(r *http.Request, name string) string) Option {
	return func(f *responder) { f.claims = claims }
}

// WithDenied replaces the answer to requests that are refused, 429 or 503. The header fields about
// limits and Retry-After are set by then. By default the answer is what [Denial.Answer] gives.
func WithDenied(denied func(w http.ResponseWriter, r *http.Request, d *Denial)) Option {
	return func(f *responder) { f.denied = denied }
}

// WithError replaces the answer to requests that could not be decided: the failure mode is "error"
// and the store failed, or there is no key to count by ([ErrNoKey]). By default that is 503 for a
// failure and 500 for a mistake. An answer that lets the request through is up to you. It is not
// called for a body that could not be read.
func WithError(failed func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(f *responder) { f.failed = failed }
}

// WithHeaders says what answers show about limits. By default that is what the configuration says,
// and for [Limit] the X fields, with Reset since 1970 and a jitter of a fifth.
func WithHeaders(headers policy.Headers) Option {
	return func(f *responder) { f.headers = &headers }
}

// WithName is what headers and answers call the policy of [Limit]: letters, digits and "_-.". It is
// "default" unless set. [New] has the names of its configuration.
func WithName(name string) Option {
	if !words.IsName(name) {
		panic(fmt.Sprintf("httplimit: WithName(%q): want letters, digits and _-.", name))
	}
	return func(f *responder) { f.name = name }
}

// WithLogger says where [Limit] logs requests that it cannot decide, at most five per second. It is
// slog.Default() unless set. For denials and admissions, give the limiter a logger:
// [stint.WithLogger]. The guard of [New] has a logger of its own.
func WithLogger(logger *slog.Logger) Option {
	return func(f *responder) { f.logger = logger }
}

// defaultSendTimeout is that of nginx, halved.
const defaultSendTimeout = 30 * time.Second

// WithSendTimeout is how long a client may take nothing of a response that is watched (see the
// package's documentation) and waits to be sent: 30 seconds unless set, and any time if it is 0.
// After that the response is cut off, so that nobody keeps a place under a concurrency limit by not
// reading. Each write of 64 KiB has that time.
func WithSendTimeout(timeout time.Duration) Option {
	return func(f *responder) { f.timeout = timeout }
}

// WithVerdict makes the verdict known to the handler: see [FromContext]. By default it is not,
// because that takes a copy of the request and a context, two allocations.
func WithVerdict() Option {
	return func(f *responder) { f.shares = true }
}
