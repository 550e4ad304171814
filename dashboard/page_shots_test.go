package dashboard_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

// busy is an hour in the life of an API: callers of all tiers, a burst every five minutes, and an
// abuser.
func (f *fixture) busy() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now().Truncate(time.Second)
	point := func(at time.Time, seconds int64) observe.Point {
		p := observe.Point{At: at.Unix(), P50: 0.28e-3, P99: 1.9e-3, StoreP50: 0.24e-3, StoreP99: 1.6e-3}
		p.Allowed, p.Denied = (900+at.Unix()%300)*seconds, 30*seconds
		if now.Sub(at) < 140*time.Second {
			p.Denied += 180 * seconds
		}
		p.Saved, p.Calls = p.Denied*8/10, (p.Allowed+p.Denied)/5
		p.Carried = p.Calls * 4
		return p
	}
	for i := 900; i > 0; i-- {
		f.state.Points = append(f.state.Points, point(now.Add(-time.Duration(i)*time.Second), 1))
	}
	for i := 720; i > 0; i-- {
		f.state.Long = append(f.state.Long, point(now.Add(-time.Duration(i)*10*time.Second), 10))
	}
	f.state.Store = observe.StoreHealth{Kind: "redis", Name: "redis://cache.internal:6379/0", Up: true,
		Breaker: "closed", Instances: 3,
		Redis: &observe.RedisInfo{Version: "7.4.1", OpsPerSecond: 412, UsedMemory: 310 << 20, MaxMemory: 1 << 30,
			Clients: 12, Keys: 48_112, Policy: "noeviction"}}
	f.state.Series = busySeries()
	for i := range 60 {
		f.state.Violations = append(f.state.Violations, busyViolation(i, now.Add(time.Duration(i-60)*time.Second)))
	}
	f.state.Alerts = []observe.Alert{
		{Name: "BlockedShare", Severity: "ticket", State: "firing", Unit: "share", Value: 0.157, Threshold: 0.1,
			Since: now.Add(-95 * time.Second), Summary: "More than 10% of the decisions of the last 5 minutes were denials. See who is denied and by which policy: an attack, or a limit that is too low?"},
		{Name: "StoreDown", Severity: "page", State: "ok", Unit: "s", Threshold: 60},
	}
	f.state.Top = busyTop()
	f.state.Config = busyConfig(now)
	f.reports = busyReports(now)
	cooling := now.Add(24 * time.Second)
	f.state.Outbound = []*dashboard.OutboundState{
		{Name: "igdb", Limits: []string{"4/1s"}, Used: 4, Capacity: 4, Calls: 8124, Waited: 3110,
			AverageWait: 0.412, Waiting: 6},
		{Name: "spotify", Limits: []string{"90/30s"}, Used: 71, Capacity: 90, Calls: 15_210, Waited: 1022,
			AverageWait: 1.21, Waiting: 2, Denied: 31, CoolingUntil: &cooling},
	}
	f.state.Audit = []dashboard.Action{
		{At: now.Add(-50 * time.Minute), Who: "ops", What: "reset", Subject: "user:caro…", Result: "done"},
		{At: now.Add(-3 * time.Minute), Who: "ops", What: "unban", Subject: "user:dave…", Result: "the store is down"},
	}
	f.bans = []control.Ban{ban("ip:198.51.100.x", "r-ip", 51*time.Minute, 3),
		ban("user:mallo…", "r-mallory", 252*time.Second, 2)}
	f.subjects["r-mallory"] = mallory(now)
}

func busyConfig(now time.Time) dashboard.ConfigState {
	return dashboard.ConfigState{
		Phase: "ready",
		Sources: []dashboard.Source{
			{Name: "policies", Path: "stint.yaml", At: now.Add(-4 * time.Second), Good: 3, Failed: 1},
			{Name: "envoy", Path: "envoy.yaml", At: now.Add(-2 * time.Second), Good: 1, Failed: 2,
				Error: `envoy.yaml:14: descriptors[2].rate_limit.unit: "fortnight" is not a unit; want second, minute, hour, day, month or year`},
		},
		Tiers: []dashboard.RuleList{
			{Name: "enterprise", Limits: []string{"500/1m burst 5x", "10000/1h"}},
			{Name: "anonymous", Limits: []string{"10/1m burst 2x", "100/1h", "1000/1d"}},
		},
		Policies: []dashboard.RuleList{
			{Name: "simulate", Limits: []string{"endpoint: 50/1m"}},
			{Name: "work", Limits: []string{"100/1h (anonymous)", "1000/1h (free)", "10000/1h (pro)"}},
			{Name: "search-strict", Limits: []string{"20/1m"}, Shadow: true},
		},
	}
}

func busySeries() (list []observe.Series) {
	for _, s := range []struct {
		tier, policy string
		rate, denied int64 // in ten seconds
	}{
		{"free", "structure", 2600, 160}, {"free", "search", 1200, 20}, {"pro", "structure", 2100, 0},
	} {
		c := observe.Counts{Allowed: s.rate, Denied: s.denied}
		list = append(list, observe.Series{Tier: s.tier, Policy: s.policy, Recent: slices.Repeat([]observe.Counts{c}, 90),
			Total: observe.Counts{Allowed: 90 * s.rate, Denied: 90 * s.denied}})
	}
	return list
}

