package api_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
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
func asked(s *server, method, target, peer string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = peer
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.api.Auth().ServeHTTP(w, r)
	return w
}

const proxy = "10.0.0.1:4711"

func TestAuth(t *testing.T) {
	s := serve(t, memory(t), authConfig)
	get := []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /a?b=c", "X-Forwarded-Host: example.com",
		"X-Forwarded-For: 203.0.113.9"}
	for i, want := range []int{200, 200, 429} {
		w := asked(s, http.MethodGet, "/auth", proxy, get...)
		if w.Code != want {
			t.Fatalf("request %d: got %d, want %d: %s", i, w.Code, want, w.Body)
		}
		h := w.Header()
		if h.Get("X-RateLimit-Limit") != "2" || h.Get("RateLimit") == "" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("request %d: %v", i, h)
		}
		if denied := want == 429; denied != (h.Get("Retry-After") != "") ||
			denied != (h.Get("X-RateLimit-Status") == "429") || denied != (w.Body.Len() > 0) {
			t.Errorf("request %d: %v %s", i, h, w.Body)
		}
	}
	if w := asked(s, http.MethodGet, "/auth", proxy,
		append(get[:3:3], "X-Forwarded-For: 203.0.113.10")...); w.Code != 200 {
		t.Errorf("another client: got %d", w.Code)
	}
}

// Whatever proxies call it: the method, host and path are those of the request that they hold.
func TestAuthOriginal(t *testing.T) {
	const from = "X-Forwarded-For: 203.0.113.9"
	for _, test := range []struct {
		name   string
		method string // of the question
		fields []string
		status int
		policy string // as the header says
	}{
		{"caddy, traefik", "GET", []string{"X-Forwarded-Method: POST", "X-Forwarded-Host: example.com",
			"X-Forwarded-Proto: https", "X-Forwarded-Uri: /login?x=%20"}, 200, "login"},
		{"nginx with a path", "GET", []string{"X-Original-Method: POST", "X-Original-URI: /login?x=y"}, 200, "login"},
		{"nginx with a URL", "GET", []string{"X-Original-Method: POST", "X-Original-URL: https://example.com/login"},
			200, "login"},
		{"another host", "GET", []string{"X-Original-Method: POST", "X-Original-URL: https://example.org/login"},
			200, "anonymous"},
		{"another method", "POST", []string{"X-Forwarded-Method: GET", "X-Forwarded-Host: example.com",
			"X-Forwarded-Uri: /login"}, 200, "anonymous"},
		{"any method", "PROPFIND", []string{"X-Forwarded-Method: POST", "X-Forwarded-Host: example.com",
			"X-Forwarded-Uri: //x/../login"}, 200, "login"},
		{"the other family emptied", "GET",
			[]string{"X-Original-Method: POST", "X-Original-URI: /login", "X-Original-URL: ", "X-Forwarded-Uri: ",
				"X-Forwarded-Method: "}, 200, "login"},
		{"exempt", "GET", []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /healthz"}, 200, ""},
		{"nothing told", "GET", nil, 400, ""},
		{"no method", "GET", []string{"X-Original-URI: /login"}, 400, ""},
		{"no path", "GET", []string{"X-Forwarded-Method: GET"}, 400, ""},
		{"two families", "GET", []string{"X-Original-Method: POST", "X-Original-URI: /login",
			"X-Forwarded-Uri: /healthz"}, 400, ""},
		{"path and URL", "GET", []string{"X-Original-Method: POST", "X-Original-URI: /login",
			"X-Original-URL: https://example.com/healthz"}, 400, ""},
		{"twice", "GET", []string{"X-Original-Method: POST", "X-Original-URI: /healthz", "X-Original-URI: /login"}, 400,
			""},
		{"two hosts", "GET", []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Forwarded-Host: a",
			"X-Forwarded-Host: b"}, 400, ""},
		{"a path in the host", "GET", []string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /",
			"X-Forwarded-Host: example.com/login?"}, 400, ""},
		{"a user in the host", "GET", []string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /login",
			"X-Forwarded-Host: u@example.com"}, 400, ""},
		{"a comma in the host", "GET", []string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /login",
			"X-Forwarded-Host: example.com,x"}, 400, ""},
		{"a comma in the host of a URL", "GET",
			[]string{"X-Original-Method: POST", "X-Original-URL: https://example.com,x/login"}, 400, ""},
		{"a URL whose host ends it", "GET",
			[]string{"X-Original-Method: POST", "X-Original-URL: https://example.com?/login"}, 400, ""},
		{"a URL whose host has a number sign", "GET",
			[]string{"X-Original-Method: POST", "X-Original-URL: https://example.com#/login"}, 400, ""},
		{"an empty host", "GET", []string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /login",
			"X-Forwarded-Host: "}, 400, ""},
		{"UTF-8", "GET", []string{"X-Original-Method: POST", "X-Original-URI: /caf\xc3\xa9"}, 200, "anonymous"},
		{"no UTF-8", "GET", []string{"X-Original-Method: POST", "X-Original-URI: /login\xa0"}, 400, ""},
		{"no URL", "GET", []string{"X-Original-Method: POST", "X-Original-URL: /login"}, 400, ""},
		{"nonsense", "GET", []string{"X-Forwarded-Method: G T", "X-Forwarded-Uri: /"}, 400, ""},
		{"bad escape", "GET", []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /%zz"}, 400, ""},
	} {
		s := serve(t, memory(t), authConfig)
		w := asked(s, test.method, "/auth", proxy, append(test.fields, from)...)
		if w.Code != test.status || w.Header().Get("X-RateLimit-Policy") != test.policy {
			t.Errorf("%s: got %d and the policy %q, want %d and %q: %s", test.name, w.Code, w.Header().Get("X-RateLimit-Policy"), test.status, test.policy, w.Body)
		}
	}
}

