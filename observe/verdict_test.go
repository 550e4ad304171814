package observe_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

const manyReasons = `
tiers:
  - {name: member, identity: user, limits: 5/1m}
  - {name: anyone, identity: ip, limits: unlimited, bans: {after: 3, within: 1m, durations: [10m]}}
policies:
  - {name: free, match: {path: /free}, skip: true}
  - {name: search, match: {path: /search}, limits: 3/1m}
  - {name: trial, match: {path: /trial}, limits: 2/1m, shadow: true}
request_id: {header: Idempotency-Key}
`

// TestReasonsOfFailures: what becomes of requests when the store fails is counted as that.
func TestReasonsOfFailures(t *testing.T) {
	const text = `
tiers: [{name: anyone, identity: ip, limits: 1/1m}]
failure: {mode: %s}
`
	for mode, want := range map[string]struct {
		reasons []counted
		counts  observe.Counts
	}{
		"local": {[]counted{{"anyone", "", "allowed", "degraded", 1}, {"anyone", "", "denied", "degraded", 3}},
			observe.Counts{Allowed: 1, Denied: 3, Degraded: 4}},
		"allow": {[]counted{{"anyone", "", "allowed", "degraded", 4}}, observe.Counts{Allowed: 4, Degraded: 4}},
		"deny":  {[]counted{{"anyone", "", "denied", "unavailable", 4}}, observe.Counts{Denied: 4, Degraded: 4}},
		"error": {[]counted{{"anyone", "", "failed", "timeout", 4}}, observe.Counts{Failed: 4}},
	} {
		t.Run(mode, func(t *testing.T) {
			m := newMonitor(t)
			stack := guardtest.Stack(t, guardtest.Failing{Err: timeout()}, resilience.Config{Instances: 1, Observer: m})
			ask(t, guardtest.New(t, stack, fmt.Sprintf(text, mode), policy.GuardConfig{Observer: m}), 4, get("/"))
			wantCounted(t, m, want.reasons)
			if got, _, _ := m.CountedAll(); got != want.counts {
				t.Errorf("counted %+v, want %+v", got, want.counts)
			}
		})
	}
}

// TestCountsAreExact with many goroutines, and sets that change under them.
func TestCountsAreExact(t *testing.T) {
	const goroutines, each = 20, 500
	m, g := watched(t, `tiers: [{name: anyone, identity: ip, limits: 100/1h}]`)
	other := guardtest.Parse(t, `
tiers: [{name: anyone, identity: ip, limits: 100/1h}]
policies: [{name: search, match: {path: /search}, cost: 2}]`)
	var group sync.WaitGroup
	for i := range goroutines {
		group.Go(func() {
			if i%5 == 0 {
				_ = g.Replace(other)
			}
			ask(t, g, each, get("/search"))
		})
	}
	group.Wait()
	got, series, timed := m.CountedAll()
	if got.Allowed != 100 || got.Denied != goroutines*each-100 || series > 2 {
		t.Errorf("counted %+v in %d series; want 100 allowed and %d denied in 2 at most", got, series, goroutines*each-100)
	}
	if timed == 0 || timed > goroutines*each {
		t.Errorf("%d of %d were timed", timed, goroutines*each)
	}
}

// TestF34Series: many subjects with hostile names, and whatever else a request can say, leave the
// number of series as it was.
func TestF34Series(t *testing.T) {
	const subjects, requests = 10_000, 1_000
	m, g := watched(t, `
identities: {apikey: {header: X-API-Key}}
tiers:
  - {name: keyed, identity: apikey, limits: 1/1m}
  - {name: user, identity: user, limits: 0/1m}
  - {name: rest, identity: ip, limits: 1/1m}
policies:
  - {name: things, match: {path: "/things/{id}"}, per: [id, method], limits: 1/1m}
`)
	const hostile = "\"} 1\nstint_forged_total{a=\"\xff\x00\x1b[31m"
	for i := range requests {
		evil := fmt.Sprint(i, hostile)
		ask(t, g, 1, policy.Input{Method: evil, Host: evil, Path: "/things/" + evil, Peer: client,
			Header: http.Header{"X-Api-Key": {evil}}})
	}
	in := get("/")
	for i := range subjects {
		in.Claims = claims{"user": strconv.Itoa(i) + hostile}
		ask(t, g, 1, in)
	}
	if got, series, _ := m.CountedAll(); series != 2 || got.Allowed != int64(requests) ||
		got.Denied != int64(subjects) {
		t.Errorf("%d series, %+v; want 2, %d allowed and %d denied", series, got, requests, subjects)
	}
}

// TestReasons: every decision is counted once, by tier, policy, outcome and reason, and violations
// name the limit.
func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, g := watched(t, manyReasons)
		ask(t, g, 2, get("/free"))
		ask(t, g, 4, get("/"))
		ask(t, g, 5, get("/trial"))
		once := as("7", "/")
		once.Header = http.Header{"Idempotency-Key": {"k"}}
		ask(t, g, 3, once)
		ask(t, g, 4, as("7", "/search")) // the tier has 4 left, the policy 3
		ask(t, g, 5, as("7", "/"))       // and now the tier 1
		ask(t, g, 10, get("/search"))    // 3, then 3 denials, the last of which is a ban
		wantCounted(t, m, []counted{
			{"", "free", "allowed", "skipped", 2}, {"anyone", "", "allowed", "unlimited", 4},
			{"anyone", "trial", "allowed", "unlimited", 2}, {"anyone", "trial", "allowed", "shadow", 3},
			{"member", "", "allowed", "within", 2}, {"member", "", "allowed", "repeat", 2},
			{"member", "search", "allowed", "within", 3}, {"member", "search", "denied", "limit", 1},
			{"member", "", "denied", "limit", 4}, {"anyone", "search", "allowed", "within", 3},
			{"anyone", "search", "denied", "limit", 2}, {"anyone", "search", "denied", "ban", 5},
		})
		all, _, timed := m.CountedAll()
		want := observe.Counts{Allowed: 2 + 4 + 5 + 3 + 3 + 1 + 3, Denied: 1 + 4 + 7, Shadowed: 3}
		if all != want || timed < 32 || timed > all.Allowed+all.Denied {
			t.Errorf("counted %+v, of which %d timed; want %+v, of which at least 32", all, timed, want)
		}
		if top := m.Top("user", 5); len(top) != 1 || fmt.Sprint(top[0].Policies) != "[search tier member]" && fmt.Sprint(top[0].Policies) != "[tier member search]" {
			t.Errorf("the user is %+v", top)
		}
		if top := m.Top("policy", 5); len(top) != 2 || top[1].Subject != "tier member" || top[1].Denied != 4 {
			t.Errorf("the rules are %+v", top)
		}
		time.Sleep(1500 * time.Millisecond)
		limits := map[string]int{}
		for _, v := range m.Status(99).Violations {
			limits[v.Reason+" "+v.Limit]++
		}
		if fmt.Sprint(limits) != "map[ban :5 limit 3/1m:3 limit 5/1m:4 shadow 2/1m:3]" {
			t.Errorf("violations of %v", limits)
		}
	})
}
