package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestGateway has the gateway in the place of the API: all paths are the upstream's, but within
// limits.
func TestGateway(t *testing.T) {
	upstream := listenAndServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %q", r.URL.Path, r.Header.Get("X-User"))
	}))
	c := Config{
		HTTP: anywhere, Admin: anywhere,
		Policies: testkit.TempFile(t, "stint.yaml", "client_ip: {trusted_proxies: 192.0.2.1}\nclaims: {user: X-User}\n"+three),
		Gateway:  &config.Gateway{Routes: []config.Route{{Upstream: upstream}}},
	}
	r := start(t, c)
	for _, path := range []string{"/", "/livez", "/v1/take"} {
		// a claim that only the proxy may make
		if status, body := send(t, http.MethodGet, r.url(HTTP, path), "", "X-User: forged"); status != 200 || body != path+` for ""` {
			t.Errorf("%s: got %d, %q", path, status, body)
		}
	}
	r.wantGet(HTTP, "/", "", 429, "rate_limited")
	r.wantGet(Admin, "/readyz", "", 200, "")
	testkit.WriteFile(t, c.Policies, five)
	r.wantReload("")
	r.wantGet(HTTP, "/more", "", 200, "")
}

// TestGatewayFlagsGoFirst does not use routes of the configuration beside others, and says so.
func TestGatewayFlagsGoFirst(t *testing.T) {
	at := listenAndServe(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "flag") }))
	r := start(t, Config{HTTP: anywhere, Gateway: &config.Gateway{Routes: []config.Route{{Upstream: at}}},
		Policies: testkit.TempFile(t, "stint.yaml", three+"gateway: {routes: [{path: /file/**, upstream: 'http://127.0.0.1:1'}]}\n")})
	if status, body := r.get(HTTP, "/file/x", ""); status != 200 || body != "flag" {
		t.Errorf("got %d, %s", status, body)
	}
	r.wantLogged("ignores gateway.routes of the configuration")
}

// TestGatewayRoutes: a reload uses the routes of the configuration, and refuses wrong ones.
func TestGatewayRoutes(t *testing.T) {
	upstream := func(name string) string {
		return listenAndServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s for %s", name, r.URL.Path, r.Host)
		}))
	}
	a, b := upstream("a"), upstream("b")
	const many = "tiers: [{name: all, identity: ip, limits: 1000/1h}]\n"
	c := Config{HTTP: anywhere, Gateway: &config.Gateway{}, Policies: testkit.TempFile(t, "stint.yaml",
		many+"gateway: {routes: [{path: /api/**, upstream: '"+a+"', strip_prefix: true}]}\n")}
	r := start(t, c)

	expect := func(when, host, path, want string) {
		t.Helper()
		if _, got := send(t, http.MethodGet, r.url(HTTP, path), "", "Host: "+host); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s%s: got %q, want %q", when, host, path, got, want)
		}
	}
	expect("at first", "x", "/api/users", "a /users for x")
	expect("at first", "x", "/", `{"error":"no_route"`)

	testkit.WriteFile(t, c.Policies, many+"gateway: {routes: [{upstream: '"+b+"'}, {host: only.example, upstream: '"+a+"'}]}\n")
	r.wantReload("")
	expect("after a change", "x", "/api/users", "b /api/users for x")
	expect("after a change", "only.example:80", "/", "a / for only.example:80")

	// What leaves the gateway without routes, or with wrong ones, changes nothing.
	for text, want := range map[string]string{
		many: "the gateway has no routes",
		many + "gateway: {routes: [{upstream: nowhere}]}\n":                                       `:2: gateway.routes[0].upstream: invalid upstream "nowhere"`,
		many + "gateway: {routes: [{upstream: 'http://a'}, {path: /**, upstream: 'http://b'}]}\n": ":2: gateway.routes[1]: another route has the same host and path",
	} {
		testkit.WriteFile(t, c.Policies, text)
		r.wantReload(want)
		expect("after a mistake", "x", "/api/users", "b /api/users for x")
	}
}
