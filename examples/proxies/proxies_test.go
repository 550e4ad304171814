// Package proxies has an example configuration for each proxy, and no code: its tests run nginx,
// Caddy and HAProxy with them, next to a real stint, and send requests with curl. A new proxy gets
// a directory here, a launcher in internal/proxytest, and a section in docs/proxies.md; it asks the
// endpoint /auth of internal/server/api.
package proxies

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/proxytest"
)

// What stint.yaml allows in a minute, and of logins in a quarter of an hour.
const (
	anonymousLimit = 10
	userLimit      = 30
	loginLimit     = 5
)

// aboutLimits are the header fields that every answer has to a request that is limited.
var aboutLimits = []string{
	"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Window", "X-RateLimit-Cost",
	"X-RateLimit-Policy", "X-RateLimit-Tier", "RateLimit", "RateLimit-Policy",
}

func TestProxies(t *testing.T) {
	t.Parallel()
	binary := proxytest.BuildStint(t)
	for _, p := range []proxytest.Proxy{proxytest.Nginx, proxytest.Caddy, proxytest.HAProxy} {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			// Every test has clients of its own, by their addresses, and the last one ends stint.
			s := startSite(t, proxytest.NewStint(t, binary, "--config", "stint.yaml"), p)
			t.Run("allowed", func(t *testing.T) { testAllowed(t, s) })
			t.Run("denied", func(t *testing.T) { testDenied(t, s) })
			t.Run("claimed addresses", func(t *testing.T) { testClaimedAddresses(t, s) })
			t.Run("exempt", func(t *testing.T) { testExempt(t, s) })
			t.Run("claimed statuses", func(t *testing.T) { testClaimedStatus(t, s) })
			t.Run("malformed", func(t *testing.T) { testMalformed(t, s) })
			t.Run("many fields", func(t *testing.T) { testManyFields(t, s) })
			t.Run("users", func(t *testing.T) { testUsers(t, s) })
			t.Run("policies", func(t *testing.T) { testPolicies(t, s) })
			t.Run("application", func(t *testing.T) { testApplication(t, s) })
			t.Run("without stint", func(t *testing.T) { testOutage(t, s, p.ClosedStatus) })
		})
		t.Run(p.Name+" strips", func(t *testing.T) {
			t.Parallel()
			// An application in the place of stint: it allows everything, and keeps what it was
			// asked.
			asked := newApplication(t)
			s := &site{application: newApplication(t), address: proxytest.FreeAddress(t)}
			p.Start(t, proxytest.Setup{Shipped: ".", Dir: t.TempDir(), Address: s.address, Stint: asked.address,
				Application: s.application.address})
			testStripped(t, s, asked)
			asked.close()
			t.Run("without stint", func(t *testing.T) { testStripped(t, s, nil) })
		})
		t.Run(p.Name+" closed", func(t *testing.T) {
			t.Parallel()
			testClosed(t, startSite(t, proxytest.NewStint(t, binary, "--config", "stint.yaml"), p, p.Closed...), p.ClosedStatus)
		})
		t.Run(p.Name+" without a store", func(t *testing.T) {
			t.Parallel()
			config := proxytest.Install(t, t.TempDir(), "stint.yaml", "\nheaders:", "\nfailure: {mode: deny}\nheaders:")
			testNoStore(t, startSite(t, proxytest.NewStint(t, binary, "--config", config, "--store",
				"redis://"+proxytest.FreeAddress(t)), p))
		})
		t.Run(p.Name+" not trusted", func(t *testing.T) {
			t.Parallel()
			config := proxytest.Install(t, t.TempDir(), "stint.yaml", "trusted_proxies: loopback", "trusted_proxies: 192.0.2.1")
			testUntrusted(t, startSite(t, proxytest.NewStint(t, binary, "--config", config), p))
		})
	}
	t.Run("envoy's rules", func(t *testing.T) {
		t.Parallel()
		testEnvoyRules(t, binary)
	})
}

