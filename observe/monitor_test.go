package observe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

// TestTicks: subscribers hear of every second, those who do not listen hold up nobody, and all ends with Close. That
// nothing goes on after it is seen to by synctest.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observe.New(observe.Config{Logger: discard})
		m.WatchStore(func(context.Context) (observe.StoreHealth, error) {
			return observe.StoreHealth{Kind: "memory", Subjects: 9}, nil
		})
		ticks, _ := m.Subscribe()
		_, _ = m.Subscribe() // does not listen
		gone, cancel := m.Subscribe()
		g := newGuard(t, newMemory(t), manyReasons, m)
		ask(t, g, 4, get("/search"))
		tick := <-ticks
		if want := (observe.Counts{Allowed: 3, Denied: 1}); tick.Point.Counts != want {
			t.Errorf("the first second had %+v, want %+v", tick.Point.Counts, want)
		}
		if len(tick.Violations) != 1 || tick.Violations[0].Policy != "search" || tick.Violations[0].Limit != "3/1m" || tick.Violations[0].Subject != "ip:203.0.113.x" {
			t.Errorf("violations are %+v", tick.Violations)
		}
		if tick.Store.Subjects != 9 {
			t.Errorf("the store is %+v", tick.Store)
		}
		for range 20 {
			tick = <-ticks
		}
		if tick.Point.Counts != (observe.Counts{}) || len(tick.Series) > 0 {
			t.Errorf("a quiet second had %+v", tick)
		}
		cancel()
		cancel()
		for range gone {
		}
		_ = m.Close()
		_ = m.Close()
		for range ticks {
		}
		late, cancel := m.Subscribe()
		if _, open := <-late; open {
			t.Error("heard something of a monitor that is closed")
		}
		cancel()
		if got := m.Series(); len(got) != 1 || got[0].Total != (observe.Counts{Allowed: 3, Denied: 1}) {
			t.Errorf("after Close: %+v", got)
		}
	})
}

// TestLooks: what the monitor is asked about is what it was told of.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observe.New(observe.Config{Logger: discard, ShowSubjects: true})
		defer m.Close()
		g := newGuard(t, newMemory(t), manyReasons, m)
		ask(t, g, 5, get("/search"))
		ask(t, g, 3, get("/trial"))
		m.Reloaded("policies", false, errors.New("a mistake"), time.Now())
		time.Sleep(11 * time.Second)
		synctest.Wait()

		recent := m.Recent(10)
		if len(recent) == 0 || recent[0].Subject != "ip:203.0.113.9" {
			t.Fatalf("recent: %+v", recent)
		}
		reasons := map[string]int{}
		for _, v := range recent {
			reasons[v.Reason]++
		}
		if reasons["limit"] != 2 || reasons["shadow"] != 1 {
			t.Errorf("violations by reason: %v", reasons)
		}
		top := m.Top("ip", 3)
		if len(top) != 1 || top[0].Denied != 2 {
			t.Fatalf("top: %+v", top)
		}
		if subject, ok := m.SubjectOf(top[0].Ref); !ok || subject != "ip:203.0.113.9" {
			t.Errorf("the ref stands for %q, %v", subject, ok)
		}
		if points := m.History(time.Second); len(points) != 11 || points[0].Denied != 2 {
			t.Errorf("history: %+v", points)
		}
		if points := m.History(10 * time.Second); len(points) != 1 || points[0].Shadowed != 1 {
			t.Errorf("history in tens of seconds: %+v", points)
		}
		refused := false
		for _, a := range m.Alerts() {
			refused = refused || a.Name == "ConfigRefused" && a.State != "ok"
		}
		if !refused {
			t.Errorf("nobody is alerted of a configuration that was refused: %+v", m.Alerts())
		}
		if s := m.Store(); !s.Up {
			t.Errorf("the store is %+v", s)
		}
	})
}

