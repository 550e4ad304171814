package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

// TestWhy checks that the header, the body and the log of a denial have the same ID, and that stint
// why explains the denial by this ID, or by the subject and the time.
func TestWhy(t *testing.T) {
	var log testkit.Buffer
	s := startServer(t, server.Config{
		Policies: testkit.TempFile(t, "stint.yaml", "tiers:\n  - {name: free, identity: [user, ip], limits: 2/1h}\n"),
		HTTP:     "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Observe: observe.Config{Alerts: observe.AlertConfig{Instance: "web-1"}, ShowSubjects: true},
	})
	admin := "http://" + s.Addr(server.Admin).String()
	var id string
	for range 5 {
		response, text := testkit.Fetch(t, http.DefaultClient, http.MethodPost, "http://"+s.Addr(server.HTTP).String()+"/v1/take",
			`{"method": "GET", "path": "/", "peer": "192.0.2.1", "claims": {"user": "42"}}`, "Content-Type: application/json")
		var body struct{ Denial string }
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		if id = response.Header.Get("X-RateLimit-Denial"); body.Denial != id {
			t.Errorf("the body has %q, the header %q", body.Denial, id)
		}
	}
	if !strings.Contains(log.String(), "denial="+id) {
		t.Errorf("the log does not have %s:\n%s", id, log.String())
	}
	want := regexp.MustCompile(`^user:42 was denied 3 times, .*: tier free allows 2/1h, 2 used\n  retry after  .*\n` +
		`  policies     in force since .*\n  process      web-1\n$`)
	for _, args := range [][]string{{id}, {"user:42"}, {"user:42", "--at", time.Now().Format(time.TimeOnly)}} {
		got := execute(t, "", append([]string{"why", "--server", admin}, args...)...)
		if got.code != exitGood || !want.MatchString(got.stdout) {
			t.Errorf("%v: exit code %d, %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
	wantResult(t, execute(t, "", "why", "--server", admin, "--json", id), exitGood, `"limit": "2/1h"`, "")
	for _, unknown := range []string{"0000000000000000", "user:43"} {
		wantResult(t, execute(t, "", "why", "--server", admin, unknown), exitBad, "no process ", "")
	}
}

func TestTimesOfWhy(t *testing.T) {
	now := time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"14:03": "2026-11-20T14:03:00Z", "14:03:10": "2026-11-20T14:03:10Z", "23:00": "2026-11-19T23:00:00Z",
		"2026-11-18T14:03": "2026-11-18T14:03:00Z",
	} {
		if got, err := parseAt(text, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: got %v, %v; want %s", text, got, err, want)
		}
	}
}

// TestWhyNamesTheSilent checks that the command names the processes that were not asked.
func TestWhyNamesTheSilent(t *testing.T) {
	url := answering(t, map[string]any{
		"/api/why": map[string]any{"denials": []observe.Denial{}},
		"/api/processes": map[string]any{
			"processes": []observe.Process{{Name: "web-1/7", Self: true}, {Name: "web-2/9", Silent: true}}},
	})
	got := execute(t, "", "why", "--server", url, "user:42")
	if want := "; silent processes were not asked: web-2/9\n"; !strings.HasSuffix(got.stdout, want) {
		t.Errorf("got %q%s, want %q at its end", got.stdout, got.stderr, want)
	}
}
