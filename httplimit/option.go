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
	set    func(*responder)
	ofPart bool // AndBy takes it, too
}

// foreign makes an Option a [stint.Option]. It is nil: [stint.New] reports an Option as a mistake.
type foreign = stint.Option

func option(set func(*responder)) Option { return Option{foreign: nil, set: set} }

// responder is how requests are answered, whoever decides on them.
type responder struct {
	claims  func(*http.Request, string) string
	denied  func(http.ResponseWriter, *http.Request, *Denial)
	failed  func(http.ResponseWriter, *http.Request, error)
	headers *policy.Headers // nil: as the configuration says
	name    string          // "" unless set
	logger  *slog.Logger    // nil unless set
	store   stint.Store
	stored  bool          // WithStore was used
	shares  bool          // the verdict, with the handler
	timeout time.Duration // of a write
	limits  func(*http.Request) []stint.Limit
	cost    func(*http.Request) int64
	also    []also
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

// WithLimits lets [By] hold each request to limits of its own: those of the customer, from your
// database or from a verified token. If it returns none, the limits that By was given apply; if
// there are none of these either, the request is not limited. In a store that is shared the limits
// need a name ([WithName]).
//
//	plan := func(r *http.Request) []stint.Limit {
//		return []stint.Limit{stint.PerMinute(customerOf(r).RequestsPerMinute)}
//	}
//	r.Use(httplimit.By(userOf, httplimit.WithLimits(plan)))
//
// What a customer has used stays when the number of a limit changes; a new window starts empty. It
// is called for every request, before the decision: keep what it needs in memory. Limits that are
// not valid are a mistake: the request is answered with 500, or by [WithError]. The guard of [New]
// has limits: New panics.
func WithLimits(limits func(r *http.Request) []stint.Limit) Option {
	if limits == nil {
		panic("httplimit: WithLimits: the function is nil")
	}
	return Option{set: func(f *responder) { f.limits = limits }, ofPart: true}
}

// WithCost says how many units of every limit a request costs under [By]: one unless set. A cost of
// 0 charges nothing; one below 0 is a mistake, which is answered like one of [WithLimits]. The
// guard of [New] knows costs by its configuration: New panics.
func WithCost(cost func(r *http.Request) int64) Option {
	if cost == nil {
		panic("httplimit: WithCost: the function is nil")
	}
	return Option{set: func(f *responder) { f.cost = cost }, ofPart: true}
}

// AndBy counts each request of [By] by another key as well, in one decision: a request is charged
// to all keys or, if one of them has no room, to none. Two middlewares in a row would charge the
// first for what the second denies. A login that allows an address 20 attempts a minute and an
// account 5 in a quarter of an hour:
//
//	httplimit.ByIP(stint.PerMinute(20),
//		httplimit.AndBy("account", httplimit.FormField("email"), stint.Per(5, 15*time.Minute)))
//
// The name is what header fields and answers call the limits, and in a shared store it is their
// scope, as with [WithName]. The options are limits, [WithLimits] and [WithCost]; the rest belongs
// to By. [New] has policies for this, and panics.
func AndBy(name string, key KeyFunc, options ...stint.Option) Option {
	return option(func(f *responder) { f.also = append(f.also, also{name, key, options}) })
}

// also is what [AndBy] was given.
type also struct {
	name    string
	key     KeyFunc
	options []stint.Option
}

// check reports what AndBy does not take.
func (a *also) check(own []Option, others []stint.Option) error {
	if !words.IsName(a.name) {
		return fmt.Errorf("AndBy(%q): want a name of letters, digits and _-.", a.name)
	}
	for _, o := range others {
		if _, ok := o.(stint.Limit); !ok {
			return fmt.Errorf("AndBy(%q): want limits, WithLimits and WithCost; give By the other options", a.name)
		}
	}
	for _, o := range own {
		if o.set != nil && !o.ofPart {
			return fmt.Errorf("AndBy(%q): want limits, WithLimits and WithCost; give By the other options", a.name)
		}
	}
	return nil
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
