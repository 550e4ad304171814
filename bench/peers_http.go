package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	limiterhttp "github.com/sethvargo/go-limiter/httplimit"
	golimiter "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// tierTable holds the five tiers of the example configuration, five policies by path, and a tier with
// three windows whose limits no run reaches.
const tierTable = `
identities: {service: {claim: service, type: internal}}
tiers:
  - {name: vast, match: {claim: {plan: vast}}, identity: user, limits: [1000000000/1m burst 2x, 60000000000/1h, 1440000000000/1d]}
  - {name: internal, identity: service, scope: none, limits: 1000/1m}
  - {name: enterprise, match: {claim: {plan: enterprise}}, identity: user, limits: [500/1m burst 5x, 10000/1h]}
  - {name: pro, match: {claim: {plan: pro}}, identity: user, limits: [100/1m burst 3x, 2000/1h, 50000/1d]}
  - {name: free, identity: user, limits: [30/1m burst 2x, 500/1h, 5000/1d]}
  - {name: anonymous, identity: ip, limits: [10/1m burst 2x, 100/1h, 1000/1d]}
policies:
  - {name: assets, match: {path: [/static/**, /favicon.ico, /robots.txt]}, skip: true}
  - {name: structure, match: {method: GET, path: "/structures/{id}"}, cost: 1}
  - {name: simulate, match: {method: POST, path: /simulations}, cost: 10}
  - {name: frames, match: {method: GET, path: "/simulations/{id}/frames"}, cost: 5}
  - {name: export, match: {method: POST, path: "/structures/{id}/pdf"}, cost: 3}
`

// middleware wraps a handler in limits. If allowed is true, no run reaches these limits; otherwise,
// they deny the requests that are measured.
type middleware struct {
	name string
	open func(next http.Handler, allowed bool) (_ http.Handler, closer func())
}

// middlewares lists the contenders: no middleware first, then stint.
var middlewares = []middleware{
	{"bare", func(next http.Handler, _ bool) (http.Handler, func()) { return next, func() {} }},
	{"stint, tiers", openTiers("x")},
	{"stint, tiers, draft-11", openTiers("draft-11")},
	{"stint, the whole example", openExample},
	{"stint, ByIP", openByIP},
	{"go-limiter", openGoLimiterHTTP},
	{"throttled", openThrottledHTTP},
	{"ulule", openUluleHTTP},
}

// reach returns the limit, in requests per hour, for the contenders that have one limit.
func reach(allowed bool) int64 {
	if allowed {
		return huge
	}
	return 1
}

// openTiers opens middleware with tierTable. Its requests are allowed in the vast tier, or denied
// in the anonymous tier.
func openTiers(format string) func(http.Handler, bool) (http.Handler, func()) {
	return func(next http.Handler, allowed bool) (http.Handler, func()) {
		return openGuarded(next, "headers: {format: "+format+"}"+tierTable, "vast", allowed)
	}
}

// openExample opens middleware with the example configuration, except that no run reaches the
// limits of the enterprise tier. A request is charged to its tier and to a budget; responses have
// the X-RateLimit fields and the fields of the IETF draft.
func openExample(next http.Handler, allowed bool) (http.Handler, func()) {
	text := strings.NewReplacer(
		"[500/1m burst 5x, 10000/1h, unlimited/1d]", "[1000000000/1m burst 2x, 60000000000/1h, 1440000000000/1d]",
		"default: unlimited", "default: 60000000000/1h").Replace(string(tiers.YAML))
	return openGuarded(next, text, "enterprise", allowed)
}

// openGuarded opens middleware with a configuration. Its requests come from a user with the plan if
// they are to be allowed, and otherwise from an anonymous user.
func openGuarded(next http.Handler, text, plan string, allowed bool) (http.Handler, func()) {
	store := contest.Must(memorystore.New(memorystore.Config{}))
	guard := newGuard(store, text, nil)
	var options []httplimit.GuardOption
	if allowed {
		options = append(options, httplimit.WithClaims(func(_ *http.Request, name string) string {
			switch name {
			case "user":
				return "42"
			case "plan":
				return plan
			}
			return ""
		}))
	}
	return httplimit.New(guard, options...)(next), func() { store.Close() }
}

func newGuard(store stint.Store, text string, o stint.Observer) *policy.Guard {
	conf := contest.Must(config.Parse("bench.yaml", []byte(text)))
	quiet := policy.GuardConfig{Observer: o, Logger: slog.New(slog.DiscardHandler)}
	return contest.Must(policy.NewGuard(store, conf.Set, quiet))
}

func openByIP(next http.Handler, allowed bool) (http.Handler, func()) {
	return httplimit.ByIP(stint.PerHour(reach(allowed)))(next), func() {}
}

func openGoLimiterHTTP(next http.Handler, allowed bool) (http.Handler, func()) {
	store := contest.Must(golimiter.New(&golimiter.Config{Tokens: uint64(reach(allowed)), Interval: time.Hour}))
	m := contest.Must(limiterhttp.NewMiddleware(store, limiterhttp.IPKeyFunc()))
	return m.Handle(next), func() { store.Close(context.Background()) }
}

func openThrottledHTTP(next http.Handler, allowed bool) (http.Handler, func()) {
	store := contest.Must(memstore.NewCtx(0))
	lim := contest.Must(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(int(reach(allowed)), time.Hour), MaxBurst: int(reach(allowed)) - 1,
	}))
	m := &throttled.HTTPRateLimiterCtx{RateLimiter: lim, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	return m.RateLimit(next), func() {}
}

func openUluleHTTP(next http.Handler, allowed bool) (http.Handler, func()) {
	lim := limiter.New(memory.NewStore(), limiter.Rate{Limit: reach(allowed), Period: time.Hour})
	return stdlib.NewMiddleware(lim).Handler(next), func() {}
}
