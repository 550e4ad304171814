package httplimit

import (
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/policy"
)

// By returns middleware that limits requests per key, without a configuration:
//
//	r.Use(httplimit.By(userOf, stint.PerMinute(100), stint.PerDay(5000)))
//
// Each request costs one unit of every limit, unless [WithCost] sets another cost. Limits that
// differ between callers come from [WithLimits], and [AndBy] counts a request by a second key as
// well. Requests with equal keys are counted together. The key has no default: otherwise, if it
// were left out by mistake, all clients would share one count. Use [ClientIP], [Header], [FirstOf],
// [Everyone] or a function of your own. Under a concurrency limit ([stint.Concurrency]), a request
// keeps its place until the handler returns.
//
// The options are limits (at least one, unless [WithLimits] gives them), other options of package
// stint, such as [stint.WithBans], and options of this package. Without [WithStore] the requests
// are counted in the memory of this process. In that case, each call to By has separate counts, in
// at most 64 MiB. When that memory is full, the keys with the most units left are evicted first.
// All handlers that the returned middleware wraps share its counts. Requests that cannot be decided
// are logged at ERROR, at most five per second, to the logger of [stint.WithLogger] or, without it,
// to slog.Default().
//
// By panics if an argument is invalid, and lists every mistake. [NewBy] returns an error instead.
func By(key KeyFunc, options ...ByOption) func(http.Handler) http.Handler {
	limit, err := NewBy(key, options...)
	middleware.Must("httplimit: By", err)
	return limit
}

// NewBy is like [By] for arguments that come from a configuration: it returns all mistakes in one
// [*stint.InvalidError] instead of panicking.
func NewBy(key KeyFunc, options ...ByOption) (func(http.Handler) http.Handler, error) {
	l, err := newLimit(key, options)
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: By: the handler is nil; want the one to protect")
		}
		return l.handler(func(x *exchange, w http.ResponseWriter, r *http.Request) { l.handle(x, w, r, next) })
	}, nil
}

// ByIP is [By] with the key [ClientIP] without trusted proxies:
//
//	http.ListenAndServe(":8080", httplimit.ByIP(stint.PerMinute(100))(mux))
//
// Behind a proxy or a load balancer, all requests come from the proxy's address. In that case, use
// By with a ClientIP that lists the proxies to trust.
func ByIP(options ...ByOption) func(http.Handler) http.Handler {
	return By(ClientIP(), options...)
}

// limit holds the state that the handlers of one middleware share.
type limit struct {
	*responder
	*middleware.Limits
	counts []*count
	// limits returns the limits of a request for the first count. If it is nil or returns none, the
	// limits in the Options of that count apply.
	limits func(*http.Request) []stint.Limit
	// cost returns the cost of a request in all counts. If it is nil, the cost is 1.
	cost func(*http.Request) int64
}

// count is one of the counts to which a request is charged. The first comes from the key of [By],
// the others from [AndBy].
type count struct {
	middleware.Part
	key   KeyFunc
	texts ruleTexts
}

func newCount(name string, key KeyFunc) *count {
	c := &count{Part: middleware.Part{Name: name}, key: key}
	c.Check(key != nil, "the key is nil; "+
		"want one such as ClientIP() or Header(\"X-API-Key\"), or Everyone() to count all requests together")
	return c
}

// newLimit returns the state of a middleware, or every mistake in one [*stint.InvalidError].
func newLimit(key KeyFunc, options []ByOption) (*limit, error) {
	first := newCount("", key)
	l := &limit{responder: newResponder(), counts: []*count{first}}
	b := &by{limit: l, first: first}
	for _, o := range options {
		if own, ok := o.(interface{ applyToBy(*by) }); ok {
			own.applyToBy(b)
			continue
		}
		general, _ := o.(stint.Option) // if this is nil, stint.New reports it
		first.Options = append(first.Options, general)
	}
	first.Errs = append(first.Errs, l.errs...)
	for _, c := range l.counts {
		b.Parts = append(b.Parts, c.Part)
	}
	var err error
	if l.Limits, err = middleware.New(b.Config); err != nil {
		return nil, err
	}
	if l.headers == nil {
		l.headers = new(policy.Headers)
	}
	taken := names{}
	for i := range l.counts {
		rule := &l.Rules[i]
		l.counts[i].texts.own = newRuleText(rule, rule.Limits, taken.nameIn(rule))
	}
	return l, nil
}

func (l *limit) handle(x *exchange, w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.shown = l.headers
	if err := l.Decide(r.Context(), l.ask(x.askRoom[:0], r), x.v); err != nil {
		x.fail(w, r, err)
		return
	}
	x.rules = l.describe(x.v.Results, x.ruleRoom[:0])
	if x.answer(w, r, nil) {
		return
	}
	x.serve(w, r, next, l.Follow(r.Context(), x.v))
}

// ask appends an Ask for each count, up to and including the first one for which the request has no
// key.
func (l *limit) ask(asks []middleware.Ask, r *http.Request) []middleware.Ask {
	cost := int64(1)
	for i, c := range l.counts {
		a := middleware.Ask{Key: c.key(r)}
		if a.Shared = a.Key == everyone; a.Shared {
			a.Key = middleware.Everyone
		}
		if a.Key == "" {
			return append(asks, a)
		}
		if i == 0 && l.limits != nil {
			a.Limits = l.limits(r)
		}
		if i == 0 && l.cost != nil {
			cost = l.cost(r)
		}
		a.Cost = cost
		asks = append(asks, a)
	}
	return asks
}

// describe appends the texts for results to a slice, and returns the extended slice.
func (l *limit) describe(results []policy.Result, to []*ruleText) []*ruleText {
	for i := range results {
		r := &results[i]
		at := 0
		for r.Rule != &l.Rules[at] {
			at++
		}
		to = append(to, l.counts[at].texts.of(r))
	}
	return to
}
