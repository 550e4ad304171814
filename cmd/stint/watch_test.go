package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

var fixedNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// answering starts a server with fixed responses by path, and returns its URL.
func answering(t *testing.T, answers map[string]any) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if serve, ok := body.(http.HandlerFunc); ok {
			serve(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func drawn() control.Subject {
	ago := func(d time.Duration, span time.Duration, units int64) driver.Entry {
		return driver.Entry{At: fixedNow.Add(-d), Until: fixedNow.Add(span - d), Units: units}
	}
	return control.Subject{
		Named: control.Named{Subject: "user:42"}, Now: fixedNow,
		Ban: driver.BanState{Until: fixedNow.Add(252 * time.Second), Level: 2, Strikes: 3},
		Limits: []control.Limit{
			{
				Tier: "free", Scope: "structure", Limit: "30/1m burst 2x", Algorithm: "sliding", Max: 30, Capacity: 60,
				Window: 60, Used: 12, Remaining: 48, ResetAfter: 59,
				Entries: []driver.Entry{
					ago(55*time.Second, time.Minute, 1), ago(50*time.Second, time.Minute, 2),
					ago(20*time.Second, time.Minute, 8), ago(time.Second, time.Minute, 1),
				},
			},
			{
				Tier: "free", Scope: "structure", Limit: "500/1h", Algorithm: "sliding", Max: 500, Capacity: 500, Window: 3600,
				Used: 500, Held: 40, Remaining: 0, ResetAfter: 3599, RetryAfter: 12.34, LeftOut: 20,
				Entries: []driver.Entry{ago(-10*time.Minute, time.Hour, 3), ago(0, time.Hour, 477)},
			},
			{Tier: "free", Scope: "other", Limit: "30/1m burst 2x", Algorithm: "sliding", Max: 30, Capacity: 60,
				Window: 60, Remaining: 60},
			{
				Tier: "pro", Scope: "structure", Limit: "10/1m fixed", Algorithm: "fixed", Max: 10, Capacity: 10,
				Window: 60, Used: 4, Remaining: 6, ResetAfter: 15,
				Entries: []driver.Entry{{At: fixedNow.Add(-45 * time.Second),
					Until: fixedNow.Add(15 * time.Second), Units: 4}},
			},
			{Policy: "search", Scope: "search", Shadow: true, Limit: "10/1s burst 25 bucket", Algorithm: "bucket",
				Max: 10, Capacity: 25, Window: 1, Used: 24, Remaining: 1, ResetAfter: 2.4},
			{
				Tier: "free", Policy: "export", Scope: "export", Divided: true, Limit: "2/30s concurrency",
				Algorithm: "concurrency", Max: 2, Capacity: 2, Window: 30,
				Used: 1, Remaining: 1, Entries: []driver.Entry{{Until: fixedNow.Add(20 * time.Second), Units: 1}},
			},
		},
	}
}

func TestInspectDraws(t *testing.T) {
	result := drawn()
	for _, test := range []struct {
		golden string
		width  int
		color  bool
		all    bool
	}{
		{"inspect.txt", 0, false, false},
		{"inspect_wide.txt", 120, true, true},
		{"inspect_narrow.txt", 30, false, false},
	} {
		s := &system{Color: test.color}
		if test.width > 0 {
			s.Window = func() (int, int) { return test.width, 24 }
		}
		testkit.Golden(t, *update, test.golden, string(s.render(subjectText(s, &result, test.all))))
	}
	url := answering(t, map[string]any{"/api/subject": result})
	got := execute(t, "", "inspect", "user:42", "--server", url, "--policy", "export", "--all")
	want := "user:42\nbanned for another 4m12s, until 2026-01-02T03:08:17Z, number 2 in a row\n3 denials count toward the next ban\n\n" +
		"free, export: 2/30s concurrency\n"
	if got.code != exitGood || !strings.HasPrefix(got.stdout, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}

func TestBansTable(t *testing.T) {
	ban := func(subject, ref string, left time.Duration, level int) control.Ban {
		return control.Ban{Banned: driver.Banned{Subject: subject,
			BanState: driver.BanState{Until: fixedNow.Add(left), Level: level}}, Ref: ref}
	}
	bans := []control.Ban{ban("user:mallor…", "x1", time.Hour, 3), ban("ip:203.0.113.9\n", "", 90*time.Second, 0)}
	testkit.Golden(t, *update, "bans.txt", string(bansText(bans, 2, fixedNow)))
}

func top() map[string]any {
	return map[string]any{
		"/api/processes": map[string]any{"processes": []any{}},
		"/api/top": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			list := map[string][]observe.Offender{
				"user": {{Kind: "user", Subject: "user:mallor…", Ref: "x1", Denied: 420, Policy: "free"}},
				"ip": {{Kind: "ip", Subject: "ip:203.0.113.x", Ref: "x2", Denied: 1200, Policy: "login"},
					{Kind: "ip", Subject: "ip:198.51.100.x", Ref: "x3", Denied: 7}},
			}[r.FormValue("by")]
			_ = json.NewEncoder(w).Encode(map[string]any{"top": list})
		}),
	}
}

// TestTopOfSeveral checks that top names the processes that it covers, also on a terminal with
// colors.
func TestTopOfSeveral(t *testing.T) {
	answers := top()
	answers["/api/processes"] = map[string]any{"processes": []observe.Process{
		{Name: "web-1/7", Self: true, Decisions: 120, Denied: 3, Alerts: []string{"LimiterSlow"}},
		{Name: "web-22/7", Silent: true, Heard: fixedNow},
	}}
	s := &system{Window: func() (int, int) { return 80, 24 }, Color: true}
	got := executeOn(s, "top", "--once", "--server", answering(t, answers))
	want := "all 2 processes:\n  web-1/7   120 decisions/s, 3 denied  LimiterSlow\n  web-22/7  silent since 2026-01-02T03:04:05Z\n\nDENIED"
	if !strings.HasPrefix(got.stdout, want) || got.stderr != "" {
		t.Errorf("got %+v\nwant %s", got, want)
	}
}

func tick(tick observe.Tick) string {
	text, _ := json.Marshal(tick)
	return fmt.Sprintf("event: tick\ndata: %s\n\n", text)
}

// streaming returns a handler that responds to each request with the next of the streams, and to
// later requests with an error that makes clients stop.
func streaming(streams ...string) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		if n == len(streams) {
			http.Error(w, `{"message":"That was all."}`, http.StatusTeapot)
			return
		}
		_, _ = w.Write([]byte(streams[n]))
		n++
	}
}