// F10: nobody but a trusted proxy says who is asking, and for what.
func TestF10Auth(t *testing.T) {
	var log bytes.Buffer
	store := memory(t)
	s := serve(t, store, authConfig, func(c *api.Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	told := []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /"}
	for range 50 {
		w := asked(s, http.MethodGet, "/auth", "203.0.113.66:1", append(told, "X-Forwarded-For: 198.51.100.1")...)
		var p problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusForbidden ||
			!strings.Contains(p.Message, "client_ip.trusted_proxies") {
			t.Fatalf("got %d: %s", w.Code, w.Body)
		}
	}
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 3 ||
		!strings.Contains(log.String(), `"peer":"203.0.113.66"`) {
		t.Errorf("50 strangers make %d lines: %s", n, log.String())
	}
	if store.Stats().Subjects != 0 {
		t.Error("a stranger's request was counted")
	}
	// The first address from the right that is not trusted; what is further left, anybody can
	// write.
	for i, want := range []int{200, 200, 429} {
		spoofed := []string{"1.1.1.1", "2.2.2.2", "10.9.9.9"}[i]
		w := asked(s, http.MethodGet, "/auth", proxy,
			append(told, "X-Forwarded-For: "+spoofed+", 203.0.113.9, 10.0.0.2", "X-Real-IP: "+spoofed,
				"Forwarded: for="+spoofed)...)
		if w.Code != want {
			t.Errorf("request %d: got %d, want %d", i, w.Code, want)
		}
	}
}

func TestAuthDenyStatus(t *testing.T) {
	zero := strings.Replace(authConfig, "2/1m", "0/1m", 1)
	stack, err := resilience.New(failing{}, resilience.Config{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	for _, test := range []struct {
		name   string
		store  stint.Store
		text   string
		query  string
		status int
		field  string
	}{
		{"as it is", memory(t), zero, "", 429, "429"},
		{"nginx", memory(t), zero, "?deny=403", 403, "429"},
		{"no store", stack, "failure: {mode: deny}\n" + authConfig, "", 503, "503"},
		{"no store, nginx", stack, "failure: {mode: deny}\n" + authConfig, "?deny=403", 403, "503"},
		{"an error, nginx", stack, "failure: {mode: error}\n" + authConfig, "?deny=403", 403, "503"},
		{"no status", memory(t), zero, "?deny=200", 400, ""},
		{"nonsense", memory(t), zero, "?deny=x", 400, ""},
	} {
		s := serve(t, test.store, test.text)
		w := asked(s, http.MethodGet, "/auth"+test.query, proxy, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /",
			"X-Forwarded-For: 203.0.113.9")
		if w.Code != test.status || w.Header().Get("X-RateLimit-Status") != test.field {
			t.Errorf("%s: got %d and %q, want %d and %q", test.name, w.Code, w.Header().Get("X-RateLimit-Status"),
				test.status, test.field)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: may be stored", test.name)
		}
	}
}

// The answer has the form that the client wants, since the proxy may hand it on.
func TestAuthAnswer(t *testing.T) {
	s := serve(t, memory(t), strings.Replace(authConfig, "2/1m", "0/1m", 1))
	w := asked(s, http.MethodGet, "/auth", proxy, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /",
		"Accept: application/problem+json")
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" ||
		!strings.Contains(w.Body.String(), "quota-exceeded") {
		t.Errorf("got %s: %s", got, w.Body)
	}
}

// Of places that nobody gives back it is told once for every configuration.
func TestAuthWarnsOfPlaces(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, memory(t), rules, func(c *api.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	ask := func() {
		asked(s, http.MethodGet, "/auth", proxy, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /",
			"X-Forwarded-For: 203.0.113.9")
	}
	ask()
	ask()
	if n := strings.Count(log.String(), "concurrency limit"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
	conf, err := config.Parse("test.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	s.guard.Swap(conf.Set)
	ask()
	if n := strings.Count(log.String(), "concurrency limit"); n != 2 {
		t.Errorf("told %d times after a change", n)
	}
}