func busyViolation(i int, at time.Time) observe.Violation {
	kinds := []observe.Violation{
		{Subject: "user:mallo…:structure", Ref: "r-mallory", Tier: "free", Policy: "structure", Limit: "30/1m burst 2x",
			Reason: "limit", RetryAfter: 31.2},
		{Subject: "user:mallo…:structure", Ref: "r-mallory", Tier: "free", Policy: "structure", Limit: "30/1m burst 2x",
			Reason: "ban", RetryAfter: 252},
		{Subject: "ip:203.0.113.x:global", Ref: "r-203", Tier: "anonymous", Policy: "login", Limit: "5/15m",
			Reason: "limit", RetryAfter: 411},
		{Subject: "apikey:k_7f2…:search", Ref: "r-key", Tier: "free", Policy: "search-strict", Limit: "20/1m",
			Reason: "shadow", RetryAfter: 3},
	}
	v := kinds[i%len(kinds)]
	v.At = at
	return v
}

func busyTop() map[string][]observe.Offender {
	top := map[string][]observe.Offender{
		"user": {{Kind: "user", Subject: "user:mallo…", Ref: "r-mallory", Denied: 21_840, AtLeast: 21_840,
			Policy: "structure"}},
		"apikey": {{Kind: "apikey", Subject: "apikey:k_7f2…", Ref: "r-key", Denied: 410, AtLeast: 402,
			Policy: "search"}},
		"policy": {{Kind: "policy", Subject: "structure", Denied: 23_900, AtLeast: 23_900},
			{Kind: "policy", Subject: "search", Denied: 812, AtLeast: 812}},
	}
	for i := range 14 {
		top["ip"] = append(top["ip"], observe.Offender{Kind: "ip", Subject: fmt.Sprintf("ip:203.0.%d.x", 113+i),
			Ref: fmt.Sprint("r-ip", i), Denied: int64(1900 / (i + 1)), AtLeast: int64(1840/(i+1)) - int64(i*4),
			Policy: "login"})
	}
	return top
}

// mallory is a subject who is over the limit, with a window of every kind.
func mallory(now time.Time) control.Subject {
	s := control.Subject{Named: control.Named{Subject: "user:mallory"}, Now: now,
		Ban: driver.BanState{Until: now.Add(4*time.Minute + 12*time.Second), Level: 2, Strikes: 37}}
	minute := control.Limit{Tier: "free", Scope: "structure", Limit: "30/1m burst 2x", Algorithm: "sliding", Max: 30,
		Capacity: 60, Window: 60, Used: 60, ResetAfter: 119, RetryAfter: 0.8}
	for i := range 25 {
		at := now.Add(-55*time.Second + time.Duration(i)*2500*time.Millisecond)
		minute.Entries = append(minute.Entries,
			driver.Entry{At: at, Until: at.Add(60 * time.Second), Units: 1 + int64(i*7%3)})
	}
	bucket := control.Limit{Tier: "free", Policy: "search", Scope: "search", Limit: "20/10s bucket",
		Algorithm: "bucket", Max: 20, Capacity: 20, Window: 10, Used: 13, Remaining: 7, ResetAfter: 6.5}
	held := control.Limit{Tier: "free", Policy: "export", Scope: "export", Limit: "4 at once", Algorithm: "concurrency",
		Max: 4, Capacity: 4, Window: 30, Used: 3, Remaining: 1, ResetAfter: 28}
	for _, left := range []time.Duration{9, 17, 28} {
		held.Entries = append(held.Entries, driver.Entry{Until: now.Add(left * time.Second), Units: 1})
	}
	s.Limits = []control.Limit{minute, bucket, held}
	return s
}

// trouble is a store that is gone. The caller holds the lock.
func (f *fixture) trouble() {
	since := time.Now().Add(-83 * time.Second)
	f.state.Store.Up, f.state.Store.Breaker, f.state.Store.DownSince = false, "open", &since
	f.state.Store.LastError = "dial tcp 10.1.2.3:6379: connect: connection refused"
	f.state.Store.Warnings = []string{"The Redis may evict keys (maxmemory-policy allkeys-lru): limits are forgotten when it does. Set noeviction."}
	f.state.Store.Redis.Policy = "allkeys-lru"
	f.state.Alerts = append(f.state.Alerts,
		observe.Alert{Name: "StoreDown", Severity: "page", State: "firing", Unit: "s", Value: 83, Threshold: 60,
			Since: since, Summary: "The store has been down for more than 1m0s, and decisions are made according to the failure mode. See the last error."})
	for i := range f.state.Points {
		if p := &f.state.Points[i]; time.Unix(p.At, 0).After(since) {
			p.Degraded, p.CallsFailed, p.Calls = p.Allowed+p.Denied, 4, 4
		}
	}
}
