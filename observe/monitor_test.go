package observe_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

// TestTicks: subscribers hear of every second, those who do not listen hold up nobody, and all ends
// with Close. That nothing goes on after it is seen to by synctest.
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
		if len(tick.Violations) != 1 || tick.Violations[0].Policy != "search" || tick.Violations[0].Limit != "3/1m" ||
			!strings.HasPrefix(tick.Violations[0].Subject, "ip:203.0.113.x#") {
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
		if got := m.Status(0).Series; len(got) != 1 || got[0].Total != (observe.Counts{Allowed: 3, Denied: 1}) {
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
		m.Reloaded("policies", config.Reload{Err: errors.New("a mistake"), At: time.Now()})
		time.Sleep(11 * time.Second)
		synctest.Wait()

		recent := m.Status(10).Violations
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
		for _, a := range m.Status(0).Alerts {
			refused = refused || a.Name == "ConfigRefused" && a.State != "ok"
		}
		if !refused {
			t.Errorf("nobody is alerted of a configuration that was refused: %+v", m.Status(0).Alerts)
		}
		if s := m.Status(0).Store; !s.Up {
			t.Errorf("the store is %+v", s)
		}
	})
}

// TestStack: a decision is counted by the guard that was asked, or for those who have none by the
// stack.
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
	if allowed, denied := m.Counted("", "", "allowed", "within"), m.Counted("", "", "denied", "limit"); allowed != 2 ||
		denied != 3 {
		t.Errorf("without a guard: %d allowed, %d denied; want 2 and 3", allowed, denied)
	}
	if _, _, timed := m.CountedAll(); timed != 5 {
		t.Errorf("%d are timed, want 5", timed)
	}
}

func TestOutbound(t *testing.T) {
	m := newMonitor(t)
	m.Observe(t.Context(), &outbound.Call{API: "igdb"})
	m.Observe(t.Context(), &outbound.Call{API: "igdb", Wait: time.Second})
	m.Observe(t.Context(), &outbound.Call{API: "igdb", Err: &stint.DeniedError{}})
	m.Observe(t.Context(), &outbound.Call{API: "igdb", Err: &stint.DeniedError{Banned: true}})
	m.Observe(t.Context(), &outbound.Call{API: "igdb", Err: &stint.DeniedError{Unavailable: true}})
	m.Observe(t.Context(), &outbound.Call{API: "igdb", Err: context.Canceled})
	for _, test := range []struct{ outcome, reason string }{
		{"denied", "limit"}, {"denied", "ban"}, {"denied", "unavailable"}, {"failed", "canceled"}} {
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

// TestVerdictOfNoGuard: verdicts are counted whoever made them.
func TestVerdictOfNoGuard(t *testing.T) {
	m := newMonitor(t)
	rule := &policy.Rule{Tier: "envoy", Policy: "shop.path\xff", Limits: []stint.Limit{stint.PerMinute(5)}}
	result := policy.Result{Rule: rule, Claim: stint.Claim{Subject: "envoy:a", Limits: rule.Limits},
		Usages: []stint.Usage{{Used: 1}}}
	denied, shadow, tried := result, result, result
	denied.Denied, shadow.Denied, shadow.Shadow, tried.Shadow = true, true, true, true
	for _, v := range []policy.Verdict{
		{Decision: stint.Decision{Allowed: true}, Results: []policy.Result{result}},
		{Decision: stint.Decision{Allowed: true}},
		{Decision: stint.Decision{Allowed: true}, Results: []policy.Result{shadow}},
		{Decision: stint.Decision{Allowed: true}, Results: []policy.Result{tried}},
		{Decision: stint.Decision{}, Results: []policy.Result{denied}},
	} {
		v.Tier, v.Route = rule.Tier, rule.Policy
		m.Observe(t.Context(), &v)
	}
	for _, test := range []struct {
		outcome, reason string
		want            int64
	}{{"allowed", "within", 2}, {"allowed", "unlimited", 1}, {"allowed", "shadow", 1}, {"denied", "limit", 1}} {
		if got := m.Counted("envoy", "shop.path\uFFFD", test.outcome, test.reason); got != test.want {
			t.Errorf("%d %s, want %d", got, test.reason, test.want)
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
			t.Errorf(
				"%d are shown and %d not, of %d; want 200, 800 and 1000",
				len(tick.Violations),
				tick.Unshown,
				tick.Point.Denied,
			)
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
			t.Errorf(
				"first %d alerts, then %d; want %d, and none because nothing has changed",
				len(first.Alerts),
				len(second.Alerts),
				all,
			)
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
		r := stint.Request{Claims: []stint.Claim{{Subject: "user:7", Limits: []stint.Limit{stint.PerMinute(1)}}}}
		m.Limiters().Observe(t.Context(),
			&resilience.Decided{Request: &r, Decision: &stint.Decision{Degraded: true, Unavailable: true}})
		m.Limiters().Observe(t.Context(),
			&resilience.Decided{Request: &r, Decision: &stint.Decision{Banned: true, RetryAfter: time.Minute}})
		time.Sleep(1500 * time.Millisecond)
		list := m.Status(9).Violations
		if len(list) != 2 || list[0].Limit != "" || list[1].Limit != "" {
			t.Errorf("got %+v, want two violations of no limit", list)
		}
	})
}

// TestLimitersOfSeveralClaims: a denial by a further claim is shown with its limit, and counts for
// the subject of that claim.
func TestLimitersOfSeveralClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observe.New(observe.Config{Logger: discard, ShowSubjects: true})
		defer m.Close()
		r := stint.Request{
			Claims: []stint.Claim{
				{Subject: "user:7", Limits: []stint.Limit{stint.PerMinute(9)}, Cost: 1},
				{Subject: "team:1", Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1},
			},
		}
		d := stint.Decision{
			Denier: 2, RetryAfter: time.Minute, Charge: driver.NewCharge(r.Claims, driver.ChargeData{}),
		}
		copy(d.MakeUsages(2), []stint.Usage{{Used: 1}, {Used: 1, RetryAfter: time.Minute}})
		m.Limiters().Observe(t.Context(), &resilience.Decided{Request: &r, Decision: &d})
		time.Sleep(1500 * time.Millisecond)
		list := m.Status(9).Violations
		if len(list) != 1 || list[0].Limit != "1/1h" || list[0].Subject != "team:1" {
			t.Errorf("got %+v, want one violation of 1/1h by the team", list)
		}
	})
}

// TestStatusIsWhole: a status has all of a second or nothing of it, also while that second ends.
func TestStatusIsWhole(t *testing.T) {
	status := make(chan observe.Tick, 1)
	var m *observe.Monitor
	asked := false
	m = observe.New(
		observe.Config{Logger: slog.New(slog.NewTextHandler(writer(func() { // an alert is logged in between
			if !asked {
				asked = true
				go func() { status <- m.Status(1) }()
				time.Sleep(50 * time.Millisecond) // for one that does not wait
			}
		}), nil))},
	)
	defer m.Close()
	m.Reloaded("policies", config.Reload{Err: errors.New("a mistake"), At: time.Now()})
	got := <-status
	refused := func(a observe.Alert) bool { return a.Name == "ConfigRefused" && a.State == "firing" }
	if !slices.ContainsFunc(got.Alerts, refused) {
		t.Errorf("the alert that was logged is not in the status: %+v", got.Alerts)
	}
}

// writer is called for every line.
type writer func()

func (w writer) Write(line []byte) (int, error) {
	w()
	return len(line), nil
}
