package server

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// TestF33AdminExposed refuses to serve operators' things to everybody.
func TestF33AdminExposed(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		s, err := New(Config{Admin: address, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Start(context.Background())
		if err == nil || !strings.Contains(err.Error(), "server: admin on "+address+": others can reach this address, and there are no tokens for it") {
			t.Errorf("%s: got %v, want that it is refused", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		start(t, Config{Admin: address})
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	put(t, tokens, "operator\n")
	start(t, Config{Admin: "0.0.0.0:0", AdminTokens: tokens})
}

// TestF33AdminToken has everything but probes behind a token.
func TestF33AdminToken(t *testing.T) {
	c := everywhere(t)
	c.AdminTokens = filepath.Join(t.TempDir(), "tokens")
	put(t, c.AdminTokens, "# two of them\nfirst-token\nsecond-token\n")
	r := start(t, c)
	private := []string{"/config", "/rlconfig", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/profile", "/debug/pprof/trace", "/debug/pprof/symbol", "/", "/metrics"}
	for _, path := range private {
		for _, token := range []string{"", "first", "first-token2", "first-token second-token"} {
			if status, body := r.get(Admin, path, token); status != 401 || !strings.Contains(body, `"error": "unauthorized"`) {
				t.Errorf("%s with token %q: got %d, %s; want 401", path, token, status, body)
			}
		}
		// Profiles take their time, and nothing is at the others.
		if path == "/config" || path == "/rlconfig" || path == "/debug/pprof/" {
			for _, token := range []string{"first-token", "second-token"} {
				if status, body := r.get(Admin, path, token); status != 200 {
					t.Errorf("%s with token %q: got %d, %s", path, token, status, body)
				}
			}
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, _ := r.get(Admin, path, ""); status != 200 {
			t.Errorf("%s: got %d, want 200", path, status)
		}
	}
}

// TestF33Rebinding refuses a page whose own name leads to this machine.
func TestF33Rebinding(t *testing.T) {
	r := start(t, everywhere(t))
	for host, want := range map[string]int{
		"127.0.0.1:6070": 200, "localhost": 200, "LOCALHOST:1": 200, "[::1]:6070": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:6070": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
	} {
		request, err := http.NewRequest(http.MethodGet, r.url(Admin, "/config"), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		if got, _ := do(t, http.DefaultClient, request); got != want {
			t.Errorf("%s: got %d, want %d", host, got, want)
		}
	}
}

// TestAPIToken has the API behind a token, and nothing else.
func TestAPIToken(t *testing.T) {
	c := everywhere(t)
	c.API.Tokens = filepath.Join(t.TempDir(), "tokens")
	put(t, c.API.Tokens, "caller-token")
	r := start(t, c)
	for token, want := range map[string]int{"": 401, "other": 401, "caller-token": 200} {
		if status, body := r.take(token); status != want {
			t.Errorf("take with token %q: got %d, %s; want %d", token, status, body, want)
		}
	}
	for path, want := range map[string]int{"/v1/refund": 401, "/": 401, "/livez": 200, "/readyz": 200, "/healthcheck": 200, "/openapi.json": 200} {
		if status, body := r.get(HTTP, path, ""); status != want {
			t.Errorf("%s: got %d, %s; want %d", path, status, body, want)
		}
	}
	if status, _ := r.get(HTTP, "/auth", ""); status == 401 {
		t.Errorf("/auth: got 401, want that it does not ask for a token")
	}
	if got := codeOf(t, r.dial(), ""); got != "OK" {
		t.Errorf("gRPC: got %s, want that it does not ask for a token", got)
	}
	// A change of the file is obeyed.
	put(t, c.API.Tokens, "another-token")
	until(t, "the new token is good", func() bool { status, _ := r.take("another-token"); return status != 401 })
	if status, _ := r.take("caller-token"); status != 401 {
		t.Errorf("the old token: got %d, want 401", status)
	}
	// One that is empty is refused, and does not open the API.
	put(t, c.API.Tokens, "")
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), "no tokens") {
		t.Errorf("an empty file: got %v", err)
	}
	if status, _ := r.take(""); status != 401 {
		t.Errorf("after an empty file: got %d, want 401", status)
	}
	if status, _ := r.take("another-token"); status == 401 {
		t.Error("after an empty file the last good token is refused")
	}
	if _, body := r.get(Admin, "/config", ""); !strings.Contains(body, "no tokens") || strings.Contains(body, "another-token") {
		t.Errorf("got %s, want what is wrong and no secret", body)
	}
}

// TestEnvoyToken has gRPC and /json behind a token, but not the health service.
func TestEnvoyToken(t *testing.T) {
	c := everywhere(t)
	c.EnvoyTokens = filepath.Join(t.TempDir(), "tokens")
	put(t, c.EnvoyTokens, "envoy-token")
	r := start(t, c)
	tests := []struct{ name, scheme, token, want string }{
		{"none", "", "", "Unauthenticated"},
		{"wrong", "Bearer ", "other", "Unauthenticated"},
		{"basic", "Basic ", "envoy-token", "Unauthenticated"},
		{"right", "Bearer ", "envoy-token", "OK"},
		{"in lower case", "bearer ", "envoy-token", "OK"},
	}
	conn := r.dial()
	for _, test := range tests {
		if got := codeOf(t, conn, test.scheme+test.token); got != test.want {
			t.Errorf("gRPC, %s: got %s, want %s", test.name, got, test.want)
		}
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	if status, _ := r.get(HTTP, "/json", ""); status != 401 {
		t.Errorf("/json: got %d, want 401", status)
	}
	if status, _ := r.get(HTTP, "/json", "envoy-token"); status == 401 {
		t.Error("/json with a token: got 401")
	}
	if status, _ := r.take(""); status != 200 {
		t.Errorf("the API: got %d, want 200", status)
	}
}