// TestTopFollows checks that top redraws its output, and reconnects after a lost connection.
func TestTopFollows(t *testing.T) {
	answers := top()
	busy := observe.Tick{Point: observe.Point{Counts: observe.Counts{Allowed: 180, Denied: 20}, P99: 0.42e-3},
		Store: observe.StoreHealth{Up: true}}
	broken := observe.Tick{
		Point:  observe.Point{Counts: observe.Counts{Allowed: 90, Denied: 5, Degraded: 95, Failed: 5}},
		Alerts: []observe.Alert{{Name: "StoreDown", State: "firing"}, {Name: "Spike", State: "ok"}},
		Store:  observe.StoreHealth{Outage: &observe.Outage{Is: "is out of memory"}},
	}
	answers["/api/stream"] = streaming(tick(busy), tick(broken))
	url := answering(t, answers)
	lost := "stint: no answer from " + url + ": EOF; trying again in 500ms\n"

	got := execute(t, "", "top", "--server", url)
	if want := lost + lost + "stint: That was all.\n"; got.stderr != want || got.code != exitUnreachable {
		t.Errorf("exit code %d, errors %q; want %q", got.code, got.stderr, want)
	}
	testkit.Golden(t, *update, "top_lines.txt", got.stdout)

	answers["/api/stream"] = streaming(tick(busy) + tick(broken))
	s := &system{Window: func() (int, int) { return 40, 24 }, Color: true}
	drawn := executeOn(s, "top", "--server", url).stdout
	testkit.Golden(t, *update, "top_terminal.txt", strings.ReplaceAll(drawn, "\x1b", "ESC"))

	answers["/api/stream"] = streaming(tick(busy) + tick(broken))
	if got := execute(t, "", "top", "--json", "--server", url); strings.Count(got.stdout, "\n") != 2 ||
		!strings.HasPrefix(got.stdout, `{"point":{`) {
		t.Errorf("got %+v, want a line for each second", got)
	}
}

