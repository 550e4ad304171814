package server

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/server/gateway"
)

// TestGateway has the gateway in the place of the API: all paths are the upstream's, but within limits.
func TestGateway(t *testing.T) {
	upstream := listenAndServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %q", r.URL.Path, r.Header.Get("X-User"))
	}))
	c := Config{
		HTTP: anywhere, Admin: anywhere, Policies: filepath.Join(t.TempDir(), "stint.yaml"),
		Gateway: &gateway.Config{Routes: []gateway.Route{{Upstream: upstream}}},
	}
	put(t, c.Policies, "client_ip: {trusted_proxies: 192.0.2.1}\nclaims: {user: X-User}\n"+three)
	r := start(t, c)
	for _, path := range []string{"/", "/livez", "/v1/take"} {
		request, err := http.NewRequest(http.MethodGet, r.url(HTTP, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-User", "forged") // a claim that only the proxy may make
		if status, body := do(t, http.DefaultClient, request); status != 200 || body != path+` for ""` {
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

// TestGatewayMistakes are told when it starts.
func TestGatewayMistakes(t *testing.T) {
	s, err := New(Config{HTTP: anywhere, Gateway: &gateway.Config{Routes: []gateway.Route{{Upstream: "localhost"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), `want a URL such as http://127.0.0.1:3000`) {
		t.Errorf("got %v", err)
	}
}
