package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/control"
)

// TestWrongRequests are refused, and change nothing.
func TestWrongRequests(t *testing.T) {
	r := newRig(t)
	for _, test := range []struct {
		request, body string
		status        int
		word, says    string
	}{
		{"GET /api/top?by=users", ``, 400, "invalid", `kind "users" (did you mean "user"?); want one of ip, user,`},
		{"GET /api/violations?n=1001", ``, 400, "invalid", "want a number from 1 to 1000"},
		{"GET /api/subject", ``, 400, "invalid", "No subject is given"},
		{"GET /api/subject?subject=" + strings.Repeat("x", stint.MaxSubject+1), ``, 400, "invalid", "the subject has "},
		{"GET /api/nothing", ``, 404, "not_found", "nothing here"},
		{"GET /api/ban", ``, 405, "method", "use POST"},
		{"POST /api/reset", ``, 400, "invalid", "The body is invalid: EOF"},
		{"POST /api/reset", `{}`, 400, "invalid", "No subject is given"},
		{"POST /api/reset", `{"subject": "user:1", "for": "1h"}`, 400, "invalid", `unknown field "for"`},
		{"POST /api/reset", `{"subject": "user:1", "ref": "x"}`, 400, "invalid", "want only one of them"},
		{"POST /api/reset", `{"ref": "x"}`, 404, "unknown_ref", "reference has expired"},
		{"POST /api/ban", `{"subject": "user:1"}`, 400, "invalid", `Invalid ban duration ""; want one such as 10m`},
		{"POST /api/ban", `{"subject": "user:1", "for": "1ns"}`, 400, "invalid", "the ban is 1ns"},
		{"POST /api/unban", `{"ref": "` + r.ref("~hash") + `"}`, 400, "invalid", "its name is too long"},
		{"POST /api/unban", `{"subject": "` + strings.Repeat("x", maxBody) + `"}`, 413, "too_large",
			"want at most 131072 bytes"},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		got := r.refused(test.status, test.word, method, path, test.body, asJSON, asAlice)
		if !strings.Contains(got, test.says) {
			t.Errorf("%.60s %.60s: got %s, want %s", test.request, test.body, got, test.says)
		}
	}
	var list struct{ Bans []control.Ban }
	if r.get("/api/bans", &list); len(list.Bans) != 0 {
		t.Errorf("there are bans: %+v", list.Bans)
	}
}

// TestAudit: what was done is in the log and in the state, with who and to whom, shortened.
func TestAudit(t *testing.T) {
	r := newRig(t)
	if status, text := r.post("/api/ban", `{"subject": "user:mallory", "for": "90s"}`); status != 200 || text != `{"ok":true,"subject":"user:mallory"}`+"\n" {
		t.Fatalf("got %d, %s", status, text)
	}
	if status, _ := r.post("/api/reset", `{"subject": "usr:mallory"}`); status != 404 {
		t.Fatalf("got %d", status)
	}
	var s state
	r.get("/api/state", &s, asAlice)
	want := []action{
		{Who: "alice", What: "ban for 1m30s", Subject: "user:mallory", Result: "done"},
		{Who: "alice", What: "reset", Subject: "usr:mallory", Result: label.Line("nothing in the configuration limits subjects like \"usr:mallor…\"; it has subjects that begin with user:, ip:, igdb:api (did you mean \"user:\"?)")},
	}
	if len(s.Audit) != len(want) {
		t.Fatalf("got %+v", s.Audit)
	}
	lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("logged %d lines: %s", len(lines), r.log)
	}
	for i, got := range s.Audit {
		if got.At.IsZero() {
			t.Errorf("%+v has no time", got)
		}
		got.At = want[i].At
		want[i].Ref = r.ref(want[i].Subject)
		if got != want[i] {
			t.Errorf("got %+v, want %+v", got, want[i])
		}
		var line struct{ Level, Msg, Who, What, Subject, Peer, Result string }
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		level := map[bool]string{true: "INFO", false: "WARN"}[got.Result == "done"]
		if line.Level != level || line.Msg != "audit" || line.Peer != "127.0.0.1" ||
			line.Who != got.Who || line.What != got.What || line.Subject != label.Short(got.Subject) ||
			line.Result != got.Result {
			t.Errorf("logged %s for %+v", lines[i], got)
		}
	}
	r.get("/api/state", &s)
	if got := s.Audit[0].Subject; got != r.short("user:mallory") {
		t.Errorf("others see that %s was banned", got)
	}
	if strings.Contains(r.log.String(), "mallory") || strings.Contains(r.log.String(), token) {
		t.Errorf("logged %s", r.log)
	}
}