// TestStack: a decision is counted by the guard that was asked, or for those who have none by the stack.
func TestStack(t *testing.T) {
	m := newMonitor(t)
	stack, err := resilience.New(batched{newMemory(t)}, resilience.Config{Observer: m, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	ask(t, newGuard(t, stack, manyReasons, m), 8, get("/search"))
	if got, _, timed := m.CountedAll(); got.Allowed+got.Denied != 8 || timed != 8 {
		t.Errorf("with a guard: counted %+v, of which %d timed; want 8", got, timed)
	}

	m = newMonitor(t)
	plain, err := resilience.New(batched{newMemory(t)}, resilience.Config{Observer: m.Limiters(), Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	limiter, err := stint.New(plain, stint.PerMinute(2))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := limiter.Allow(t.Context(), "user:7"); err != nil {
			t.Fatal(err)
		}
	}
	if allowed, denied := m.Counted("", "", "allowed", "within"), m.Counted("", "", "denied", "limit"); allowed != 2 || denied != 3 {
		t.Errorf("without a guard: %d allowed, %d denied; want 2 and 3", allowed, denied)
	}
	if _, _, timed := m.CountedAll(); timed != 5 {
		t.Errorf("%d are timed, want 5", timed)
	}
}

func TestOutbound(t *testing.T) {
	m := newMonitor(t)
	m.Called("igdb", 0, nil)
	m.Called("igdb", time.Second, nil)
	m.Called("igdb", 0, &stint.DeniedError{})
	m.Called("igdb", 0, context.Canceled)
	for _, test := range []struct{ outcome, reason string }{{"denied", "limit"}, {"failed", "cancelled"}} {
		if got := m.Counted("outbound", "igdb", test.outcome, test.reason); got != 1 {
			t.Errorf("%d %s, %s; want 1", got, test.outcome, test.reason)
		}
	}
	if got := m.Counted("outbound", "igdb", "allowed", "within"); got != 2 {
		t.Errorf("%d calls were made, want 2", got)
	}
	if all, _, _ := m.CountedAll(); all != (observe.Counts{}) {
		t.Errorf("calls to other APIs are counted as decisions on requests: %+v", all)
	}
}

// TestRuled is for those who decide without a guard.
func TestRuled(t *testing.T) {
	m := newMonitor(t)
	limit := stint.PerMinute(5)
	for _, r := range []observe.Ruling{
		{Decision: stint.Decision{Allowed: true}, Limit: &limit},
		{Decision: stint.Decision{Allowed: true}},
		{Decision: stint.Decision{Allowed: true}, Limit: &limit, Shadowed: true},
		{Decision: stint.Decision{}, Limit: &limit, Subject: "envoy:a"},
	} {
		r.Tier, r.Policy, r.Took = "envoy", "shop.path\xff", policy.Untimed
		m.Ruled(&r)
	}
	for reason, outcome := range map[string]string{"within": "allowed", "unlimited": "allowed", "shadow": "allowed", "limit": "denied"} {
		if got := m.Counted("envoy", "shop.path\uFFFD", outcome, reason); got != 1 {
			t.Errorf("%d %s, want 1", got, reason)
		}
	}
	if top := m.Top("envoy", 9); len(top) != 1 {
		t.Errorf("top: %+v", top)
	}
}

// TestUnshown: of a flood a tick tells some, and how many others there were.
func TestUnshown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observe.New(observe.Config{Logger: discard})
		defer m.Close()
		ticks, cancel := m.Subscribe()
		defer cancel()
		ask(t, newGuard(t, newMemory(t), `tiers: [{name: anyone, identity: ip, limits: 10/1h}]`, m), 1010, get("/"))
		if tick := <-ticks; len(tick.Violations) != 200 || tick.Unshown != 800 || tick.Point.Denied != 1000 {
			t.Errorf("%d are shown and %d not, of %d; want 200, 800 and 1000", len(tick.Violations), tick.Unshown, tick.Point.Denied)
		}
	})
}

// TestAlertsOfLateListeners: who is new, and who has missed ticks, hears of all alerts.
func TestAlertsOfLateListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observe.New(observe.Config{Logger: discard})
		defer m.Close()
		ticks, cancel := m.Subscribe()
		defer cancel()
		all := len(observe.AlertNames())
		if first, second := <-ticks, <-ticks; len(first.Alerts) != all || second.Alerts != nil {
			t.Errorf("first %d alerts, then %d; want %d, and none because nothing has changed", len(first.Alerts), len(second.Alerts), all)
		}
		time.Sleep(10 * time.Second) // without listening
		for behind := len(ticks); behind > 0; behind-- {
			<-ticks
		}
		if next := <-ticks; len(next.Alerts) != all {
			t.Errorf("%d alerts after missed ticks, want all %d", len(next.Alerts), all)
		}
	})
}

// TestLimitersWithoutALimit: where no limit is to blame, none is shown.
func TestLimitersWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observe.New(observe.Config{Logger: discard})
		defer m.Close()
		r := stint.Request{Claim: stint.Claim{Subject: "user:7", Limits: []stint.Limit{stint.PerMinute(1)}}}
		m.Limiters().Decided(&r, &stint.Decision{Degraded: true, Unavailable: true}, nil, 0)
		m.Limiters().Decided(&r, &stint.Decision{Banned: true, RetryAfter: time.Minute}, nil, 0)
		time.Sleep(1500 * time.Millisecond)
		list := m.Recent(9)
		if len(list) != 2 || list[0].Limit != "" || list[1].Limit != "" {
			t.Errorf("got %+v, want two violations of no limit", list)
		}
	})
}
