package api_test

import (
	"slices"
	"testing"

	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// TestObserved: whatever the form of a question, its decision is counted once, under the
// configuration's names; looking is not.
func TestObserved(t *testing.T) {
	monitor := observe.New(observe.Config{Logger: discard})
	defer monitor.Close()
	s := serveGuarded(t, memory(t), `
tiers: [{name: all, identity: ip, limits: 3/1m}]
policies: [{name: login, match: {path: /login}, limits: 1/15m}]
`, policy.GuardConfig{Observer: monitor, Logger: discard})
	const named, judged = `{"subject":"ip:203.0.113.9","policy":"login"}`, `{"method":"GET","path":"/","peer":"203.0.113.9"}`
	for _, body := range []string{named, named, judged, `{"subject":"ip:203.0.113.9","tier":"all"}`,
		`{"subject":"x","limits":["1/1m"]}`} {
		s.post("/v1/take", body)
		s.post("/v1/peek", body)
	}
	ticks, cancel := monitor.Subscribe()
	defer cancel()
	got := (<-ticks).Series
	want := map[[2]string]observe.Counts{
		{"", "login"}:  {Allowed: 1, Denied: 1},
		{"all", ""}:    {Allowed: 2},
		{"", "limits"}: {Allowed: 1},
	}
	for _, series := range got {
		name := [2]string{series.Tier, series.Policy}
		if series.Total != want[name] {
			t.Errorf("tier %q, policy %q: counted %+v, want %+v", series.Tier, series.Policy, series.Total, want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d series, want %d: %+v", len(got), len(want), got)
	}
	if recent := monitor.Status(5).Violations; !slices.ContainsFunc(recent, func(v observe.Violation) bool {
		return v.Policy == "login" && v.Limit == "1/15m" && v.Reason == "limit"
	}) {
		t.Errorf("violations: %+v", recent)
	}
}
