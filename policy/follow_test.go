package policy_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

const followConfig = `
tiers: [{name: anyone, identity: ip, limits: 100/1m, budget: 100/1m}]
policies:
  - {name: header, match: {path: /header}, cost: 10, settle: {header: X-Cost}}
  - {name: bytes, match: {path: /bytes}, cost: 10, settle: {bytes: 1KiB}, refund: [404, 5xx]}
  - {name: slowly, match: {path: /slowly}, cost: 10, refund: [4xx, 5xx]}
  - {name: slow, match: {path: /slow}, limits: 2/10s concurrency, refund: 503}
`

// used returns how much of the tier's limit and budget is used.
func (w *world) used() (requests, cost int64) {
	w.t.Helper()
	v := w.judge(get("/elsewhere"))
	usages := v.Decision.Usages()
	own := int64(0)
	if v.Decision.Allowed {
		own = 1
	}
	return usages[0].Used - own, usages[1].Used - own
}

func TestFollow(t *testing.T) {
	tests := []struct {
		name           string
		path           string
		outcome        policy.Outcome
		requests, cost int64
	}{
		{"settled downwards", "/header", policy.Outcome{Status: 200, Cost: "3"}, 1, 3},
		{"settled upwards, into debt", "/header", policy.Outcome{Status: 200, Cost: " 150 "}, 1, 150},
		{"into a debt that a window forgets", "/header", policy.Outcome{Status: 200, Cost: "5000"}, 1, 5000},
		{"settled to nothing", "/header", policy.Outcome{Status: 200, Cost: "0"}, 1, 0},
		{"as charged", "/header", policy.Outcome{Status: 200, Cost: "10"}, 1, 10},
		{"no header", "/header", policy.Outcome{Status: 200}, 1, 10},
		{"not a cost", "/header", policy.Outcome{Status: 200, Cost: "-1"}, 1, 10},
		{"an absurd cost", "/header", policy.Outcome{Status: 200, Cost: "9223372036854775808"}, 1, 10},
		{"by size, every part of a unit", "/bytes", policy.Outcome{Status: 200, Bytes: 2049}, 1, 3},
		{"by size, none", "/bytes", policy.Outcome{Status: 204}, 1, 0},
		{"refunded", "/bytes", policy.Outcome{Status: 500, Bytes: 1 << 20}, 0, 0},
		{"refunded by code", "/bytes", policy.Outcome{Status: 404, Bytes: 1 << 20}, 0, 0},
		{"the client went away", "/slowly", policy.Outcome{Status: 499}, 1, 10},
		{"settled upwards in another spelling", "//x/header", policy.Outcome{Status: 200, Cost: "50"}, 1, 50},
		{"settled upwards in another case", "/HEADER", policy.Outcome{Status: 200, Cost: "50"}, 1, 50},
		{"another spelling gives nothing back", "/header;x", policy.Outcome{Status: 200, Cost: "3"}, 1, 10},
		{"another spelling is not refunded", "//x/bytes", policy.Outcome{Status: 500, Bytes: 20 << 10}, 1, 20},
		{"another code", "/bytes", policy.Outcome{Status: 403, Bytes: 1024}, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, followConfig)
			v := w.judge(get(test.path))
			finish := w.Follow(context.Background(), v)
			if finish == nil {
				t.Fatal("nothing to follow")
			}
			finish(test.outcome)
			if requests, cost := w.used(); requests != test.requests || cost != test.cost {
				t.Errorf("used %d requests and %d units, want %d and %d", requests, cost, test.requests, test.cost)
			}
		})
	}
}

// TestFollowShadow: what has no consequences is corrected as if it had.
func TestFollowShadow(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: unlimited}]
policies:
  - {name: p, budget: 100/1h, cost: 50, shadow: true, refund: 5xx, settle: {header: X-Cost}}