func TestAuditIsBounded(t *testing.T) {
	var a audit
	for i := range maxActions + 50 {
		a.add(action{What: fmt.Sprint(i)})
	}
	list := a.list()
	if len(list) != maxActions || list[0].What != "50" || list[len(list)-1].What != fmt.Sprint(maxActions+49) {
		t.Errorf("got %d, from %s to %s", len(list), list[0].What, list[len(list)-1].What)
	}
}

// writesOf are all requests that change something.
var writesOf = []struct{ path, body string }{
	{"/api/reset", `{"subject": "user:mallory"}`},
	{"/api/ban", `{"subject": "user:mallory", "for": "1h"}`},
	{"/api/unban", `{"subject": "user:mallory"}`},
	{"/api/take", `{"subject": "user:mallory"}`},
}

// TestF33Writes: what changes something needs a token, JSON, and the same site.
func TestF33Writes(t *testing.T) {
	tests := []struct {
		fields []string
		status int
		word   string
	}{
		{[]string{asJSON}, 401, "unauthorized"},
		{[]string{asJSON, "Authorization: Bearer guess-of-a-token"}, 401, "unauthorized"},
		{[]string{asAlice, "Content-Type: text/plain"}, 415, "media_type"},
		{[]string{asAlice, "Content-Type: text/plain; application/json"}, 415, "media_type"},
		{[]string{asAlice, asJSON, "Sec-Fetch-Site: cross-site"}, 403, "forbidden"},
		{[]string{asAlice, asJSON, "Origin: https://evil.example"}, 403, "forbidden"},
		{[]string{asAlice, asJSON, "Sec-Fetch-Site: same-site"}, 403, "forbidden"},
		{[]string{asAlice, asJSON, "Origin: null"}, 403, "forbidden"},
	}
	r := newRig(t)
	for _, write := range writesOf {
		for _, test := range tests {
			r.refused(test.status, test.word, http.MethodPost, write.path, write.body, test.fields...)
		}
	}
	if deeds := r.board.audit.list(); len(deeds) != 0 {
		t.Errorf("something was done: %+v", deeds)
	}
	for _, good := range [][]string{
		{asAlice, asJSON}, {asAlice, "Content-Type: application/json; charset=utf-8"},
		{asAlice, asJSON, "Sec-Fetch-Site: same-origin", "Origin: " + r.url}, {asAlice, asJSON, "Origin: " + r.url},
	} {
		response, text := r.call(http.MethodPost, "/api/unban", `{"subject": "user:1"}`, good...)
		if response.StatusCode != 200 {
			t.Errorf("%v: got %d, %s", good, response.StatusCode, text)
		}
	}
}

// TestF33WithoutNames nothing can be changed, and it is said how it could.
func TestF33WithoutNames(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Who = nil })
	for _, write := range writesOf {
		why := r.refused(403, "forbidden", http.MethodPost, write.path, write.body, asJSON, asAlice)
		if !strings.Contains(why, "--no-admin-token") {
			t.Errorf("%s: got %s", write.path, why)
		}
	}
}

// TestF33LocalOnly: without a guard only this host is answered, under its own name and without a
// proxy.
func TestF33LocalOnly(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Protect = nil })
	paths := []string{"/api/state", "/api/stream", "/api/top", "/api/processes", "/api/violations", "/api/bans",
		"/api/subject?subject=user:1", "/api/nothing", "/nothing"}
	for _, fields := range [][]string{
		{"Host: evil.example"}, {"Host: localhost.evil.example:6070"}, {"X-Forwarded-For: 203.0.113.9"},
		{"Via: 1.1 proxy"},
	} {
		for _, path := range paths {
			r.refused(403, "forbidden", http.MethodGet, path, "", fields...)
		}
		for _, write := range writesOf {
			fields := append([]string{asJSON, asAlice}, fields...)
			r.refused(403, "forbidden", http.MethodPost, write.path, write.body, fields...)
		}
	}
	r.refused(403, "forbidden", http.MethodGet, "/api/stream", "", "Sec-Fetch-Site: cross-site")
	r.get("/api/state", new(state), "Sec-Fetch-Site: same-origin")
}
