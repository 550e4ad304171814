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
// Each request costs one unit of every limit. The key says whose requests are counted together; it
// has no default, because if it were left out by mistake, everyone would share one count. Use
// [ClientIP], [Header], [FirstOf], [Everyone] or a function of your own. Under a concurrency limit,
// see [stint.AtOnce], a request keeps its place until the handler returns.
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
	key  KeyFunc
	text ruleText
}

// newLimit reports every mistake.
func newLimit(key KeyFunc, options []stint.Option) (*limit, error) {
	var noKey error
	if key == nil {
		noKey = errors.New("the key is nil; want one such as ClientIP(), or Everyone() to count all requests together")
	}
	own, others := bykey.Split[Option](options)
	f := newResponder(own)
	var noClaims error
	if f.claims != nil {
		noClaims = errors.New("WithClaims is for New; want a key that says who is asking")
	}
	limits, err := bykey.New(bykey.Config{Store: f.store, Stored: f.stored, Name: f.name,
		Logger: cmp.Or(f.logger, slog.Default()), Options: others})
	if err := errors.Join(noKey, noClaims, err); err != nil {
		return nil, err
	}
	if f.headers == nil {
		f.headers = new(policy.Headers)
	}
	return &limit{f, limits, key, newRuleText(&limits.Rule, limits.Rule.Limits, names{})}, nil
}

func (l *limit) handle(x *exchange, w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.shown = l.headers
	key := l.key(r)
	if key == "" {
		l.Failed(r.Context(), "", ErrNoKey)
		x.fail(w, r, ErrNoKey)
		return
	}
	all := key == everyone
	if all {
		key = bykey.Everyone
	}
	if err := l.Decide(r.Context(), key, all, x.v); err != nil {
		l.Failed(r.Context(), key, err)
		x.fail(w, r, err)
		return
	}
	x.rules = append(x.ruleRoom[:0], &l.text)
	if x.answer(w, r, nil) {
		return
	}
	x.serve(w, r, next, l.Follow(r.Context(), x.v))
}
