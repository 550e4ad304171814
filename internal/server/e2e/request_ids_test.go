package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// proxied returns the URL of a gateway with these policies, in front of a handler.
func proxied(t *testing.T, policies string, upstream http.Handler) string {
	t.Helper()
	behind := httptest.NewServer(upstream)
	t.Cleanup(behind.Close)
	return start(t, policies, func(c *server.Config) {
		c.Gateway = &config.Gateway{Routes: []config.Route{{Upstream: behind.URL}}}
	}).api
}

// left returns how many requests a caller has left after a request, which must be allowed.
func left(t *testing.T, response *http.Response) int64 {
	t.Helper()
	n, err := strconv.ParseInt(response.Header.Get("X-RateLimit-Remaining"), 10, 64)
	if response.StatusCode != http.StatusOK || err != nil {
		t.Fatalf("got %d, %v; want 200 and what is left", response.StatusCode, err)
	}
	return n
}

// TestRequestIDsOfAnyNode: a request id is charged once, whichever node it reaches and whichever port
// its Host header names.
func TestRequestIDsOfAnyNode(t *testing.T) {
	policies := "store: {url: \"" + redistest.Start(t).URL() + `"}
request_id: {header: Idempotency-Key}
failure: {budget: 10s}
tiers: [{name: all, identity: ip, limits: 10/1h}]
`
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) // every request
	nodes := []string{proxied(t, policies, served), proxied(t, policies, served)}
	for i, c := range []struct {
		node     int
		host, id string
		want     int64
	}{
		{0, "api.example.com", "a", 9},
		{0, "api.example.com:443", "a", 9},
		{1, "api.example.com:8443", "a", 9},
		{1, "API.example.com", "a", 9},
		{1, "api.example.com", "b", 8},
		{0, "api.example.com:80", "b", 8},
		{0, "other.example.com", "b", 7},
	} {
		response, _ := testkit.Fetch(t, http.DefaultClient, http.MethodPost, nodes[c.node]+"/pay", "1 EUR", "Host: "+c.host, "Idempotency-Key: "+c.id)
		if got := left(t, response); got != c.want {
			t.Errorf("%d, node %d, %s with the id %s: %d left, want %d", i, c.node, c.host, c.id, got, c.want)
		}
	}
}

// clicks has ids derived on one route, for a short time.
const clicks = `
client_ip: {trusted_proxies: loopback}
tiers: [{name: all, identity: ip, limits: 100/1h}]
policies: [{name: order, match: {path: /order}, request_id: {header: Idempotency-Key, derive: 10s}}]
`

// TestDoubleClicks are charged once without the client's help, whichever gateway they reach, and
// both are served with their bodies. What makes requests equal is tested in httplimit.
func TestDoubleClicks(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	policies := "store: {url: \"" + redistest.Start(t).URL() + "\"}\nfailure: {budget: 10s}\n" + clicks
	urls := []string{proxied(t, policies, upstream), proxied(t, policies, upstream)}
	click := func(node int, caller, target, body string) int64 {
		t.Helper()
		response, got := testkit.Fetch(t, http.DefaultClient, http.MethodPost, urls[node]+target, body, "X-Forwarded-For: "+caller)
		if got != body {
			t.Errorf("the application got %q, want %q", got, body)
		}
		return left(t, response)
	}
	for i, c := range []struct {
		node                 int
		caller, target, body string
		want                 int64
	}{
		{0, "192.0.2.1", "/order?cart=1", "two apples", 99},
		{1, "192.0.2.1", "/order?cart=1", "two apples", 99},  // the second click
		{0, "192.0.2.1", "/order?cart=1", "three pears", 98}, // another order
		{1, "192.0.2.2", "/order?cart=1", "two apples", 99},  // another caller
		{0, "192.0.2.1", "/browse", "page 1", 97},            // another route
		{0, "192.0.2.1", "/browse", "page 1", 96},
	} {
		if got := click(c.node, c.caller, c.target, c.body); got != c.want {
			t.Errorf("%d: %s leaves %d, want %d", i, c.target, got, c.want)
		}
	}
	// Repeats are bounded: the ninth is charged, and those after it.
	for i := range 12 {
		want := int64(99 - max(0, i-8))
		if got := click(i%2, "192.0.2.3", "/order", "again"); got != want {
			t.Errorf("repeat %d leaves %d, want %d", i, got, want)
		}
	}
}

// TestForwardAuthSeesNoBodies, so that no two requests are taken for one, and the log says so.
func TestForwardAuthSeesNoBodies(t *testing.T) {
	r := start(t, clicks)
	for _, want := range []int64{99, 98} {
		response, _ := testkit.Fetch(t, http.DefaultClient, http.MethodGet, r.api+"/auth", "", "X-Forwarded-Method: POST", "X-Forwarded-Uri: /order",
			"X-Forwarded-For: 192.0.2.1")
		if got := left(t, response); got != want {
			t.Errorf("%d left, want %d", got, want)
		}
	}
	if n := strings.Count(r.log.String(), "forward-auth does not see the bodies of requests"); n != 1 {
		t.Errorf("the log says %d times that no ids are derived, want once", n)
	}
}
