package server

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
)

// TestGateway has the gateway in the place of the API: all paths are the upstream's, but within
// limits.
func TestGateway(t *testing.T) {
	upstream := listenAndServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %q", r.URL.Path, r.Header.Get("X-User"))
	}))
	c := Config{
		HTTP: anywhere, Admin: anywhere, Policies: filepath.Join(t.TempDir(), "stint.yaml"),
		Gateway: &config.Gateway{Routes: []config.Route{{Upstream: upstream}}},
	}
	put(t, c.Policies, "client_ip: {trusted_proxies: 192.0.2.1}\nclaims: {user: X-User}\n"+three)
	r := start(t, c)
	for _, path := range []string{"/", "/livez", "/v1/take"} {
		// a claim that only the proxy may make
		if status, body := send(t, http.MethodGet, r.url(HTTP, path), "", "X-User: forged"); status != 200 || body != path+` for ""` {
			t.Errorf("%s: got %d, %q", path, status, body)
		}
	}
	if status, body := r.get(HTTP, "/", ""); status != 429 || !strings.Contains(body, "rate_limited") {
		t.Errorf("the fourth: got %d, %s", status, body)
	}
	if status, _ := r.get(Admin, "/readyz", ""); status != 200 {
		t.Errorf("readiness: got %d", status)
	}
	put(t, c.Policies, five)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if status, body := r.get(HTTP, "/more", ""); status != 200 {
		t.Errorf("with a larger limit: got %d, %s", status, body)
	}
}

// TestGatewayFlagsGoFirst does not use routes of the configuration beside others, and says so.
func TestGatewayFlagsGoFirst(t *testing.T) {
	at := listenAndServe(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "flag") }))
	c := Config{HTTP: anywhere, Policies: filepath.Join(t.TempDir(), "stint.yaml"),
		Gateway: &config.Gateway{Routes: []config.Route{{Upstream: at}}}}
	put(t, c.Policies, three+"gateway: {routes: [{path: /file/**, upstream: 'http://127.0.0.1:1'}]}\n")
	r := start(t, c)
	if status, body := r.get(HTTP, "/file/x", ""); status != 200 || body != "flag" {
		t.Errorf("got %d, %s", status, body)
	}
	if !strings.Contains(r.log.String(), "ignores gateway.routes of the configuration") {
		t.Error("nothing is logged")
	}
}
