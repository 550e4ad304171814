package httplimit

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/bykey"
	"github.com/stint-limiter/stint/policy"
)

// By returns middleware that limits requests per key, without a configuration:
//
//	r.Use(httplimit.By(userOf, stint.PerMinute(100), stint.PerDay(5000)))
//
// Each request costs one unit of every limit, or what [WithCost] says. Limits that differ from
// caller to caller come from [WithLimits], and [AndBy] counts a request by a second key as well.
// The key says whose requests are counted together; it has no default, because if it were left out
// by mistake, everyone would share one count. Use [ClientIP], [Header], [FirstOf], [Everyone] or a
// function of your own. Under a concurrency limit, see [stint.AtOnce], a request keeps its place
// until the handler returns.
//
// The options are one or more limits, other options of package stint such as [stint.WithBans], and
// those of this package. Without [WithStore] the requests are counted in the memory of this
// process, and every call of By counts by itself, in 64 MiB at most: when that is full, the keys
// with the most left of their limits are evicted first. All handlers behind one returned middleware
// count together.
//
// A mistake in the arguments is a mistake in the program: By panics, and lists every mistake.
func By(key KeyFunc, options ...stint.Option) func(http.Handler) http.Handler {
	l, err := newLimit(key, options)
	if err != nil {
		panic("httplimit: By: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: By: the handler is nil; want the one to protect")
		}
		return l.handler(func(x *exchange, w http.ResponseWriter, r *http.Request) { l.handle(x, w, r, next) })
	}
}

// ByIP is [By] with the key [ClientIP] without trusted proxies:
//
//	http.ListenAndServe(":8080", httplimit.ByIP(stint.PerMinute(100))(mux))
//
// Behind a proxy or a load balancer all requests come from its address: use By and ClientIP with
// the addresses to trust.
func ByIP(options ...stint.Option) func(http.Handler) http.Handler {
	return By(ClientIP(), options...)
}

// limit is what the handlers of one middleware share.
type limit struct {
	*responder
	*bykey.Limits
	counts []*count
}

// count is one of those that a request is held to: that of [By], or of an [AndBy].
type count struct {
	key    KeyFunc
	limits func(*http.Request) []stint.Limit // nil: those that By was given
	cost   func(*http.Request) int64         // nil: 1
	texts  ruleTexts
}

// newLimit reports every mistake.
func newLimit(key KeyFunc, options []stint.Option) (*limit, error) {
	own, others := bykey.Split[Option](options)
	f := newResponder(own)
	l := &limit{responder: f}
	var errs []error
	add := func(name string, key KeyFunc, f *responder, others []stint.Option) bykey.Part {
		if key == nil {
			errs = append(errs, errors.New("the key is nil; "+
				"want one such as ClientIP(), or Everyone() to count all requests together"))
		}
		l.counts = append(l.counts, &count{key: key, limits: f.limits, cost: f.cost})
		return bykey.Part{Name: name, Options: others, Varies: f.limits != nil}
	}
	parts := []bykey.Part{add(f.name, key, f, others)}
	if f.claims != nil {
		errs = append(errs, errors.New("WithClaims is for New; want a key that says who is asking"))
	}
	for _, also := range f.also {
		own, others := bykey.Split[Option](also.options)
		if err := also.check(own, others); err != nil {
			errs = append(errs, err)
			continue
		}
		parts = append(parts, add(also.name, also.key, newResponder(own), others))
	}
	limits, err := bykey.New(bykey.Config{Store: f.store, Stored: f.stored,
		Logger: cmp.Or(f.logger, slog.Default()), Parts: parts})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if f.headers == nil {
		f.headers = new(policy.Headers)
	}
	l.Limits = limits
	taken := names{}
	for i := range l.counts {
		rule := &limits.Rules[i]
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

// ask appends what a request asks of each part. After an error the last one has no key.
func (l *limit) ask(asks []bykey.Ask, r *http.Request) ([]bykey.Ask, error) {
	for i := range l.counts {
		p := l.counts[i]
		a := bykey.Ask{Key: p.key(r), Cost: 1}
		if a.Shared = a.Key == everyone; a.Shared {
			a.Key = bykey.Everyone
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

// describe appends what there is to say of the results.
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