func TestTail(t *testing.T) {
	list := []observe.Violation{
		{At: fixedNow, Subject: "user:mallor…", Ref: "x1", Tier: "free", Limit: "30/1m burst 2x", Reason: "limit",
			RetryAfter: 12.5},
		{At: fixedNow, Subject: "ip:203.0.113.x", Ref: "x2", Tier: "anonymous", Policy: "login", Reason: "ban",
			RetryAfter: 3600},
		{At: fixedNow, Subject: "ip:203.0.113.x\x1b[2J", Tier: "anonymous", Policy: "new", Limit: "5/15m",
			Reason: "shadow", RetryAfter: 60},
		{At: fixedNow, Subject: "user:1", Tier: "pro", Limit: "1/1s", Reason: "limit", RetryAfter: -1, Degraded: true},
	}
	answers := map[string]any{"/api/violations": map[string]any{"violations": list[:1]}}
	url := answering(t, answers)
	tail := func(args ...string) string {
		// This violation arrives while past violations are requested, with another time zone.
		again := list[0]
		again.At = again.At.In(time.FixedZone("", 3600))
		answers["/api/stream"] = streaming(
			tick(observe.Tick{})+tick(observe.Tick{Violations: []observe.Violation{again}})+
				tick(observe.Tick{Violations: list[1:3]}),
			tick(observe.Tick{Violations: list[3:], Unshown: 17}))
		return execute(t, "", append([]string{"tail", "--server", url}, args...)...).stdout
	}
	testkit.Golden(t, *update, "tail.txt", tail())
	for _, test := range []struct {
		only tailCommand
		want []bool // one for each violation in list
	}{
		{tailCommand{}, []bool{true, true, true, true}},
		{tailCommand{Reason: "ban"}, []bool{false, true, false, false}},
		{tailCommand{Tier: "pro", Reason: "limit"}, []bool{false, false, false, true}},
		{tailCommand{Policy: "new"}, []bool{false, false, true, false}},
		{tailCommand{Subject: "203.0"}, []bool{false, true, true, false}},
	} {
		for i, want := range test.want {
			if got := test.only.wants(&list[i]); got != want {
				t.Errorf("%+v of %+v: got %t", test.only, list[i], got)
			}
		}
	}
	change := observe.Change{At: fixedNow, Source: "policies", Files: []string{"stint.yaml"},
		What: []string{"api for enterprise from 500/1m to 50/1m"}, Subjects: 8}
	answers["/api/stream"] = streaming(tick(observe.Tick{Changes: []observe.Change{change}}) +
		tick(observe.Tick{Changes: []observe.Change{change}}))
	want := "api for enterprise from 500/1m to 50/1m; 8 subjects newly denied (stint.yaml)."
	if got := execute(t, "", "tail", "--server", url).stderr; strings.Count(got, want) != 1 {
		t.Errorf("got %q, want once %q", got, want)
	}
	var v observe.Violation
	lines := strings.Split(tail("--json", "--reason", "limit"), "\n")
	if err := json.Unmarshal([]byte(lines[0]), &v); err != nil || v != list[0] || len(lines) != 3 {
		t.Errorf("got %d lines, of which the first is %q, %v", len(lines), lines[0], err)
	}
}

func TestTopOnce(t *testing.T) {
	url := answering(t, top())
	testkit.Golden(t, *update, "top.txt", execute(t, "", "top", "--once", "--server", url).stdout)
	got := execute(t, "", "top", "--once", "--by", "ip", "-n", "1", "--json", "--server", url)
	if want := `"denied": 1200`; got.code != exitGood || strings.Count(got.stdout, `"subject"`) != 1 ||
		!strings.Contains(got.stdout, want) {
		t.Errorf("got %+v, want the first one, in JSON", got)
	}
	quiet := answering(t, map[string]any{"/api/top": map[string]any{}, "/api/processes": map[string]any{}})
	if got := execute(t, "", "top", "--once", "--server", quiet); got.stdout != "no denials in the last few minutes\n" {
		t.Errorf("got %+v", got)
	}
}
