package httplimit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// GuardOption configures [New]. [WithClaims] is only for New; every [Option] is also a GuardOption.
type GuardOption interface{ applyToGuard(*responder) }

// ByOption configures [By] and [ByIP]. Limits, all other options of package stint and every
// [Option] are ByOptions.
type ByOption = stint.HTTPOption

// Option configures [New], [By] and [ByIP].
type Option interface {
	GuardOption
	ByOption
}

// AnswerOption is an [Option] that [NewAnswer] accepts too.
type AnswerOption interface {
	Option
	applyToAnswer(*responder)
}

type guardOption func(*responder)

func (o guardOption) applyToGuard(f *responder) { o(f) }

// option is an [Option]. The embedded interface is nil: it only makes the type a [ByOption].
type option struct {
	ByOption
	set func(*responder)
}

func (o option) applyToGuard(f *responder) { o.set(f) }
func (o option) applyToBy(b *by)           { o.set(b.limit.responder) }

type answerOption struct{ option }

func (o answerOption) applyToAnswer(f *responder) { o.set(f) }

func forAnswer(set func(*responder)) AnswerOption { return answerOption{option{set: set}} }

// byOption is an option of [By] only.
type byOption struct {
	ByOption
	set func(*by)
}

func (o byOption) applyToBy(b *by) { o.set(b) }

// by holds the settings that the options of [By] change.
type by struct {
	middleware.Config
	limit *limit
	first *count // count for By's own key; AndBy adds more
}

// responder holds the settings and state for answering requests, whether a guard or [By] decides
// them.
type responder struct {
	claims  func(*http.Request, string) string
	denied  func(http.ResponseWriter, *http.Request, *Denial)
	failed  func(http.ResponseWriter, *http.Request, error)
	headers *policy.Headers // if nil, the configuration selects them
	shares  bool            // whether the handler gets the verdict
	timeout time.Duration   // time limit for one write of a response
	random  func() float64  // returns numbers in [0, 1)
	idle    sync.Pool       // holds *exchange
	texts   atomic.Pointer[setText]
	errs    []error
}

func newResponder() *responder {
	return &responder{random: rand.Float64, timeout: defaultSendTimeout}
}

// configured returns a responder with the given options. If an option is invalid, it panics with a
// message that names the constructor.
func configured[O any](constructor string, options []O, apply func(O, *responder)) *responder {
	f := newResponder()
	for _, o := range options {
		if any(o) == nil {
			f.errs = append(f.errs, errors.New("an option is nil; want one from package httplimit"))
			continue
		}
		apply(o, f)
	}
	middleware.Must("httplimit: "+constructor, errors.Join(f.errs...))
	return f
}

// WithClaims sets a function that returns the value of a claim about the caller, such as "user" or
// "plan", or "" if the application does not know it. The function is called while the request is
// decided, so authentication must come before the middleware. By default there are no claims.
func WithClaims(claims func(r *http.Request, name string) string) GuardOption {
	return guardOption(func(f *responder) { f.claims = claims })
}

// WithDenied replaces the answer, 429 or 503, to requests that are refused. The header fields about
// limits and Retry-After are set before the function is called. By default, the middleware calls
// [Denial.Answer].
func WithDenied(denied func(w http.ResponseWriter, r *http.Request, d *Denial)) AnswerOption {
	return forAnswer(func(f *responder) { f.denied = denied })
}

// WithError replaces the answer to requests that could not be decided. Either the store failed and
// the failure mode is "error", or the request has no key ([ErrNoKey]), invalid limits or an invalid
// cost. By default, the answer is 503 if the store failed, and 500 otherwise. The function may also
// serve the request. It is not called if the request's context has ended, or for a body that could
// not be read.
func WithError(failed func(w http.ResponseWriter, r *http.Request, err error)) AnswerOption {
	return forAnswer(func(f *responder) { f.failed = failed })
}

// WithHeaders selects the header fields about limits. By default, the configuration selects them.
// [By] has no configuration: by default, it sends the X fields, with Reset in seconds since 1970,
// and adds a jitter of up to a fifth to Retry-After if the key is [Everyone].
func WithHeaders(headers policy.Headers) AnswerOption {
	return forAnswer(func(f *responder) {
		f.headers = &headers
		if j := headers.Jitter; j != nil && !(*j >= 0 && *j <= 1) {
			f.errs = append(f.errs, fmt.Errorf("WithHeaders: a jitter of %v; want a share from 0 to 1", *j))
		}
	})
}

