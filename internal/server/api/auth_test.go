package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/api"
	"github.com/stint-limiter/stint/resilience"
)

// authConfig trusts 10.0.0.0/8.
const authConfig = `
headers: {format: [x, draft-11]}
client_ip: {trusted_proxies: [10.0.0.0/8]}
tiers: [{name: anonymous, identity: ip, limits: 2/1m}]
policies:
  - {name: health, match: {path: /healthz}, skip: true}
  - {name: login, match: {method: POST, path: /login, host: example.com}, limits: 1/1m}
`

// asked is a question of a proxy.
func asked(s *server, method, target, peer string, fields ...string) answer {
	r := get(target, peer, fields...)
	r.Method = method
	w := httptest.NewRecorder()
	s.api.Auth().ServeHTTP(w, r)
	return answer{w, s.t}
}

const proxy = "10.0.0.1:4711"

// told is what a proxy says of a request of 203.0.113.9.
var told = []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Forwarded-For: 203.0.113.9"}

// TestAuthOriginal: the method, host and path are those of the request that the proxy holds, in the
// fields of any proxy, and only in one of their forms.
func TestAuthOriginal(t *testing.T) {
	const method, url, uri, host = "X-Original-Method: POST", "X-Original-URL: ", "X-Original-URI: ", "X-Forwarded-Host: "
	const post, get, path = "X-Forwarded-Method: POST", "X-Forwarded-Method: GET", "X-Forwarded-Uri: "
	for _, test := range []struct {
		method string // of the question
		fields []string
		policy string // as the header field says; "none" if exempt, "" if refused
	}{
		{"GET", []string{post, host + "example.com", "X-Forwarded-Proto: https", path + "/login?x=%20"}, "login"},
		{"GET", []string{method, uri + "/login?x=y"}, "login"},
		{"GET", []string{method, url + "https://example.com/login"}, "login"},
		{"GET", []string{method, url + "https://example.org/login"}, "anonymous"},
		{"POST", []string{get, host + "example.com", path + "/login"}, "anonymous"},
		{"PROPFIND", []string{post, host + "example.com", path + "//x/../login"}, "login"},
		{"GET", []string{method, uri + "/login", url, path, "X-Forwarded-Method: "}, "login"},
		{"GET", []string{get, path + "/healthz"}, "none"},
		{"GET", []string{method, uri + "/caf\xc3\xa9"}, "anonymous"},
		{"GET", nil, ""},
		{"GET", []string{get}, ""},
		{"GET", []string{method, uri + "/login", path + "/healthz"}, ""},
		{"GET", []string{method, uri + "/healthz", uri + "/login"}, ""},
		{"GET", []string{get, path + "/", host + "a", host + "b"}, ""},
		{"GET", []string{post, path + "/", host + "example.com/login?"}, ""},
		{"GET", []string{post, path + "/login", host + "example.com,x"}, ""},
		{"GET", []string{method, uri + "/login", url + "https://example.com/healthz"}, ""},
		{"GET", []string{method, url + "https://example.com#/login"}, ""},
		{"GET", []string{post, path + "/login", host + "u@example.com"}, ""},
		{"GET", []string{method, url + "https://example.com,x/login"}, ""},
		{"GET", []string{method, url + "https://example.com?/login"}, ""},
		{"GET", []string{method, url + "/login"}, ""},
		{"GET", []string{method, uri + "/login\xa0"}, ""},
		{"GET", []string{"X-Forwarded-Method: G T", path + "/"}, ""},
		{"GET", []string{get, path + "/%zz"}, ""},
	} {
		w := asked(serve(t, guardtest.Memory(t), authConfig), test.method, "/auth", proxy, append(test.fields, "X-Forwarded-For: 203.0.113.9")...)
		status, policy := 200, test.policy
		switch policy {
		case "none":
			policy = ""
		case "":
			status = 400
		}
		if got := w.Header().Get("X-RateLimit-Policy"); w.Code != status || got != policy {
			t.Errorf("%q: got %d and the policy %q, want %d and %q: %s", test.fields, w.Code, got, status, policy, w.Body)
		}
	}
}

