package policy_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// holdRules hold estimates of two quantities; the true cost of the rest comes with the response.
const holdRules = `
tiers: [{name: all, identity: ip, limits: 100/1d, budget: [1000/1d, "in: 1000/1d", "out: 1000/1d"]}]
policies:
  - {name: chat, match: {path: /chat}, cost: 10, costs: {in: 100, out: 400}, hold: 5m, settle: {header: X-Cost}, refund: 5xx}
  - {name: plain, match: {path: /plain}, cost: 10, hold: 5m}
`

// What is held is charged when a request ends, whether or not its response says what it cost, and
// given back if its process dies.
func TestFollowSettlesHolds(t *testing.T) {
	for _, test := range []struct {
		name, path string
		outcome    *policy.Outcome // nil: the process dies
		want       [4]int64        // requests, cost, in, out
	}{
		{"a true cost", "/chat", &policy.Outcome{Status: 200, Cost: "7"}, [4]int64{1, 7, 100, 400}},
		{"no true cost", "/chat", &policy.Outcome{Status: 200}, [4]int64{1, 10, 100, 400}},
		{"a refund", "/chat", &policy.Outcome{Status: 500}, [4]int64{}},
		{"no settlement", "/plain", &policy.Outcome{Status: 200}, [4]int64{1, 10, 10, 10}},
		{"dead", "/chat", nil, [4]int64{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var now atomic.Int64 // the store sweeps at any time
			now.Store(int64(1e18))
			store, err := memorystore.New(memorystore.Config{Now: func() time.Time { return time.Unix(0, now.Load()) }})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			var seen []*policy.Settlement
			guard := guardOver(t, store, holdRules, policy.GuardConfig{Observer: observerFunc(func(e stint.Event) {
				if s, ok := e.(*policy.Settlement); ok {
					seen = append(seen, s)
				}
			})})
			in, v := policy.Input{Method: "GET", Path: test.path}, new(policy.Verdict)
			if err := guard.Decide(t.Context(), &in, v); err != nil || !v.Decision.Allowed {
				t.Fatal(err, v.Decision)
			}
			if d := v.Decision.Charge.Data(); d.Hold != 5*time.Minute {
				t.Fatalf("the hold is %v", d.Hold)
			}
			if test.outcome != nil {
				guard.Follow(t.Context(), v)(*test.outcome)
				if len(seen) != 1 || seen[0].Hold != 5*time.Minute || !seen[0].Amended.Changed {
					t.Errorf("observed %+v", seen)
				}
			}
			now.Add(int64(time.Hour))
			in.Path = "/"
			var r stint.Request
			if err := guard.Ask(&in, v, &r); err != nil {
				t.Fatal(err)
			}
			r.Mode = stint.ModePeek
			d, err := store.Take(t.Context(), r)
			if err != nil || len(d.Usages()) != 4 {
				t.Fatal(err, d)
			}
			for i, u := range d.Usages() {
				if u.Used != test.want[i] {
					t.Errorf("limit %d: used %d, want %d", i, u.Used, test.want[i])
				}
			}
		})
	}
}

type observerFunc func(stint.Event)

func (f observerFunc) Observe(_ context.Context, e stint.Event) { f(e) }
