package observe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// Every mistake in the alerts and the webhooks is found before anything starts, without showing an
// address.
func TestNewMistakes(t *testing.T) {
	m, err := observe.New(observe.Config{
		Alerts: observe.AlertConfig{Thresholds: map[string]float64{
			"None": 1, "spike": 1, "Spike": -1, "BlockedShare": 20, "LimiterSlow": math.NaN()}, For: -1,
			Webhook: "hooks.example/secret"},
		Webhooks: []observe.Webhook{
			{URL: "https://good.example", Key: make([]byte, 16)}, {URL: "ftp://hooks.example/secret"},
			{URL: "http://hooks.example/secret", Key: []byte("short")}},
	})
	if m != nil || !errors.As(err, new(*stint.InvalidError)) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v and %v", m, err)
	}
	for _, want := range []string{`unknown alert "None"`, `"Spike": invalid threshold -1; want at least 0`,
		`unknown alert "spike" (did you mean "Spike"?); want one of BlockedShare, LimiterSlow`,
		"want a share below 1", `"LimiterSlow": invalid threshold NaN; want at least 0`, "invalid AlertConfig.For -1ns",
		"invalid webhook URL; want one such", "webhook 1: invalid webhook URL", "webhook key has 0 bytes",
		"want https://", "has 5 bytes; want at least 16"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	good := observe.AlertConfig{Webhook: "http://127.0.0.1:1/x", For: time.Second, Thresholds: map[string]float64{"Spike": 2}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// TestStatusIsWhole: a status has all of a second or nothing of it, also while that second ends.
func TestStatusIsWhole(t *testing.T) {
	status := make(chan observe.Tick, 1)
	var m *observe.Monitor
	asked := false
	m = open(t, observe.Config{Logger: slog.New(slog.NewTextHandler(writer(func() { // an alert is logged in between
		if !asked {
			asked = true
			go func() { status <- m.Status(1) }()
			time.Sleep(50 * time.Millisecond) // for one that does not wait
		}
	}), nil))})
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

// TestTicks: subscribers receive every second, those that do not listen hold up none, and all ends
// with Close. synctest notices goroutines that are left.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, observe.Config{Logger: discard})
		m.WatchStore(func(context.Context) (observe.StoreHealth, error) {
			return observe.StoreHealth{Kind: "memory", Subjects: 9}, nil
		})
		ticks, _ := m.Subscribe()
		_, _ = m.Subscribe() // does not listen
		gone, cancel := m.Subscribe()
		g := newGuard(t, "tiers: [{name: anyone, identity: ip, limits: 3/1h}]", m)
		ask(t, g, 1003, get("/"))
		tick, all := <-ticks, len(observe.AlertNames())
		if want := (observe.Counts{Allowed: 3, Denied: 1000}); tick.Point.Counts != want || tick.Store.Subjects != 9 || len(tick.Alerts) != all {
			t.Errorf("the first second had %+v, want %+v", tick, want)
		}
		if v := tick.Violations; len(v) != 200 || tick.Unshown != 800 || v[0].Limit != "3/1h" || !strings.HasPrefix(v[0].Subject, "ip:203.0.113.x#") {
			t.Errorf("violations are %+v, and %d are not shown; want 200 and 800", v, tick.Unshown)
		}
		for range 20 {
			tick = <-ticks
		}
		if tick.Point.Counts != (observe.Counts{}) || len(tick.Series) > 0 {
			t.Errorf("a quiet second had %+v", tick)
		}
		time.Sleep(10 * time.Second) // without listening
		for behind := len(ticks); behind > 0; behind-- {
			<-ticks
		}
		if next := <-ticks; len(next.Alerts) != all {
			t.Errorf("%d alerts after missed ticks, want all %d", len(next.Alerts), all)
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
			t.Error("received something of a closed monitor")
		}
		cancel()
		if got := m.Status(0).Series; len(got) != 1 || got[0].Total != (observe.Counts{Allowed: 3, Denied: 1000}) {
			t.Errorf("after Close: %+v", got)
		}
		if ref := m.Top("ip", 1)[0].Ref; ref == "" {
			t.Error("no ref")
		} else if subject, ok := m.SubjectOf(ref); !ok || subject != "ip:203.0.113.9" {
			t.Errorf("the ref stands for %q, %v", subject, ok)
		}
	})
}

// TestOthers: outbound calls and verdicts of other components are counted by outcome and reason.
func TestOthers(t *testing.T) {
	m := newMonitor(t)
	for _, err := range []error{nil, nil, &stint.DeniedError{}, &stint.DeniedError{Banned: true}, &stint.DeniedError{Unavailable: true},
		context.Canceled} {
		m.Observe(t.Context(), &outbound.Call{API: "igdb", Wait: time.Second, Err: err})
	}
	if all, _, _ := m.CountedAll(); all != (observe.Counts{}) {
		t.Errorf("calls to other APIs are counted as decisions on requests: %+v", all)
	}
	rule := &policy.Rule{Tier: "envoy", Policy: "shop.path\xff", Limits: []stint.Limit{stint.PerMinute(5)}}
	result := policy.Result{Rule: rule, Claim: stint.Claim{Subject: "envoy:a", Limits: rule.Limits}, Usages: []stint.Usage{{Used: 1}}}
	denied, shadow, tried := result, result, result
	denied.Denied, shadow.Denied, shadow.Shadow, tried.Shadow = true, true, true, true
	allowed := stint.Decision{Allowed: true}
	for _, v := range []policy.Verdict{
		{Decision: allowed, Results: []policy.Result{result}}, {Decision: allowed},
		{Decision: allowed, Results: []policy.Result{shadow}}, {Decision: allowed, Results: []policy.Result{tried}},
		{Results: []policy.Result{denied}},
		{Err: fmt.Errorf("too late: %w", context.DeadlineExceeded)}, {Err: &stint.InvalidError{Err: errors.New("a mistake")}},
		{Err: &stint.StoreError{Kind: stint.KindReadOnly, Err: context.Canceled}}, {Err: &stint.StoreError{Kind: "new"}}, {Err: errors.New("any")},
	} {
		v.Tier, v.Route = rule.Tier, rule.Policy
		m.Observe(t.Context(), &v)
	}
	wantCounted(t, m, []counted{
		{"outbound", "igdb", "allowed", "within", 2}, {"outbound", "igdb", "denied", "limit", 1}, {"outbound", "igdb", "denied", "ban", 1},
		{"outbound", "igdb", "denied", "unavailable", 1}, {"outbound", "igdb", "failed", "canceled", 1},
		{"envoy", "shop.path\uFFFD", "allowed", "within", 2}, {"envoy", "shop.path\uFFFD", "allowed", "unlimited", 1},
		{"envoy", "shop.path\uFFFD", "allowed", "shadow", 1}, {"envoy", "shop.path\uFFFD", "denied", "limit", 1},
		{"envoy", "shop.path\uFFFD", "failed", "canceled", 1}, {"envoy", "shop.path\uFFFD", "failed", "invalid", 1},
		{"envoy", "shop.path\uFFFD", "failed", "read-only", 1}, {"envoy", "shop.path\uFFFD", "failed", "other", 2},
	})
	if top := m.Top("envoy", 9); len(top) != 1 {
		t.Errorf("top: %+v", top)
	}
}
