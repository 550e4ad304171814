package httplimit

import (
	"errors"
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
// well. Requests with equal keys are counted together. The key has no default, because if it were
// left out by mistake, everyone would share one count. Use [ClientIP], [Header], [FirstOf],
// [Everyone] or a function of your own. Under a concurrency limit, see [stint.AtOnce], a request
// keeps its place until the handler returns.
//
// The options are one or more limits, other options of package stint such as [stint.WithBans], and
// options of this package. Without [WithStore] the requests are counted in the memory of this
// process. Each call of By then has separate counts, in 64 MiB at most: when that is full, the keys
// with the most left of their limits are evicted first. All handlers wrapped by one returned
// middleware share its counts.
//
// By panics if an argument is invalid, and lists every mistake. [NewBy] returns an error instead.
func By(key KeyFunc, options ...ByOption) func(http.Handler) http.Handler {
	limit, err := NewBy(key, options...)
	middleware.Must("httplimit: By", err)
	return limit
}

// NewBy is like [By] for programs whose keys, limits or store come from a configuration: it returns
// all mistakes in one [*stint.InvalidError] instead of panicking.
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
// Behind a proxy or a load balancer all requests come from the proxy's address: use By, and
// ClientIP with the addresses of the proxies to trust.
func ByIP(options ...ByOption) func(http.Handler) http.Handler {
	return By(ClientIP(), options...)
}

// limit is the state that the handlers of one middleware share.
type limit struct {
	*responder
	*middleware.Limits
	counts []*count
}

// count is one of the counts of a request: from [By] or from an [AndBy].
type count struct {
	middleware.Part
	key    KeyFunc
	limits func(*http.Request) []stint.Limit // nil: the limits in Options
	cost   func(*http.Request) int64         // nil: 1
	texts  ruleTexts
}

func newCount(name string, key KeyFunc) *count {
	c := &count{Part: middleware.Part{Name: name}, key: key}
	if key == nil {
		c.Errs = append(c.Errs, errors.New("the key is nil; "+
			"want one such as ClientIP() or Header(\"X-API-Key\"), or Everyone() to count all requests together"))
	}
	return c
}

// newLimit returns the state of a middleware, or every mistake in one [*stint.InvalidError].
func newLimit(key KeyFunc, options []stint.ByOption) (*limit, error) {
	b := &by{count: newCount("", key), responder: newResponder()}
	b.Add("httplimit", options, b.apply)
	b.Errs = append(b.Errs, b.responder.errs...)
	l := &limit{responder: b.responder, counts: append([]*count{b.count}, b.also...)}
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
	asks, err := l.ask(x.askRoom[:0], r)
	if err == nil {
		err = l.Decide(r.Context(), asks, x.v)
	}
	if err != nil {
		l.Failed(r.Context(), asks[len(asks)-1].Key, err)
		x.fail(w, r, err)
		return
	}
	x.rules = l.describe(x.v.Results, x.ruleRoom[:0])
	if x.answer(w, r, nil) {
		return
	}
	x.serve(w, r, next, l.Follow(r.Context(), x.v))
}

// ask appends the question of a request to each part. After an error, the last one has no key.
func (l *limit) ask(asks []middleware.Ask, r *http.Request) ([]middleware.Ask, error) {
	for i := range l.counts {
		p := l.counts[i]
		a := middleware.Ask{Key: p.key(r), Cost: 1}
		if a.Shared = a.Key == everyone; a.Shared {
			a.Key = middleware.Everyone
		}
		if a.Key != "" && p.limits != nil {
			a.Limits = p.limits(r)
		}
		if a.Key != "" && p.cost != nil {
			a.Cost = p.cost(r)
		}
		if asks = append(asks, a); a.Key == "" {
			return asks, ErrNoKey
		}
	}
	return asks, nil
}

// describe appends the texts of the results.
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