// WithName sets the policy name that [By] shows in headers and answers. It may contain letters,
// digits and "_-."; the default is "default". In a shared store ([WithStore]), the name is also the
// scope in which requests are counted: middlewares with the same name share the counts of limits
// with the same window. A configured policy of that name shares these counts too. If the maximum of
// a limit changes, its count is kept; if its window changes, the count starts from zero.
func WithName(name string) ByOption {
	return byOption{set: func(b *by) {
		b.first.Name = name
		b.first.Check(syntax.IsName(name), "WithName(%q): want letters, digits and _-.", name)
	}}
}

// WithLimits gives each request under [By] its own limits, such as those of the customer, from a
// database or a verified token. If the function returns none, the limits passed to By apply. If By
// has no limits either, the request is not limited. In a shared store, the limits need a name
// ([WithName]).
//
//	plan := func(r *http.Request) []stint.Limit {
//		return []stint.Limit{stint.PerMinute(customerOf(r).RequestsPerMinute)}
//	}
//	r.Use(httplimit.By(userOf, httplimit.WithLimits(plan)))
//
// If the maximum of a limit changes, a customer's usage is kept; if its window changes, usage
// starts from zero. The function is called for every request, before the decision: keep its data in
// memory. A request with invalid limits is answered with 500, or by the function of [WithError].
func WithLimits(limits func(r *http.Request) []stint.Limit) ByOption {
	return byOption{set: func(b *by) {
		b.limit.limits, b.first.Varies = limits, limits != nil
		b.first.Check(limits != nil, "WithLimits: the function is nil")
	}}
}

// WithCost sets the cost of a request under [By] and [AndBy], which is the number of units that the
// request takes from every limit; the default is one. A cost of 0 charges nothing. A request with a
// negative cost is answered with 500, or by the function of [WithError].
func WithCost(cost func(r *http.Request) int64) ByOption {
	return byOption{set: func(b *by) {
		b.limit.cost = cost
		b.first.Check(cost != nil, "WithCost: the function is nil")
	}}
}

// AndBy counts each request under [By] by another key as well, in one decision: a request is
// charged to all keys or, if one of them has no room, to none. If two separate middlewares were
// used instead, the first would charge requests that the second then denies. For example, a login
// may allow 20 attempts per minute for an address and 5 per 15 minutes for an account:
//
//	httplimit.ByIP(stint.PerMinute(20),
//		httplimit.AndBy("account", httplimit.FormField("email"), stint.Per(5, 15*time.Minute)))
//
// The name appears in header fields and answers, and in a shared store it is the scope of the
// limits, as with [WithName]. Options of By apply to all keys, except for [WithLimits], which
// replaces only the limits of the first key.
func AndBy(name string, key KeyFunc, limits ...stint.Limit) ByOption {
	return byOption{set: func(b *by) {
		c := newCount(name, key)
		c.Check(syntax.IsName(name), "want a name of letters, digits and _-.")
		for _, l := range limits {
			c.Options = append(c.Options, l)
		}
		b.limit.counts = append(b.limit.counts, c)
	}}
}

// WithStore sets the store in which [By] counts. Use a store in Redis for limits that apply across
// processes, or pass any store that you want to monitor and close yourself. Package stores opens a
// store:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//	...
//	r.Use(httplimit.ByIP(stint.PerMinute(100), httplimit.WithStore(store)))
//
// In one store, requests with equal keys are counted together, across processes, if the middlewares
// have the same name, or no name and the same limits. Give each middleware a name ([WithName]) to
// count them separately, and to keep counts when the limits change.
func WithStore(store stint.Store) ByOption {
	return byOption{set: func(b *by) { b.Store, b.Stored = store, true }}
}

// defaultSendTimeout is half of nginx's default send_timeout.
const defaultSendTimeout = 30 * time.Second

// WithSendTimeout sets the time after which a response is cut off if there is data to send but the
// client reads none of it. The default is 30 seconds; 0 means no timeout. Without a timeout, a
// client could keep a place under a concurrency limit by not reading. The timeout applies to each
// write of up to 64 KiB, in the responses that the middleware watches: see "After the response" in
// the package documentation.
func WithSendTimeout(timeout time.Duration) Option {
	return option{set: func(f *responder) { f.timeout = timeout }}
}

// WithVerdict passes the verdict to the handler; see [FromContext]. It is off by default, because a
// copy of the request and a new context take two allocations.
func WithVerdict() Option {
	return option{set: func(f *responder) { f.shares = true }}
}
