package policy_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// world is a guard over a memory store whose time stands still unless it is moved.
type world struct {
	*policy.Guard
	t     *testing.T
	store stint.Store
	clock atomic.Int64 // nanoseconds since 1970
}

func (w *world) now() time.Time          { return time.Unix(0, w.clock.Load()) }
func (w *world) advance(d time.Duration) { w.clock.Add(int64(d)) }

// unhurried is a store that may take its time: on a busy machine, some answers on rules in shadow
// would be missing.
type unhurried struct{ stint.Store }

func (s unhurried) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx = context.WithoutCancel(ctx)
	}
	return s.Store.Take(ctx, r)
}

func newWorld(t *testing.T, text string) *world {
	t.Helper()
	conf, err := config.Parse("stint.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	w.clock.Store(1_800_000_000 * int64(time.Second))
	store, err := memorystore.New(memorystore.Config{Now: w.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w.store = unhurried{store}
	if w.Guard, err = policy.NewGuard(w.store, conf.Set, policy.GuardConfig{Logger: discard}); err != nil {
		t.Fatal(err)
	}
	return w
}

// withLog is the same guard with a log.
func (w *world) withLog(to io.Writer) *policy.Guard {
	w.t.Helper()
	g, err := policy.NewGuard(w.store, w.Set(), policy.GuardConfig{Logger: slog.New(slog.NewTextHandler(to, nil))})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// judge decides on a request.
func (w *world) judge(in policy.Input) *policy.Verdict {
	w.t.Helper()
	v := new(policy.Verdict)
	if err := w.Decide(context.Background(), &in, v); err != nil {
		w.t.Fatal(err)
	}
	return v
}

// claims are what an application says of a caller.
type claims map[string]string

func (c claims) Claim(name string) string { return c[name] }

var client = netip.MustParseAddr("203.0.113.9")

// TestTierTable drives every tier of the shipped example to its limits: a caller who takes whatever
// there is, for hours.
func TestTierTable(t *testing.T) {
	tests := []struct {
		tier   string
		claims claims
		key    string
		// what is admitted at once, in the first hour, and in all of the hours
		burst, hour, all int
		hours            time.Duration
	}{
		{"anonymous", nil, "ip:203.0.113.9:global", 20, 100, 1000, 24},
		{"free", claims{"user": "7"}, "user:7:api", 60, 500, 5000, 24},
		// 24 hours of 2,000 stay below the 50,000 of a day, and so do those of the others below
		{"pro", claims{"user": "7", "plan": "pro"}, "user:7:api", 300, 2000, 8_000, 4},
		{"enterprise", claims{"user": "7", "plan": "enterprise"}, "user:7:api", 2500, 10_000, 20_000, 2},
		{"internal", claims{"service": "billing"}, "internal:billing", 1000, 60_000, 60_000, 1},
	}
	for _, test := range tests {
		t.Run(test.tier, func(t *testing.T) {
			w := newWorld(t, withoutWork(t))
			in := policy.Input{Method: "GET", Path: "/api/search", Peer: client, Header: http.Header{},
				Claims: test.claims}
			start := w.now()
			var admitted []time.Duration
			burst, hour := 0, 0
			for w.now().Sub(start) < test.hours*time.Hour {
				v := w.judge(in)
				if v.Tier != test.tier {
					t.Fatalf("tier %q, want %q", v.Tier, test.tier)
				}
				if key := v.Decision.Key(); key != test.key {
					t.Fatalf("key %q, want %q", key, test.key)
				}
				if !v.Decision.Allowed {
					w.advance(v.Decision.RetryAfter)
					continue
				}
				at := w.now().Sub(start)
				if admitted = append(admitted, at); at == 0 {
					burst++
				}
				if at < time.Hour {
					hour++
				}
			}
			if burst != test.burst || hour != test.hour || len(admitted) != test.all {
				t.Errorf("admitted %d at once, %d in an hour, %d in %d; want %d, %d, %d", burst, hour, len(admitted), test.hours, test.burst, test.hour, test.all)
			}
			for _, l := range limitsOf(w.Set(), test.tier) {
				if most := busiest(admitted, l.Window); most > int(l.Capacity()) {
					t.Errorf("%s: %d within %v", l, most, l.Window)
				}
			}
		})
	}
}

// withoutWork is the example without its budget, which would deny first, and without bans.
func withoutWork(t *testing.T) string {
	t.Helper()
	return edit(t, string(tiers.YAML), "  after: 100\n  within: 1m\n  durations: [1m, 5m, 1h, 24h]\n  forgive: 24h\n", "  after: 0\n",
		"anonymous: 100/1h", "anonymous: unlimited", "free: 1000/1h", "free: unlimited", "pro: 10000/1h",
		"pro: unlimited")
}

func limitsOf(s *policy.Set, tier string) []stint.Limit {
	for _, r := range s.Rules() {
		if r.Tier == tier && r.Policy == "" {
			return r.Limits
		}
	}
	return nil
}

// busiest is the largest number of events in any window.
func busiest(events []time.Duration, window time.Duration) int {
	most, first := 0, 0
	for i, at := range events {
		for at-events[first] >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
