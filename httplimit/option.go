package httplimit

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/policy"
)

// Option sets up [New] or [By]. It is a [stint.Option] so that By takes it next to limits;
// [stint.New] does not take it.
type Option struct {
	foreign
	set func(*responder)
}

// foreign makes an Option a [stint.Option]. It is nil: [stint.New] reports an Option as a mistake.
type foreign = stint.Option

func option(set func(*responder)) Option { return Option{nil, set} }

// responder is how requests are answered, whoever decides on them.
type responder struct {
	claims  func(*http.Request, string) string
	denied  func(http.ResponseWriter, *http.Request, *Denial)
	failed  func(http.ResponseWriter, *http.Request, error)
	headers *policy.Headers // nil: as the configuration says
	name    string          // "" unless set
	logger  *slog.Logger    // nil unless set
	store   stint.Store
	stored  bool           // WithStore was used
	shares  bool           // the verdict, with the handler
	timeout time.Duration  // of a write
	random  func() float64 // 0 to below 1
	idle    sync.Pool      // of exchanges
	texts   atomic.Pointer[setText]
}

func newResponder(options []Option) *responder {
	f := &responder{random: rand.Float64, timeout: defaultSendTimeout}
	for _, o := range options {
		if o.set != nil { // the zero Option changes nothing
			o.set(f)
		}
	}
	return f
}

// WithClaims passes what the application knows about the caller: the value of a claim of that name,
// such as "user" or "plan", or "". It is called while the request is judged, so whatever
// authenticates the request comes before the middleware. By default there are none. [By] panics: it
// has a key instead.
func WithClaims(claims func(r *http.Request, name string) string) Option {
	return option(func(f *responder) { f.claims = claims })
}

// WithDenied replaces the answer to requests that are refused, 429 or 503. The header fields about
// limits and Retry-After are set by then. By default the answer is what [Denial.Answer] gives.
func WithDenied(denied func(w http.ResponseWriter, r *http.Request, d *Denial)) Option {
	return option(func(f *responder) { f.denied = denied })
}

// WithError replaces the answer to requests that could not be decided: the failure mode is "error"
// and the store failed, or there is no key to count by ([ErrNoKey]). By default that is 503 for a
// failure and 500 for a mistake. An answer that lets the request through is up to you. It is not
// called for a body that could not be read.
func WithError(failed func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return option(func(f *responder) { f.failed = failed })
}

// WithHeaders says what answers show about limits. By default that is what the configuration says,
// and for [By] the X fields, with Reset since 1970 and a jitter of a fifth for [Everyone].
func WithHeaders(headers policy.Headers) Option {
	return option(func(f *responder) { f.headers = &headers })
}

// WithName is what headers and answers call the policy of [By]: letters, digits and "_-.". It is
// "default" unless set. In a store that is shared ([WithStore]) it is the scope in which the
// requests are counted: middlewares with the same name count together where their limits have the
// same window, and a count stays when you change the number of a limit; a new window starts empty.
// It is also the scope of a policy of that name, if there is one on the same store. [New] has the
// names of its configuration, and panics.
func WithName(name string) Option {
	if !words.IsName(name) {
		panic(fmt.Sprintf("httplimit: WithName(%q): want letters, digits and _-.", name))
	}
	return option(func(f *responder) { f.name = name })
}

// WithStore says where [By] counts: in Redis, for limits that hold across processes, or in a store
// that is yours to watch and close. Package stores opens one:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//	...
//	r.Use(httplimit.ByIP(stint.PerMinute(100), httplimit.WithStore(store)))
//
// In one store, requests with equal keys are counted together if the middlewares have the same
// name, or no name and the same limits, no matter in how many processes. Give each a name
// ([WithName]) to count them separately, and to keep counts when you change the limits. The guard
// of [New] has a store: New panics.
func WithStore(store stint.Store) Option {
	return option(func(f *responder) { f.store, f.stored = store, true })
}

// WithLogger says where [By] logs requests that it cannot decide, at most five per second. It is
// slog.Default() unless set. For denials and admissions, give the limiter a logger:
// [stint.WithLogger]. The guard of [New] has a logger of its own: New panics.
func WithLogger(logger *slog.Logger) Option {
	if logger == nil {
		panic("httplimit: WithLogger: the logger is nil")
	}
	return option(func(f *responder) { f.logger = logger })
}

// defaultSendTimeout is that of nginx, halved.
const defaultSendTimeout = 30 * time.Second

// WithSendTimeout is how long a client may take nothing of a response that is watched (see the
// package's documentation) and waits to be sent: 30 seconds unless set, and any time if it is 0.
// After that the response is cut off, so that nobody keeps a place under a concurrency limit by not
// reading. Each write of 64 KiB has that time.
func WithSendTimeout(timeout time.Duration) Option {
	return option(func(f *responder) { f.timeout = timeout })
}

// WithVerdict makes the verdict known to the handler: see [FromContext]. By default it is not,
// because that takes a copy of the request and a context, two allocations.
func WithVerdict() Option {
	return option(func(f *responder) { f.shares = true })
}
