package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestF33AdminExposed refuses to serve operators' things to everybody.
func TestF33AdminExposed(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		s, err := New(Config{Admin: address, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Start(context.Background())
		if err == nil || !strings.Contains(err.Error(), "server: admin on "+address+": other machines can reach this address, and there are no admin tokens") {
			t.Errorf("%s: got %v, want that it is refused", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		start(t, Config{Admin: address})
	}
	start(t, withOperator(t, Config{Admin: "0.0.0.0:0"}))
}

// TestF33AdminToken has everything but probes behind a token.
func TestF33AdminToken(t *testing.T) {
	c := everywhere(t)
	const first, second = "first-token-of-tests", "second-token-of-tests"
	c.AdminTokens = testkit.TempFile(t, "tokens", "# two of them\nalice: "+first+"\n"+second+"\n")
	r := start(t, c)
	private := []string{
		"/config", "/rlconfig", "/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile",
		"/debug/pprof/trace", "/debug/pprof/symbol", "/debug/", "/nothing",
		"/api/state", "/api/stream", "/api/top", "/api/violations", "/api/bans", "/api/shadow",
		"/api/subject?subject=ip:192.0.2.1", "/api/nothing",
	}
	for _, path := range private {
		for _, token := range []string{"", "first", first + "2", first + " " + second, "alice: " + first} {
			r.wantGet(Admin, path, token, 401, `"error":"unauthorized"`)
		}
	}
	for _, path := range []string{"/config", "/rlconfig", "/metrics", "/debug/pprof/", "/api/state", "/api/bans"} {
		for _, token := range []string{first, second} {
			r.wantGet(Admin, path, token, 200, "")
		}
	}
	// The command line may hold a secret.
	r.wantGet(Admin, "/debug/pprof/cmdline", first, 404, "")
	// The page holds no data, and asks for the token.
	for _, path := range []string{"/livez", "/readyz", "/", "/static/main.js"} {
		r.wantGet(Admin, path, "", 200, "")
	}
}

// TestF33Roles: who may only look is told so when they try to change something, and the log names
// them.
func TestF33Roles(t *testing.T) {
	c := everywhere(t)
	testkit.WriteFile(t, c.Policies, "bans: {after: 0}\n"+three)
	const scraper, alice = "token-of-a-scraper", "token-of-an-operator"
	c.AdminTokens = testkit.TempFile(t, "tokens", "prometheus (read): "+scraper+"\nalice (operate): "+alice+"\n")
	r := start(t, c)
	for _, path := range []string{"/config", "/rlconfig", "/metrics", "/debug/pprof/", "/debug/pprof/heap",
		"/api/state", "/api/top", "/api/bans", "/api/subject?subject=ip:192.0.2.1"} {
		r.wantGet(Admin, path, scraper, 200, "")
	}
	for _, test := range []struct {
		path, body string
		read       int // the status for those who may look; all are 200 for an operator
	}{
		{"/api/ban", `{"subject": "ip:192.0.2.1", "for": "1h"}`, 403},
		{"/api/unban", `{"subject": "ip:192.0.2.1"}`, 403},
		{"/api/reset", `{"subject": "ip:192.0.2.1"}`, 403},
		{"/api/take", `{"subject": "ip:192.0.2.1"}`, 403},
		{"/api/take", `{"subject": "ip:192.0.2.1", "peek": true}`, 200},
	} {
		for token, want := range map[string]int{scraper: test.read, alice: 200, "": 401} {
			status, body := send(t, http.MethodPost, r.url(Admin, test.path), test.body, bearer(token))
			if status != want || want == 403 && !strings.Contains(body, "require a token with the role operate; the token of prometheus has the role read") {
				t.Errorf("%s %s with %s: got %d, %s; want %d", test.path, test.body, token, status, body, want)
			}
		}
	}
	for text, want := range map[string]int{"msg=audit who=prometheus ": 4, "msg=audit who=alice ": 4} {
		if n := strings.Count(r.log.String(), text); n != want {
			t.Errorf("%q is logged %d times, want %d", text, n, want)
		}
	}
	r.wantGet(Admin, "/api/state", scraper, 200, `"writable":false,"who":"prometheus"`)
	// The API has no roles: a token that is said to read only would do everything.
	c.APITokens = testkit.TempFile(t, "tokens", "prometheus (read): "+scraper+"\n")
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "these tokens have no roles") {
		t.Errorf("a role in the tokens of the API: got %v", err)
	}
}

// TestF33CrossSite: pages of other sites get nothing from the admin listener, with tokens or
// without. They may lead to the page.
func TestF33CrossSite(t *testing.T) {
	for name, c := range map[string]Config{"with a token": withOperator(t, everywhere(t)), "without": everywhere(t)} {
		r := start(t, c)
		fetch := func(method, path, site, mode, origin string) (int, string) {
			t.Helper()
			return send(t, method, r.url(Admin, path), "", "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: "+mode, "Origin: "+origin, bearer(operator))
		}
		for _, path := range []string{"/", "/static/main.js", "/metrics", "/config", "/debug/pprof/",
			"/debug/pprof/heap", "/api/state", "/api/bans", "/livez", "/readyz", "/nothing"} {
			for _, site := range []string{"cross-site", "same-site"} {
				if status, _ := fetch("GET", path, site, "no-cors", ""); status != 403 {
					t.Errorf("%s, %s of a %s page: got %d, want 403", name, path, site, status)
				}
				if status, _ := fetch("POST", path, site, "navigate", "https://evil.example"); status != 403 {
					t.Errorf("%s, a form of a %s page to %s: got %d, want 403", name, site, path, status)
				}
				if status, _ := fetch("GET", path, site, "navigate", ""); (status == 200) != (path == "/") {
					t.Errorf("%s, a link of a %s page to %s: got %d", name, site, path, status)
				}
			}
			if status, _ := fetch("GET", path, "", "cors", "https://evil.example"); status != 403 {
				t.Errorf("%s, %s of an old browser: got %d, want 403", name, path, status)
			}
			for _, site := range []string{"", "none", "same-origin"} {
				if status, _ := fetch("GET", path, site, "", ""); status != 200 && path != "/nothing" {
					t.Errorf("%s, %s of the page itself (%q): got %d, want 200", name, path, site, status)
				}
			}
		}
	}
}

// TestF33Rebinding refuses a page whose own name leads to this machine. Without tokens nothing is
// changed either.
func TestF33Rebinding(t *testing.T) {
	r := start(t, everywhere(t))
	for host, want := range map[string]int{
		"127.0.0.1:6070": 200, "localhost": 200, "LOCALHOST:1": 200, "[::1]:6070": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:6070": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
	} {
		for _, path := range []string{"/config", "/metrics", "/debug/pprof/", "/api/state", "/api/bans"} {
			if got, _ := send(t, http.MethodGet, r.url(Admin, path), "", "Host: "+host); got != want {
				t.Errorf("%s%s: got %d, want %d", host, path, got, want)
			}
		}
	}
	// A proxy on this machine makes everybody look local.
	if got, _ := send(t, http.MethodGet, r.url(Admin, "/config"), "", "X-Forwarded-For: 203.0.113.9"); got != 403 {
		t.Errorf("through a proxy: got %d, want 403", got)
	}
	r.wantLogged("refused a caller that is not on this host")
	if status, body := send(t, http.MethodPost, r.url(Admin, "/api/ban"), `{"subject": "ip:192.0.2.1", "for": "1h"}`); status != 403 ||
		!strings.Contains(body, "--no-admin-token") {
		t.Errorf("a ban: got %d, %s", status, body)
	}
}

// TestAPIToken has the API behind a token, and nothing else.
func TestAPIToken(t *testing.T) {
	c := everywhere(t)
	c.APITokens = testkit.TempFile(t, "tokens", "token-of-a-caller")
	r := start(t, c)
	for token, want := range map[string]int{"": 401, "other-token-of-tests": 401, "token-of-a-caller": 200} {
		r.wantTake(token, want, "")
	}
	for path, want := range map[string]int{"/v1/refund": 401, "/": 401, "/livez": 200, "/readyz": 200,
		"/healthcheck": 200, "/openapi.json": 200} {
		r.wantGet(HTTP, path, "", want, "")
	}
	if status, _ := r.get(HTTP, "/auth", ""); status == 401 {
		t.Errorf("/auth: got 401, want that it does not ask for a token")
	}
	if got := codeOf(t, r.dial(), ""); got != "OK" {
		t.Errorf("gRPC: got %s, want that it does not ask for a token", got)
	}
	// A change of the file is obeyed.
	testkit.WriteFile(t, c.APITokens, "another-token-of-tests")
	testkit.Eventually(t, "the new token is good", func() bool { status, _ := r.take("another-token-of-tests"); return status != 401 })
	r.wantTake("token-of-a-caller", 401, "")
	// One that is empty is refused, and does not open the API.
	testkit.WriteFile(t, c.APITokens, "")
	r.wantReload("no tokens")
	r.wantTake("", 401, "")
	if status, _ := r.take("another-token-of-tests"); status == 401 {
		t.Error("after an empty file the last good token is refused")
	}
	testkit.WriteFile(t, c.APITokens, "another-token-of-tests\nshort\n")
	r.wantReload("tokens:2: a token of 5 bytes can be guessed")
	r.wantTake("short", 401, "")
	if _, body := r.get(Admin, "/config", ""); !strings.Contains(body, "can be guessed") ||
		strings.Contains(body, "another-token-of-tests") {
		t.Errorf("got %s, want what is wrong and no secret", body)
	}
}

// TestRefusalsAreLogged tells of those who are refused, but not of every one, and never of what
// they tried. At the level debug, it names who has shown a token.
func TestRefusalsAreLogged(t *testing.T) {
	c := everywhere(t)
	for name, path := range map[string]*string{"api": &c.APITokens, "envoy": &c.Envoy.Tokens, "admin": &c.AdminTokens} {
		*path = testkit.TempFile(t, name, "holder: token-for-"+name+"-callers\n")
	}
	var debug testkit.Buffer // of the admin listener
	r := start(t, c, func(s *Server) {
		s.adminTokens.logger = slog.New(slog.NewTextHandler(&debug, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	conn := r.dial()
	for range 100 {
		r.take("guess-of-a-token")
		r.get(Admin, "/config", "guess-of-a-token")
		codeOf(t, conn, "Bearer guess-of-a-token")
	}
	r.wantGet(Admin, "/config", "token-for-admin-callers", 200, "")
	log := r.log.String() + debug.String()
	for _, want := range []string{`want="API tokens" peer=127.0.0.1 `, `want="admin tokens" peer=127.0.0.1 `,
		`want="Envoy tokens" peer=127.0.0.1:`, `of="admin tokens" holder=holder`} {
		if n := strings.Count(log, want); n < 1 || n > 50 {
			t.Errorf("%s: logged %d times", want, n)
		}
	}
	if strings.Contains(log, "guess") {
		t.Errorf("what was tried is logged")
	}
}

// TestSecretFiles: files of secrets that everybody can read are used, and warned of.
func TestSecretFiles(t *testing.T) {
	c := withOperator(t, everywhere(t))
	c.APITokens = testkit.TempFile(t, "tokens", "token-of-a-caller\n")
	if r := start(t, c); strings.Contains(r.log.String(), "can read") {
		t.Errorf("warned of files that nobody else can read")
	}
	for _, path := range []string{c.AdminTokens, c.APITokens} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, c)
	for what, path := range map[string]string{"admin tokens": c.AdminTokens, "API tokens": c.APITokens} {
		r.wantLogged(fmt.Sprintf("chmod 600\" of=%q file=%s\n", what, path))
	}
}