`)
	for i, step := range []struct {
		outcome  policy.Outcome
		shadowed int
	}{
		{policy.Outcome{Status: 500}, 0}, {policy.Outcome{Status: 500}, 0}, {policy.Outcome{Status: 500}, 0},
		{policy.Outcome{Status: 200, Cost: "10"}, 0}, {policy.Outcome{Status: 200}, 0},
		{policy.Outcome{Status: 200}, 1},
	} {
		v := w.judge(get("/"))
		if len(shadowed(v)) != step.shadowed {
			t.Errorf("request %d: %d rules would have denied it, want %d", i, len(shadowed(v)), step.shadowed)
		}
		if finish := w.Follow(context.Background(), v); finish != nil {
			finish(step.outcome)
		}
	}
}

func TestNothingToFollow(t *testing.T) {
	w := newWorld(t, edit(t, followConfig, "limits: 100/1m, budget: 100/1m", "limits: 1/1m"))
	allowed := w.judge(get("/elsewhere"))
	denied := w.judge(get("/bytes"))
	for name, v := range map[string]*policy.Verdict{"allowed": allowed, "denied": denied} {
		if w.Follow(context.Background(), v) != nil {
			t.Errorf("%s: something to follow", name)
		}
	}
	if allowed.SettleHeader != "" {
		t.Errorf("settle header %q", allowed.SettleHeader)
	}
	v := w.judge(get("/header"))
	if v.SettleHeader != "X-Cost" {
		t.Errorf("settle header %q, want X-Cost", v.SettleHeader)
	}
}

// uncharged is a store that lets everything through and charges nothing, as [stint.FailAllow] does
// while the store is down.
type uncharged struct{ stint.Store }

func (uncharged) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	return stint.Decision{Allowed: true, Degraded: true, Charge: driver.NewCharge(r.Claims, driver.ChargeData{})}, nil
}

// TestNoPlaceToFollow: after a request that was let through without a place there is nothing to
// do.
func TestNoPlaceToFollow(t *testing.T) {
	conf, err := config.Parse("stint.yaml", []byte(followConfig))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := policy.NewGuard(uncharged{}, conf.Set, policy.GuardConfig{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	in, v := get("/slow"), new(policy.Verdict)
	if err := guard.Decide(t.Context(), &in, v); err != nil || !v.Decision.Allowed {
		t.Fatalf("got %+v, error %v", v.Decision, err)
	}
	if guard.Follow(t.Context(), v) != nil {
		t.Error("something to follow")
	}
}

// TestPlaces: a place is kept for as long as a request takes, and then given back.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf, err := config.Parse("stint.yaml", []byte(followConfig))
		if err != nil {
			t.Fatal(err)
		}
		store, err := memorystore.New(memorystore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		judge := func() *policy.Verdict {
			in, v := get("/slow"), new(policy.Verdict)
			if err := guard.Decide(context.Background(), &in, v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		first := guard.Follow(context.Background(), judge())
		second := guard.Follow(context.Background(), judge())
		for range 5 {
			if judge().Decision.Allowed {
				t.Fatal("a third was let in")
			}
			time.Sleep(7 * time.Second) // well over the 10 s that a place lasts by itself
		}
		first(policy.Outcome{Status: 200})
		third := judge()
		if !third.Decision.Allowed {
			t.Fatal("nobody was let in after the first had left")
		}
		second(policy.Outcome{Status: 503}) // gives everything back, its place too
		fourth := judge()
		if !fourth.Decision.Allowed {
			t.Fatal("nobody was let in after the second had left")
		}
		if judge().Decision.Allowed {
			t.Fatal("one too many was let in")
		}
		for _, v := range []*policy.Verdict{third, fourth} {
			guard.Follow(context.Background(), v)(policy.Outcome{Status: 200})
		}
	})
}

// slowSettling is a store that others overtake while it settles.
type slowSettling struct{ stint.Store }

func (s slowSettling) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if a.Kind == stint.AmendSettle {
		time.Sleep(100 * time.Millisecond)
	}
	return s.Store.Amend(ctx, c, a)
}

// TestRefundOfAPlace: who tries a failed request again is asked again, even if all it was charged
// was a place, which is also given back.
func TestRefundOfAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf, err := config.Parse("stint.yaml", []byte(`
request_id: {header: Idempotency-Key, life: 30s}
tiers: [{name: all, identity: ip, limits: 2/1m concurrency}]
policies: [{name: work, budget: 100/1m, refund: 5xx, shadow: true}]
`))
		if err != nil {
			t.Fatal(err)
		}
		store, err := memorystore.New(memorystore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		guard, err := policy.NewGuard(slowSettling{store}, conf.Set, policy.GuardConfig{Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			in, v := get("/"), new(policy.Verdict)
			in.Header = http.Header{"Idempotency-Key": {"a"}}
			if err := guard.Decide(context.Background(), &in, v); err != nil {
				t.Fatal(err)
			}
			if d := &v.Decision; !d.Allowed || d.Repeat || d.Usages()[0].Used != 1 {
				t.Errorf("got %+v, want the only place", d)
			}
			if after := guard.Follow(context.Background(), v); after != nil {
				after(policy.Outcome{Status: 503})
			}
		}
	})
}
