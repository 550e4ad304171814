package simulate_test

import (
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

// Every run uses the same cases, so that a test fails only if the code has changed. -rapid.seed=0
// draws other cases.
var _ = flag.Set("rapid.seed", "1")

// drawConfig draws a configuration with a random selection of features.
func drawConfig(rt *rapid.T) string {
	var b strings.Builder
	some := func(name string) bool { return rapid.Bool().Draw(rt, name) }
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("headers: {retry_after_jitter: 0%%}")
	if some("bans") {
		line("bans: {after: %d, within: 10s, durations: [20s, 2m], forgive: 1m}",
			rapid.IntRange(1, 4).Draw(rt, "ban after"))
	}
	if some("request id") {
		line("request_id: {header: Idempotency-Key, life: 30s}")
	}
	line("tiers:")
	if some("tier pro") {
		line("  - {name: pro, match: {claim: {plan: pro}}, identity: user, %s}", drawTier(rt))
	}
	if some("tier users") {
		line("  - {name: users, identity: user, %s}", drawTier(rt))
	}
	line("  - {name: anyone, identity: ip, %s}", drawTier(rt))

	line("policies:")
	if some("health") {
		line("  - {name: health, match: {path: /health}, skip: true}")
	}
	if some("search") {
		line("  - {name: search, match: {path: /search}, limits: %s, %s}",
			drawLimits(rt, "search", 6), drawSeverity(rt))
	}
	if some("items") {
		line("  - {name: items, match: {path: '/items/{id}'}, per: [id, method], limits: %s, "+
			"cost: {header: X-Cost, max: 9}}", drawLimits(rt, "items", 7))
	}
	if some("transfer") {
		line("  - {name: transfer, budget: %s, settle: {bytes: 1KB}, refund: [5xx, 404], %s}",
			drawLimits(rt, "transfer", 6), drawSeverity(rt))
	}
	line("  - {name: site, identity: everyone, limits: %s}", drawLimits(rt, "site", 7))
	return b.String()
}

func drawTier(rt *rapid.T) string {
	scope := rapid.SampledFrom([]string{"global", "route", "none"}).Draw(rt, "scope")
	tier := fmt.Sprintf("scope: %s, limits: %s, %s", scope, drawLimits(rt, "tier", 6), drawSeverity(rt))
	if rapid.Bool().Draw(rt, "budget") {
		tier += ", budget: 'costs: 12/20s'"
	}
	return tier
}

func drawSeverity(rt *rapid.T) string {
	forms := []string{"shadow: false", "shadow: false", "shadow: true", "rollout: 50%"}
	return rapid.SampledFrom(forms).Draw(rt, "severity")
}

// drawLimits draws small limits of the first few kinds, each with a different window. The name
// keeps the limits of different policies apart.
func drawLimits(rt *rapid.T, name string, kinds int) string {
	forms := []func(n int) string{
		func(n int) string { return fmt.Sprintf("%d/1m", n) },
		func(n int) string { return fmt.Sprintf("%d/5s burst 2x", n) },
		func(n int) string { return fmt.Sprintf("%d/1h", 3*n) },
		func(n int) string { return fmt.Sprintf("%d/30s burst %d bucket", n, n+2) },
		func(n int) string { return fmt.Sprintf("%d/10s fixed", n) },
		func(n int) string { return fmt.Sprintf("%d/3s", 120+n) }, // above 125, the limit has slices
		func(n int) string { return fmt.Sprintf("%d/2m concurrency", n) },
	}
	var limits []string
	for _, kind := range rapid.SliceOfNDistinct(rapid.IntRange(0, kinds-1), 1, 3, rapid.ID).Draw(rt, "limits") {
		limits = append(limits, fmt.Sprintf("'%s: %s'", name, forms[kind](rapid.IntRange(1, 6).Draw(rt, "max"))))
	}
	return "[" + strings.Join(limits, ", ") + "]"
}

// drawLog draws requests, each after a pause. The first pause begins at the given time. Pauses last
// from zero to an hour, the longest window.
func drawLog(rt *rapid.T, at time.Time) []accesslog.Record {
	pauses := []time.Duration{
		0, 0, time.Microsecond, 40 * time.Millisecond, time.Second, 2999 * time.Millisecond, 5 * time.Second,
		20 * time.Second, time.Minute, time.Hour,
	}
	one := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(rt, name) }
	var log []accesslog.Record
	for range rapid.IntRange(1, 60).Draw(rt, "requests") {
		at = at.Add(rapid.SampledFrom(pauses).Draw(rt, "pause"))
		r := accesslog.Record{
			At: at.UnixNano(), Client: netip.MustParseAddr(one("client", "192.0.2.1", "192.0.2.2", "2001:db8::1")),
			User: one("user", "", "ann", "bob"), Method: one("method", "GET", "POST"), Host: "example.com",
			Path:   one("path", "/", "/search", "/search/", "/items/1", "/items/2", "/health"),
			Status: rapid.SampledFrom([]int{200, 200, 200, 404, 503}).Draw(rt, "status"),
			Bytes:  rapid.SampledFrom([]int64{0, 10, 2500}).Draw(rt, "bytes"),
		}
		if plan := one("plan", "", "pro"); plan != "" {
			r.Claims = append(r.Claims, accesslog.Field{Name: "plan", Value: plan})
		}
		if cost := one("cost", "", "3"); cost != "" {
			r.Headers = append(r.Headers, accesslog.Field{Name: "X-Cost", Value: cost})
		}
		if id := one("id", "", "", "a", "b"); id != "" {
			r.Headers = append(r.Headers, accesslog.Field{Name: "Idempotency-Key", Value: id})
		}
		log = append(log, r)
	}
	return log
}
