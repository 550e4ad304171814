package httplimit

import (
	"errors"
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

// GuardOption sets up [New]. [WithClaims] is for New alone; every [Option] is a GuardOption, too.
type GuardOption interface{ applyToGuard(*responder) }

// Option sets up [New], [By] and [ByIP]. Options that return a [stint.ByOption] are for By and ByIP
// alone.
type Option interface {
	GuardOption
	stint.ByOption
}

// AnswerOption is an [Option] that [NewAnswer] takes, too.
type AnswerOption interface {
	Option
	applyToAnswer(*responder)
}

type guardOption func(*responder)

func (o guardOption) applyToGuard(f *responder) { o(f) }

// option is an [Option]. The embedded interface is nil: it only makes the type a [stint.ByOption].
type option struct {
	stint.ByOption
	set func(*responder)
}

func (o option) applyToGuard(f *responder) { o.set(f) }
func (o option) applyToBy(b *by)           { o.set(b.responder) }

type answerOption struct{ option }

func (o answerOption) applyToAnswer(f *responder) { o.set(f) }

func forAnswer(set func(*responder)) AnswerOption { return answerOption{option{set: set}} }

// byOption is an option of [By] alone, and countOption also one of [AndBy].
type byOption struct {
	stint.ByOption
	set func(*by)
}

func (o byOption) applyToBy(b *by) { o.set(b) }

type countOption struct {
	stint.ByOption
	set func(*count)
}

func (o countOption) applyToBy(b *by) { o.set(b.count) }

// responder is how requests are answered, whoever decides on them.
type responder struct {
	claims  func(*http.Request, string) string
	denied  func(http.ResponseWriter, *http.Request, *Denial)
	failed  func(http.ResponseWriter, *http.Request, error)
	headers *policy.Headers // nil: as the configuration says
	shares  bool            // the verdict, with the handler
	timeout time.Duration   // of a write
	random  func() float64  // 0 to below 1
	idle    sync.Pool       // of exchanges
	texts   atomic.Pointer[setText]
}

func newResponder() *responder {
	return &responder{random: rand.Float64, timeout: defaultSendTimeout}
}

// by holds the options of [By].
type by struct {
	*count
	*responder
	store  stint.Store
	stored bool // WithStore was used
	logger *slog.Logger
	also   []*count // of [AndBy]
}

// WithClaims passes what the application knows about the caller: the value of a claim of that name,
// such as "user" or "plan", or "". It is called while the request is judged, so whatever
// authenticates the request comes before the middleware. By default there are none.
func WithClaims(claims func(r *http.Request, name string) string) GuardOption {
	return guardOption(func(f *responder) { f.claims = claims })
}

// WithDenied replaces the answer to requests that are refused, 429 or 503. The header fields about
// limits and Retry-After are set by then. By default the answer is what [Denial.Answer] gives.
func WithDenied(denied func(w http.ResponseWriter, r *http.Request, d *Denial)) AnswerOption {
	return forAnswer(func(f *responder) { f.denied = denied })
}

// WithError replaces the answer to requests that could not be decided: the failure mode is "error"
// and the store failed, or there is no key to count by ([ErrNoKey]). By default that is 503 for a
// failure and 500 for a mistake. An answer that lets the request through is up to you. It is not
// called for a body that could not be read.
func WithError(failed func(w http.ResponseWriter, r *http.Request, err error)) AnswerOption {
	return forAnswer(func(f *responder) { f.failed = failed })
}

// WithHeaders says what answers show about limits. By default that is what the configuration says,
// and for [By] the X fields, with Reset since 1970 and a jitter of a fifth for [Everyone].
func WithHeaders(headers policy.Headers) AnswerOption {
	return forAnswer(func(f *responder) { f.headers = &headers })
}

// WithName names the policy of [By] in headers and answers: letters, digits and "_-.". By default
// the name is "default". In a shared store ([WithStore]) it is also the scope in which requests are
// counted: middlewares with the same name count together where their limits have the same window,
// and a count stays when you change the number of a limit; a new window starts empty. A policy of
// that name on the same store has the same scope.
func WithName(name string) stint.ByOption {
	return byOption{set: func(b *by) {
		b.name = name
		if !words.IsName(name) {
			b.errs = append(b.errs, fmt.Errorf("WithName(%q): want letters, digits and _-.", name))
		}
	}}
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
// not valid are a mistake: the request is answered with 500, or by [WithError].
func WithLimits(limits func(r *http.Request) []stint.Limit) stint.ByOption {
	return countOption{set: func(c *count) {
		c.limits = limits
		if limits == nil {
			c.errs = append(c.errs, errors.New("WithLimits: the function is nil"))
		}
	}}
}

// WithCost says how many units of every limit a request costs under [By]: one unless set. A cost of
// 0 charges nothing; one below 0 is a mistake, which is answered like one of [WithLimits].
func WithCost(cost func(r *http.Request) int64) stint.ByOption {
	return countOption{set: func(c *count) {
		c.cost = cost
		if cost == nil {
			c.errs = append(c.errs, errors.New("WithCost: the function is nil"))
		}
	}}
}

// AndBy counts each request of [By] by another key as well, in one decision: a request is charged
// to all keys or, if one of them has no room, to none. Two middlewares in a row would charge the
// first for what the second denies. A login that allows an address 20 attempts a minute and an
// account 5 in a quarter of an hour:
//
//	httplimit.ByIP(stint.PerMinute(20),
//		httplimit.AndBy("account", httplimit.FormField("email"), stint.Per(5, 15*time.Minute)))
//
// The name names the limits in header fields and answers, and in a shared store it is their scope,
// as with [WithName]. The options are limits, [WithLimits] and [WithCost]; all others belong to By.
func AndBy(name string, key KeyFunc, options ...stint.ByOption) stint.ByOption {
	return byOption{set: func(b *by) {
		c := &count{name: name, key: key}
		if !words.IsName(name) {
			c.errs = append(c.errs, errors.New("want a name of letters, digits and _-."))
		}
		for _, o := range options {
			switch o := o.(type) {
			case stint.Limit:
				c.options = append(c.options, o)
			case countOption:
				o.set(c)
			default:
				c.errs = append(c.errs, errors.New("want limits, WithLimits and WithCost; give By the other options"))
			}
		}
		for _, err := range c.errs {
			b.errs = append(b.errs, fmt.Errorf("AndBy(%q): %w", name, err))
		}
		b.also = append(b.also, c)
	}}
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
// ([WithName]) to count them separately, and to keep counts when you change the limits.
func WithStore(store stint.Store) stint.ByOption {
	return byOption{set: func(b *by) { b.store, b.stored = store, true }}
}

// WithLogger says where [By] logs requests that it cannot decide, at most five per second. By
// default, and if it is nil, that is slog.Default(). For denials and admissions, give the limiter a
// logger: [stint.WithLogger].
func WithLogger(logger *slog.Logger) stint.ByOption {
	return byOption{set: func(b *by) { b.logger = logger }}
}

// defaultSendTimeout is half of nginx's default.
const defaultSendTimeout = 30 * time.Second

// WithSendTimeout bounds how long a client may take nothing of a response that is watched (see the
// package's documentation) and waits to be sent: 30 seconds by default, and 0 sets no bound. After
// that the response is cut off, so that a client cannot keep a place under a concurrency limit by
// not reading. Each write of 64 KiB has that time.
func WithSendTimeout(timeout time.Duration) Option {
	return option{set: func(f *responder) { f.timeout = timeout }}
}

// WithVerdict passes the verdict to the handler: see [FromContext]. By default it is not passed,
// because that takes a copy of the request and a context, two allocations.
func WithVerdict() Option {
	return option{set: func(f *responder) { f.shares = true }}
}
