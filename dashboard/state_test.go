package dashboard

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
)

// TestStateOfNothing: an empty state has all members, and empty lists.
func TestStateOfNothing(t *testing.T) {
	r := newRig(t, func(c *Config) { *c = Config{Monitor: c.Monitor, Protect: c.Protect} })
	var all map[string]json.RawMessage
	r.get("/api/state", &all)
	want := []string{"alerts", "audit", "changes", "config", "long", "names", "now", "offenders", "outbound", "points",
		"processes", "series", "store", "top", "version", "violations", "who", "writable"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, text := range all {
		if bytes.Contains(text, []byte("null")) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if string(all["writable"]) != "false" {
		t.Error("it is writable without operators")
	}
}

func TestState(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Phase = func() string { return "ready" }
		c.Sources = func() []Source {
			return []Source{{Name: "policies", Path: "stint.yaml", Good: 2, Failed: 1, Error: "line 3"}}
		}
	})
	for range 4 {
		r.ask("mallory", "/")
		r.ask("", "/trial")
	}
	var s state
	testkit.Eventually(t, "all is counted", func() bool {
		r.get("/api/state", &s)
		return len(s.Violations) == 4
	})
	if len(s.Points) == 0 || len(s.Series) == 0 || len(s.Alerts) == 0 || s.Version != "v1.2.3" ||
		time.Since(s.Now).Abs() > time.Minute {
		t.Errorf("got %+v", s)
	}
	if !s.Writable || s.Who != "" || s.Config.Phase != "ready" || len(s.Config.Sources) != 1 ||
		s.Config.Sources[0].Error != "line 3" {
		t.Errorf("got %+v", s)
	}
	if len(s.Top) != len(kinds) || len(s.Top["user"]) != 1 || s.Top["user"][0].Subject != r.short("user:mallory") ||
		s.Top["user"][0].Denied != 1 {
		t.Errorf("the offenders are %+v", s.Top)
	}
	tiers := []ruleList{{"users", []string{"3/1h"}, false, "", "local"},
		{"anyone", []string{"2/1h"}, false, "", "local"}}
	policies := []ruleList{
		{"search", []string{"2/1m (users)", "1/1m (anyone)"}, false, "", "local"},
		{"trial", []string{"1/1m"}, true, "", "local"},
		{"open", []string{}, false, "", "local"},
	}
	if !reflect.DeepEqual(s.Config.Tiers, tiers) || !reflect.DeepEqual(s.Config.Policies, policies) {
		t.Errorf("got %+v and %+v, want %+v and %+v", s.Config.Tiers, s.Config.Policies, tiers, policies)
	}

	response, text := r.call(http.MethodGet, "/api/state", "", asAlice)
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Who != "alice" ||
		response.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("with a token: %v, who is %q", err, s.Who)
	}
}

func TestOutbound(t *testing.T) {
	r := newRig(t)
	stats := []outbound.Stats{
		{Name: "igdb", Calls: 10, Waited: 4, TotalWait: 2 * time.Second, Waiting: 1, Denied: 3},
		{Name: "steam", Limits: []stint.Limit{stint.PerMinute(5)}, Calls: 1, CoolingUntil: time.Now().Add(time.Hour)},
	}
	r.monitor.WatchOutbound(func() []outbound.Stats { return stats })
	admin := r.board.admin
	for range 2 {
		if _, err := admin.Take(t.Context(),
			control.TakeRequest{Target: control.Target{Subject: "igdb:api"}}); err != nil {
			t.Fatal(err)
		}
	}
	var s state
	r.get("/api/state", &s)
	want := &outboundState{Name: "igdb", Limits: []string{"4/1s", "100/1h"}, Used: 2, Capacity: 4, Calls: 10, Waited: 4,
		AverageWait: 0.5, Waiting: 1, Denied: 3}
	if len(s.Outbound) != 2 || s.Outbound[0].CoolingUntil != nil {
		t.Fatalf("got %+v", s.Outbound)
	}
	// The window of a second may have passed since, and then that of an hour is nearest to its end.
	if got := s.Outbound[0]; got.Used == 2 && got.Capacity == 100 {
		want.Capacity = 100
	}
	if !reflect.DeepEqual(s.Outbound[0], want) {
		t.Errorf("got %+v, want %+v", s.Outbound[0], want)
	}
	if got := s.Outbound[1]; got.Name != "steam" || got.CoolingUntil == nil || got.Problem == "" ||
		!slices.Equal(got.Limits, []string{"5/1m"}) {
		t.Errorf("one that only this process knows of: got %+v", got)
	}

	// The store knows a pause that another process has set.
	if _, err := admin.Ban(t.Context(), control.Target{Subject: "igdb:api"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	r.get("/api/state", &s)
	if until := s.Outbound[0].CoolingUntil; until == nil || time.Until(*until) < 59*time.Minute {
		t.Errorf("cooling until %v", until)
	}
}

// Without the store the page does not say that nothing is used.
func TestOutboundUnavailable(t *testing.T) {
	s := &outboundState{Name: "igdb"}
	s.use(control.TakeResult{Degraded: true, Unavailable: true, RetryAfter: 1}, nil)
	if s.Problem != "The store is unavailable." || s.Capacity != 0 || s.CoolingUntil != nil {
		t.Errorf("got %+v, want that nothing is known", s)
	}
}

// TestLimitsOfTiers says for which tiers a limit is only if that is not all, and a contact only if
// it is that of all.
func TestLimitsOfTiers(t *testing.T) {
	set := guardtest.Parse(t, `
contact: mailto:help@example.com
tiers:
  - {name: a, match: {claim: {plan: a}}, identity: ip, limits: 1/1s, budget: 10/1h, shadow: true, contact: Ask Ann}
  - {name: b, match: {claim: {plan: b}}, identity: ip, limits: unlimited, failure: {mode: deny}}
  - {name: c, identity: ip, limits: 1/1s, rollout: 10%}
policies:
  - {name: same, limits: [5/1s, 7/1m], contact: "https://example.com/more", failure: {mode: allow}}
  - {name: some, limits: {a: 5/1s, b: [5/1s, 9/1m], default: 6/1s}}
  - {name: one, limits: {a: 5/1s, default: unlimited}}
  - {name: plan, limits: {a: [2/1s, {limit: 60/1m, claim: rpm, max: 900}], default: 60/1m}}
`)
	want := []ruleList{
		{"a", []string{"1/1s", "cost: 10/1h"}, true, "Ask Ann", "local"}, {"b", []string{}, false, "", "deny"},
		{"c", []string{"1/1s"}, false, "mailto:help@example.com", "local"},
		{"same", []string{"5/1s", "7/1m"}, false, "https://example.com/more", "allow"},
		{"some", []string{"5/1s (a, b)", "9/1m (b)", "6/1s (c)"}, false, "", ""},
		{"one", []string{"5/1s"}, false, "Ask Ann", ""},
		{"plan", []string{"2/1s (a)", "60/1m or claim rpm up to 900 (a)", "60/1m (b, c)"}, false, "", ""},
	}
	tiers := tiersOf(set)
	if got := slices.Concat(tiers, policiesOf(set, tiers)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
