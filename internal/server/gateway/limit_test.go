package gateway_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Limits are per client and per route, and what is denied does not reach the upstream.
func TestLimitsPerClientAndRoute(t *testing.T) {
	const text = `
client_ip: {trusted_proxies: loopback}
headers: {format: [x, draft-11], retry_after_jitter: 0%}
tiers: [{name: anonymous, identity: ip, scope: route, limits: 2/1h}]
policies:
  - {name: search, match: {path: /search}, cost: 1}
  - {name: assets, match: {path: /static/**}, skip: true}
`
	var reached atomic.Int32
	u := upstream(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	g := front(t, text, u.URL)
	for i, c := range []struct {
		client, path string
		status       int
		remaining    string
	}{
		{"203.0.113.1", "/", 200, "1"},
		{"203.0.113.1", "/other", 200, "0"},
		{"203.0.113.1", "/", 429, "0"},
		{"203.0.113.1", "/search", 200, "1"},
		{"203.0.113.2", "/", 200, "1"},
		{"198.51.100.1, 203.0.113.1", "/", 429, "0"}, // the first is what the client made up
		{"203.0.113.1", "/static/x", 200, ""},
		{"203.0.113.1", "/none/../search", 400, ""},
	} {
		resp, body := do(t, "GET", g.URL+c.path, nil, "X-Forwarded-For: "+c.client)
		if resp.StatusCode != c.status || resp.Header.Get("X-RateLimit-Remaining") != c.remaining {
			t.Errorf("%d: got %d with %q left, want %d with %q", i, resp.StatusCode,
				resp.Header.Get("X-RateLimit-Remaining"), c.status, c.remaining)
		}
		if c.status != 429 {
			continue
		}
		if h := resp.Header; h.Get("Retry-After") != "3600" || !strings.Contains(h.Get("RateLimit"), ";r=0") ||
			!strings.Contains(h.Get("RateLimit-Policy"), ";q=2") ||
			h.Get("X-RateLimit-Tier") != "anonymous" || !strings.Contains(body, `"error":"rate_limited"`) {
			t.Errorf("%d: got %v %s", i, h, body)
		}
	}
	if got := reached.Load(); got != 5 {
		t.Errorf("%d requests reached the upstream, want 5", got)
	}
}

// F32: a trusted proxy's word cannot be taken away by a client that has the proxy pass on its
// Connection field.
func TestF32IdentitySurvivesConnection(t *testing.T) {
	const text = `
client_ip: {trusted_proxies: loopback}
claims: {user: X-User-ID}
tiers: [{name: users, identity: user, limits: 1/1h}, {name: anonymous, identity: ip, limits: 1/1h}]
`
	u := upstream(t, echo)
	g := front(t, text, u.URL)
	for _, user := range []string{"ada", "bob"} {
		for i := range 2 {
			resp, body := do(t, "GET", g.URL, nil, "X-User-ID: "+user, "X-Forwarded-For: 203.0.113.1",
				"Connection: X-User-ID, X-Forwarded-For")
			if want := []int{200, 429}[i]; resp.StatusCode != want || resp.Header.Get("X-RateLimit-Tier") != "users" {
				t.Errorf("%s, %d: got %d %v, want %d", user, i, resp.StatusCode, resp.Header, want)
			}
			if i == 0 && (!strings.Contains(body, "X-User-Id: "+user) ||
				!strings.Contains(body, "X-Forwarded-For: 203.0.113.1, 127.0.0.1")) {
				t.Errorf("%s: the upstream got %s", user, body)
			}
		}
	}
}