// F10: nobody but a trusted proxy says who is asking, and for what.
func TestF10Auth(t *testing.T) {
	var log bytes.Buffer
	store := guardtest.Memory(t)
	s := serve(t, store, authConfig, func(c *api.Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	for range 50 {
		w := asked(s, http.MethodGet, "/auth", "203.0.113.66:1", told[0], told[1], "X-Forwarded-For: 198.51.100.1")
		if p := w.problem(http.StatusForbidden); !strings.Contains(p.Message, "client_ip.trusted_proxies") {
			t.Fatalf("got %+v", p)
		}
	}
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 3 || !strings.Contains(log.String(), `"peer":"203.0.113.66"`) {
		t.Errorf("50 strangers make %d lines: %s", n, log.String())
	}
	if store.Stats().Subjects != 0 {
		t.Error("a stranger's request was counted")
	}
	// The first address from the right that is not trusted; what is further left, anybody can write.
	for i, want := range []int{200, 200, 429} {
		spoofed := []string{"1.1.1.1", "2.2.2.2", "10.9.9.9"}[i]
		w := asked(s, http.MethodGet, "/auth", proxy, told[0], told[1],
			"X-Forwarded-For: "+spoofed+", 203.0.113.9, 10.0.0.2", "X-Real-IP: "+spoofed, "Forwarded: for="+spoofed)
		if w.Code != want {
			t.Errorf("request %d: got %d, want %d", i, w.Code, want)
		}
	}
}

// TestAuthWarnsOfPlaces: the log says once that places of forward-auth are not given back.
func TestAuthWarnsOfPlaces(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, guardtest.Memory(t), rules, func(c *api.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 2 {
		asked(s, http.MethodGet, "/auth", proxy, told...)
	}
	if n := strings.Count(log.String(), "concurrency limit"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
}

func TestAuthDenyStatus(t *testing.T) {
	zero := strings.Replace(authConfig, "2/1m", "0/1m", 1)
	stack := guardtest.Stack(t, failing, resilience.Config{})
	for _, test := range []struct {
		name        string
		store       stint.Store
		text, query string
		status      int
		field       string
	}{
		{"as it is", guardtest.Memory(t), zero, "", 429, "429"},
		{"nginx", guardtest.Memory(t), zero, "?deny=403", 403, "429"},
		{"no store", stack, "failure: {mode: deny}\n" + authConfig, "", 503, "503"},
		{"no store, nginx", stack, "failure: {mode: deny}\n" + authConfig, "?deny=403", 403, "503"},
		{"an error, nginx", stack, "failure: {mode: error}\n" + authConfig, "?deny=403", 403, "503"},
		{"no status", guardtest.Memory(t), zero, "?deny=200", 400, ""},
		{"nonsense", guardtest.Memory(t), zero, "?deny=x", 400, ""},
	} {
		s := serve(t, test.store, test.text)
		w := asked(s, http.MethodGet, "/auth"+test.query, proxy, told...)
		if field := w.Header().Get("X-RateLimit-Status"); w.Code != test.status || field != test.field {
			t.Errorf("%s: got %d and %q, want %d and %q", test.name, w.Code, field, test.status, test.field)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: may be stored", test.name)
		}
	}
}

// The header of an answer is small, no matter how many limits apply and how long their names are:
// nginx takes a large one for an outage.
func TestAuthHeaderSize(t *testing.T) {
	const most = 2 << 10
	long := func(name string, i int) string {
		return fmt.Sprintf("%s-%02d-%s", name, i, strings.Repeat("n", 60-len(name)))
	}
	limits := func(name string, max int) string {
		var list []string
		for i := range 16 {
			list = append(list, fmt.Sprintf("'%s: %d/1h burst 2x'", long(name, i), max))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	text := "headers: {format: [x, draft-11]}\nclient_ip: {trusted_proxies: [10.0.0.0/8]}\n" +
		"tiers: [{name: " + long("tier", 0) + ", identity: ip, limits: " + limits("tier", 900_000_000_000_000) +
		"}]\npolicies:\n"
	for i := range 5 {
		text += fmt.Sprintf("  - {name: %s, match: {path: /login}, identity: ip, limits: %s}\n",
			long("policy", i), limits("policy", 1))
	}
	s := serve(t, guardtest.Memory(t), text)
	for _, want := range []int{200, 200, 403} {
		w := asked(s, http.MethodGet, "/auth?deny=403", proxy, "X-Forwarded-Method: POST",
			"X-Forwarded-Uri: /login", "X-Forwarded-Host: example.com", "X-Forwarded-For: 203.0.113.9")
		if w.Code != want {
			t.Fatalf("got %d, want %d: %s", w.Code, want, w.Body)
		}
		var header bytes.Buffer
		if err := w.Header().Write(&header); err != nil {
			t.Fatal(err)
		}
		if header.Len() > most || header.Len() == 0 {
			t.Errorf("%d: the header has %d bytes, want at most %d:\n%s", want, header.Len(), most, &header)
		}
	}
}