// testAllowed has requests reach the application once and unchanged, and the client told of its
// limits.
func testAllowed(t *testing.T, s *site) {
	c := client{s, "127.0.0.2"}
	a := c.curl(t, "/things?a=1&b=%2F", "--data", "hello")
	wantStatus(t, a, http.StatusOK)
	wantFields(t, a, aboutLimits...)
	// The application has a limit of its own, which the client is not told of.
	wantFields(t, a, "Retry-After:", fmt.Sprint("X-RateLimit-Limit: ", anonymousLimit), "X-Application: yes")
	r := s.application.arrived(t, 1)[0]
	if r.method != http.MethodPost || r.target != "/things?a=1&b=%2F" || r.body != "hello" {
		t.Errorf("the application got %s %s with %q, want what the client sent", r.method, r.target, r.body)
	}
	if got, want := r.header.Values("X-Forwarded-For"), []string{c.address}; !slices.Equal(got, want) {
		t.Errorf("X-Forwarded-For: the application got %q, want %q", got, want)
	}
}

// testDenied has a client use up its limit.
func testDenied(t *testing.T, s *site) {
	c := client{s, "127.0.0.3"}
	c.exhaust(t, anonymousLimit, "/things")
	s.application.take()

	a := c.curl(t, "/things")
	wantStatus(t, a, http.StatusTooManyRequests)
	wantFields(t, a, append([]string{"Retry-After"}, aboutLimits...)...)
	var body struct {
		Error      string `json:"error"`
		RetryAfter int    `json:"retry_after_seconds"`
		Policy     string `json:"policy"`
		Tier       string `json:"tier"`
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if body.Error != "rate_limited" || body.Policy != "anonymous" || body.Tier != "anonymous" {
		t.Errorf("body: got %s", a.body)
	}
	if got, want := strconv.Itoa(body.RetryAfter), a.Header.Get("Retry-After"); got != want || body.RetryAfter < 1 {
		t.Errorf("retry_after_seconds: got %s, want %s as the header has it", got, want)
	}
	wantFields(t, a, "Content-Type: application/json", "X-RateLimit-Status:") // which is the proxy's
	wantStatus(t, c.curl(t, "/things", "--data", "hello"), http.StatusTooManyRequests)

	head := c.curl(t, "/things", "--head")
	wantStatus(t, head, http.StatusTooManyRequests)
	if head.body != "" {
		t.Errorf("HEAD: got the body %q, want none", head.body)
	}
	s.application.arrived(t, 0)
	wantStatus(t, client{s, "127.0.0.4"}.curl(t, "/things"), http.StatusOK)
}

// testPolicies has stint see the method and the path of requests.
func testPolicies(t *testing.T, s *site) {
	c := client{s, "127.0.0.9"}
	c.exhaust(t, loginLimit, "/login?next=%2F", "--data", "password")
	a := c.curl(t, "/login", "--data", "password")
	wantStatus(t, a, http.StatusTooManyRequests)
	wantFields(t, a, "X-RateLimit-Policy: login")
	wantStatus(t, c.curl(t, "/login"), http.StatusOK)
}

// testApplication has the application refuse and fail: that is not taken for stint's word, nor is
// it asked again.
func testApplication(t *testing.T, s *site) {
	c := client{s, "127.0.0.10"}
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable} {
		s.application.take()
		a := c.curl(t, fmt.Sprintf("/status/%d", status))
		wantStatus(t, a, status)
		wantFields(t, a, aboutLimits...)
		if want := "the application's own words"; a.body != want {
			t.Errorf("%d: got %q, want %q", status, a.body, want)
		}
		s.application.arrived(t, 1)
	}
	// One that breaks down over a request is not taken for a stint that is down.
	wantStatus(t, c.curl(t, "/breakdown", "--request", "POST"), http.StatusBadGateway)
	s.application.arrived(t, 1)
}

func wantStatus(t *testing.T, a *answer, want int) {
	t.Helper()
	if a.StatusCode != want {
		t.Fatalf("got status %d, want %d: %s", a.StatusCode, want, strings.TrimSpace(a.body))
	}
}

// wantFields has each of some header fields stand once in an answer: "Name", or "Name: value". A
// field "Name:" must not be there.
func wantFields(t *testing.T, a *answer, fields ...string) {
	t.Helper()
	for _, field := range fields {
		name, value, exact := strings.Cut(field, ":")
		got := a.Header.Values(name)
		switch {
		case exact && strings.Join(got, " | ") != strings.TrimPrefix(value, " "):
			t.Errorf("%s: got %q, want %q", name, got, value)
		case !exact && (len(got) != 1 || got[0] == ""):
			t.Errorf("%s: got %q, want one value", name, got)
		}
	}
}
