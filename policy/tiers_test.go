package policy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
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

// TestTierBursts drives the limit per minute of every tier by itself: a caller who takes whatever
// there is. It gets the burst at once and in no minute more, its rate in the long run, and never
// waits for longer than a minute and a slice.
func TestTierBursts(t *testing.T) {
	conf, err := config.Parse("stint.yaml", tiers.YAML)
	if err != nil {
		t.Fatal(err)
	}
	const minutes = 30
	for _, test := range []struct {
		tier         string
		burst, total int
	}{
		{"anonymous", 20, 20 + minutes*10},
		{"free", 60, 60 + minutes*30},
		{"pro", 300, 300 + minutes*100},
		{"enterprise", 2500, 2500 + minutes*500},
		{"internal", 1000, 1000 + (minutes-1)*1000}, // it has no meter: all at once, and a slice late every time
	} {
		t.Run(test.tier, func(t *testing.T) {
			w := newWorld(t, string(tiers.YAML))
			limit := limitsOf(conf.Set, test.tier)[0]
			slice := limit.Window/stint.Resolution + time.Microsecond
			var admitted []time.Duration
			start, burst, longest := w.now(), 0, time.Duration(0)
			for w.now().Sub(start) <= minutes*time.Minute {
				d, err := w.store.Take(t.Context(),
					stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: []stint.Limit{limit}, Cost: 1}}})
				switch {
				case err != nil:
					t.Fatal(err)
				case !d.Allowed:
					longest = max(longest, d.RetryAfter)
					w.advance(d.RetryAfter)
				default:
					if admitted = append(admitted, w.now().Sub(start)); w.now() == start {
						burst++
					}
				}
			}
			if most := busiest(admitted, limit.Window); burst != test.burst || most != test.burst {
				t.Errorf("%s: %d at once, %d in a minute; want %d", limit, burst, most, test.burst)
			}
			if len(admitted) != test.total {
				t.Errorf("%s: %d in %d minutes; want %d", limit, len(admitted), minutes, test.total)
			}
			if longest > limit.Window+slice {
				t.Errorf("%s: a wait of %v; want at most %v", limit, longest, limit.Window+slice)
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

// TestRouteCosts spends a budget in cost units: 1 for a structure, 10 for a simulation, 5 for its
// frames, 3 for a PDF.
func TestRouteCosts(t *testing.T) {
	routes := []struct {
		method, path string
		route        string
		cost         int64
	}{
		{"GET", "/api/pdb/1crn", "pdb-fetch", 1},
		{"POST", "/api/simulation/start", "simulation", 10},
		{"GET", "/api/simulation/9/frames", "frames", 5},
		{"POST", "/api/export/pdf", "pdf-export", 3},
	}
	w := newWorld(t, string(tiers.YAML))
	spent := int64(0)
	for i := 0; ; i++ {
		r := routes[i%len(routes)]
		v := w.judge(policy.Input{Method: r.method, Path: r.path, Peer: client, Claims: claims{"user": "7"}})
		if v.Route != r.route || v.Cost != r.cost {
			t.Fatalf("%s %s: route %q at %d, want %q at %d", r.method, r.path, v.Route, v.Cost, r.route, r.cost)
		}
		if !v.Decision.Allowed {
			// Of 1,000 units per hour all are spent but for what the next request would need.
			by := v.Decisive()
			if rule, state := by.Rule, by.Decisive(); rule.Policy != "work" || !rule.Costs || state.Used != spent {
				t.Errorf("denied by %+v with %d used, after %d", rule, state.Used, spent)
			}
			if spent+r.cost <= 1000 {
				t.Errorf("a cost of %d denied after %d of 1000", r.cost, spent)
			}
			break
		}
		if spent += r.cost; spent > 1000 {
			t.Fatalf("%d units spent of 1000", spent)
		}
		w.advance(2 * time.Second)
	}
	if spent < 1000-9 {
		t.Errorf("only %d units could be spent", spent)
	}
}

// TestKeys are the keys that the documents name.
func TestKeys(t *testing.T) {
	const fetch, start = "GET /api/pdb/1crn", "POST /api/simulation/start"
	tests := []struct {
		name, request string
		claims        claims
		want          string
	}{
		{"anonymous", fetch, nil, "ip:203.0.113.9:global ip:203.0.113.9:pdb-fetch ip:203.0.113.9:work"},
		{"signed in", fetch, claims{"user": "42"}, "user:42:api user:42:pdb-fetch user:42:work"},
		{"key", fetch, claims{"key": "k7"}, "apikey:k7:api apikey:k7:pdb-fetch apikey:k7:work"},
		{"session", fetch, claims{"session": "s1"}, "session:s1:api session:s1:pdb-fetch session:s1:work"},
		{"simulation", start, claims{"user": "42", "session": "s1"}, "user:42:api session:s1:simulation user:42:work"},
		{"internal", fetch, claims{"service": "billing"}, "internal:billing"},
	}
	set := parse(t, string(tiers.YAML))
	for _, test := range tests {
		method, path, _ := strings.Cut(test.request, " ")
		in := &policy.Input{Method: method, Path: path, Peer: client, Claims: test.claims}
		var keys []string
		for _, r := range set.Explain(in).Results {
			keys = append(keys, r.Key())
		}
		if got := strings.Join(keys, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestExampleTable holds the example to the table of tiers.
func TestExampleTable(t *testing.T) {
	conf, err := config.Parse("stint.yaml", tiers.YAML)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"anonymous":  "[10/1m burst 2x 100/1h 1000/1d]",
		"free":       "[30/1m burst 2x 500/1h 5000/1d]",
		"pro":        "[100/1m burst 3x 2000/1h 50000/1d]",
		"enterprise": "[500/1m burst 5x 10000/1h]",
		"internal":   "[1000/1m]",
	}
	for tier, limits := range want {
		if got := fmt.Sprint(limitsOf(conf.Set, tier)); got != limits {
			t.Errorf("%s: got %s, want %s", tier, got, limits)
		}
	}
	apis := map[string]string{}
	for _, api := range conf.Outbound {
		apis[api.Name] = fmt.Sprint(api.Limits)
	}
	if got, want := fmt.Sprint(apis), "map[igdb:[4/1s] musicbrainz:[1/1s] rcsb:[3/1s] spotify:[180/1m] tmdb:[40/10s]]"; got != want {
		t.Errorf("outbound: got %s, want %s", got, want)
	}
}
