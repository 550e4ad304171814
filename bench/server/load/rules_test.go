package main

import (
	"cmp"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// TestRules has the policies and the judge's copy of the limits decide on the same requests: as
// many as are admitted at once, then a few before and after windows have passed.
func TestRules(t *testing.T) {
	conf, err := config.Parse("stint.yaml", tiers.YAML)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1_000_000, 0)
	now := start
	store, err := memorystore.New(memorystore.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	senders := map[string]http.Header{
		"internal":   {"X-Service": {"1"}},
		"enterprise": {"X-User-Id": {"1"}, "X-User-Plan": {"enterprise"}},
		"pro":        {"X-User-Id": {"2"}, "X-User-Plan": {"pro"}},
		"free":       {"X-User-Id": {"3"}, "X-User-Plan": {"free"}},
		"anonymous":  {"X-Forwarded-For": {"198.51.100.1"}},
	}
	targets := map[string]policy.Input{
		"search":     {Method: "GET", Path: "/api/search"},
		"simulation": {Method: "POST", Path: "/api/simulation/start"},
	}
	if len(senders) != len(tierRules) || len(targets) != len(routeRules) {
		t.Fatal("a tier or a route has no request here")
	}
	const later = 48 * time.Hour // all windows have passed
	steps := []struct {
		after time.Duration
		route string
		most  int // requests, until one is denied
	}{
		{0, "simulation", math.MaxInt}, {0, "search", math.MaxInt},
		{59 * time.Second, "simulation", 1}, {59 * time.Second, "search", 1},
		{62 * time.Second, "simulation", 1}, {62 * time.Second, "search", 1},
		{59 * time.Minute, "simulation", 1}, {62 * time.Minute, "simulation", 1},
		{later, "search", math.MaxInt}, {later + 59*time.Second, "search", 1}, {later + 62*time.Second, "search", 1},
	}
	for tier, header := range senders {
		ledgers := map[string]*ledger{}
		for _, step := range steps {
			now = start.Add(step.after)
			in := targets[step.route]
			in.Peer, in.Header = netip.MustParseAddr("127.0.0.1"), header
			rules, at := rulesFor(tier, step.route), &request{from: now, to: now}
			for n := range step.most {
				var v policy.Verdict
				if err := guard.Decide(t.Context(), &in, &v); err != nil {
					t.Fatal(err)
				}
				got := v.Decision.Allowed
				want := !slices.ContainsFunc(rules, func(r rule) bool { return ledgers[r.key].full(r, at) })
				if got != want {
					t.Fatalf("%s: %s %d after %v: got %v, want %v", tier, step.route, n, step.after, got, want)
				}
				if !got {
					break
				}
				for _, r := range rules {
					l := cmp.Or(ledgers[r.key], &ledger{rule: r})
					l.events = append(l.events, event{now, now, r.cost, r.cost})
					ledgers[r.key] = l
				}
			}
		}
	}
}
