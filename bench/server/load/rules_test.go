package main

import (
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// TestRules has the policies admit as many requests at once as the judge's copy of the limits says.
func TestRules(t *testing.T) {
	conf, err := config.Parse("stint.yaml", tiers.YAML)
	if err != nil {
		t.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
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
		"simulation": {Method: "POST", Path: "/api/simulations"},
	}
	if len(senders) != len(tierRules) || len(targets) != len(routeRules) {
		t.Fatal("a tier or a route has no request here")
	}
	for tier, header := range senders {
		used := map[string]int64{}
		for _, route := range []string{"simulation", "search"} {
			t.Run(tier+" "+route, func(t *testing.T) {
				in := targets[route]
				in.Peer, in.Header = netip.MustParseAddr("127.0.0.1"), header
				want := int64(math.MaxInt64)
				rules := rulesFor(tier+":1", route)
				for _, r := range rules {
					want = min(want, (r.max-used[r.key])/r.cost)
				}
				got := int64(0)
				for {
					var v policy.Verdict
					if err := guard.Decide(t.Context(), &in, &v); err != nil {
						t.Fatal(err)
					}
					if !v.Decision.Allowed {
						break
					}
					got++
				}
				if got != want {
					t.Errorf("got %d admitted, want %d", got, want)
				}
				for _, r := range rules {
					used[r.key] += got * r.cost
				}
			})
		}
	}
}
