package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestListeners finds everything where it belongs.
func TestListeners(t *testing.T) {
	c := everywhere(t)
	c.Observe.Version = "v1.2.3"
	r := start(t, c)
	tests := []struct {
		listener Listener
		path     string
		status   int
		body     string // what it contains
	}{
		{HTTP, "/livez", 200, "live"},
		{HTTP, "/readyz", 200, "ready"},
		{HTTP, "/healthcheck", 200, "OK"},
		{HTTP, "/openapi.json", 200, "openapi"},
		{HTTP, "/config", 404, ""},
		{HTTP, "/rlconfig", 404, ""},
		{HTTP, "/debug/pprof/", 404, ""},
		{HTTP, "/api/state", 404, ""},
		{Admin, "/livez", 200, "live"},
		{Admin, "/readyz", 200, "ready"},
		{Admin, "/config", 200, `"phase": "ready"`},
		{Admin, "/rlconfig", 200, "test.user: unit=HOUR requests_per_unit=3"},
		{Admin, "/debug/pprof/", 200, "goroutine"},
		{Admin, "/v1/take", 404, ""},
		{Admin, "/", 200, "<title>stint</title>"},
		{Admin, "/api/state", 200, `"phase":"ready"`},
		{Admin, "/api/state", 200, `"version":"v1.2.3"`},
		{HTTP, "/", 404, ""},
	}
	for _, test := range tests {
		r.wantGet(test.listener, test.path, "", test.status, test.body)
	}
	conn := r.dial()
	for _, service := range []string{"", "ratelimit", envoyrls.ServiceName} {
		answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: got %v, %v", service, answer, err)
		}
	}
}

// TestStopDrains has requests that come while the server drains answered, and the ones under way.
func TestStopDrains(t *testing.T) {
	before := runtime.NumGoroutine()
	c := everywhere(t)
	c.Drain = time.Minute
	r := start(t, c)
	conn := r.dial()
	if _, err := ask(t.Context(), conn, "a"); err != nil {
		t.Fatal(err)
	}
	ctx, enough := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Stop(ctx) }()
	testkit.Eventually(t, "not ready", func() bool { status, _ := r.get(HTTP, "/readyz", ""); return status == 503 })
	if status, body := r.get(Admin, "/readyz", ""); status != 503 || body != "draining\n" {
		t.Errorf("readiness: got %d, %q", status, body)
	}
	r.wantGet(HTTP, "/healthcheck", "", 500, "")
	r.wantGet(HTTP, "/livez", "", 200, "")
	answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if answer.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health: got %v, %v", answer, err)
	}
	r.wantTake("", 200, "")
	if _, err := ask(t.Context(), conn, "a"); err != nil {
		t.Errorf("while draining: %v", err)
	}
	response, _ := testkit.Fetch(t, http.DefaultClient, http.MethodGet, r.url(HTTP, "/livez"), "")
	if !response.Close {
		t.Error("while draining, answers do not ask for another connection")
	}
	enough()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := r.Wait(); err != nil {
		t.Errorf("Wait: %v", err)
	}
	if _, err := net.Dial("tcp", r.Addr(HTTP).String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: %v", err)
	}
	_ = conn.Close()
	http.DefaultClient.CloseIdleConnections()
	redistest.CheckGoroutines(t, before)
}

// TestStopFinishes waits for a request that is under way, and not for one that does not end.
func TestStopFinishes(t *testing.T) {
	for name, endless := range map[string]bool{"finished": false, "cut off": true} {
		t.Run(name, func(t *testing.T) {
			arrived, answer := make(chan struct{}), make(chan struct{})
			upstream := listenAndServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				select {
				case <-answer:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "done")
			}))
			c := Config{HTTP: anywhere, Gateway: &config.Gateway{Routes: []config.Route{{Upstream: upstream}}}}
			r := start(t, c, func(s *Server) {
				if endless {
					s.timeouts.finish = 50 * time.Millisecond
				}
			})
			got := make(chan string, 1)
			go func() {
				response, err := http.Get(r.url(HTTP, "/slow"))
				if err != nil {
					got <- "error"
					return
				}
				defer response.Body.Close()
				body, _ := io.ReadAll(response.Body)
				got <- string(body)
			}()
			<-arrived
			stopped := make(chan error, 1)
			go func() { stopped <- r.Stop(context.Background()) }()
			testkit.Eventually(t, "refused", func() bool {
				conn, err := net.Dial("tcp", r.Addr(HTTP).String())
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			})
			want := "error"
			if !endless {
				want = "done"
				close(answer)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if text := <-got; text != want {
				t.Errorf("got %q, want %q", text, want)
			}
		})
	}
}

// TestStopClosesSilentConnections does not wait for connections on which nothing is under way:
// those of browsers that have sent no request yet, those that are kept for the next request, and
// streams of the dashboard and of the health service.
func TestStopClosesSilentConnections(t *testing.T) {
	r := start(t, everywhere(t), func(s *Server) {
		s.timeouts.silent = 10 * time.Millisecond
		s.timeouts.finish = time.Minute // after which requests are cut off, and the log says so
	})
	for _, name := range []Listener{HTTP, GRPC, Admin} {
		r.idle(name, 1)
	}
	if status, _ := r.get(HTTP, "/livez", ""); status != 200 {
		t.Fatalf("got %d, want 200", status)
	}
	r.watch(t.Context()) // the server's health, which never ends by itself
	stream := testkit.Must(http.Get(r.url(Admin, "/api/stream")))(t)
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("stream: got %s", stream.Status)
	}
	if err := r.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), "cut off") {
		t.Errorf("logged %s", r.log)
	}
}

// listenAndServe serves a handler until the test ends, and returns its URL.
func listenAndServe(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// TestStartFails leaves nothing behind when a listener cannot be had.
func TestStartFails(t *testing.T) {
	taken := testkit.Must(net.Listen("tcp", anywhere))(t)
	defer taken.Close()
	before := runtime.NumGoroutine()
	c := everywhere(t)
	c.Admin = taken.Addr().String()
	c.Logger = slog.New(slog.DiscardHandler)
	s := testkit.Must(New(c))(t)
	if err := s.Start(t.Context()); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "admin on "+c.Admin) {
		t.Errorf("got %v, want that the address is taken", err)
	}
	if s.Addr(HTTP) != nil {
		t.Error("there is an address")
	}
	if err := s.Start(t.Context()); !errors.Is(err, errStarted) {
		t.Errorf("a second time: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if err := s.Reload(); err == nil {
		t.Error("Reload: want an error")
	}
	redistest.CheckGoroutines(t, before)
}

// TestWaitTellsOfAFailure has a listener fail under way.
func TestWaitTellsOfAFailure(t *testing.T) {
	r := start(t, everywhere(t))
	failure := errors.New("unplugged")
	r.fail(failure)
	r.fail(errors.New("another"))
	if err := r.Wait(); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	short := testkit.TempFile(t, "short", "alice: hunter2\n")
	tests := []struct {
		name string
		c    Config
		want string
	}{
		{"nowhere", Config{}, "there is nowhere to listen"},
		{"an address", Config{HTTP: "8080"}, "Config.HTTP: address 8080: missing port in address; want host:port"},
		{"gRPC without rules", Config{GRPC: anywhere}, "no rules; want Config.Envoy.Rules or Config.Envoy.XDS"},
		{"clients without a certificate", Config{HTTP: anywhere, ClientCA: "x"}, "Config.ClientCA needs Config.TLSCert and Config.TLSKey"},
		{"public and not", Config{HTTP: anywhere, APIPublic: true, APITokens: "x"}, "Config.APITokens cannot be used together"},
		{"a window", Config{HTTP: anywhere, Envoy: Envoy{Window: "tumbling"}}, `Config.Envoy.Window is "tumbling"; want sliding`},
		{"a header", Config{HTTP: anywhere, Envoy: Envoy{HeaderReset: "X Reset"}}, `Config.Envoy.HeaderReset is "X Reset"; want`},
		{"memory", Config{HTTP: anywhere, Store: "redis://:secret@a", StoreMemory: 1 << 30},
			"Config.StoreMemory is for the store in memory, and the store is redis://:xxxxx@a;"},
		{"no routes", Config{HTTP: anywhere, Gateway: &config.Gateway{}}, "want Config.Gateway.Routes"},
		{"all at once", Config{GRPC: "x", Drain: -1}, "Config.GRPC: address x: missing port"},
		{"policies", Config{HTTP: anywhere, Policies: testkit.TempFile(t, "p.yaml", "tiers: []\n")}, "p.yaml:1: tiers: "},
		{"rules", Config{HTTP: anywhere, Envoy: Envoy{Rules: testkit.TempFile(t, "r.yaml", "descriptors: 7\n")}}, "r.yaml:1: "},
		{"tokens", Config{HTTP: anywhere, APITokens: testkit.TempFile(t, "tokens", "# none\n\n")}, "tokens: no tokens; want one per line"},
		{"a short token", Config{HTTP: anywhere, APITokens: short},
			"server: API tokens: " + short + ":1: a token of 7 bytes can be guessed; want at least 16"},
		{"a certificate", Config{HTTP: anywhere, TLSCert: testkit.TempFile(t, "cert", "x"), TLSKey: testkit.TempFile(t, "certkey", "y")},
			"failed to find any PEM data"},
	}
	for _, test := range tests {
		_, err := New(test.c)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
		_, invalid := errors.AsType[*stint.InvalidError](err)
		if ours := strings.Contains(test.want, "Config.") || test.name == "nowhere"; invalid != ours {
			t.Errorf("%s: got %v, an InvalidError: %v; want %v", test.name, err, invalid, ours)
		}
	}
	_, err := New(Config{HTTP: anywhere, Policies: testkit.TempFile(t, "q.yaml", "tiers: []\n")})
	if _, ok := errors.AsType[*config.Error](err); !ok {
		t.Errorf("got %v, want a config.Error", err)
	}
}

// TestPathsAsWritten answers to a path as it is, and sends nobody elsewhere: what was posted would
// be lost on the way.
func TestPathsAsWritten(t *testing.T) {
	r := start(t, everywhere(t))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, listener := range []Listener{HTTP, Admin} {
		for _, path := range []string{"/v1//take", "//v1/take", "/v1/./take", "/v1/../v1/take", "/config/.", "//", "/v1/take//"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if status, body := sendBy(t, client, method, r.url(listener, path), ""); status != 404 || body != `{"error":"not_found","message":"There is nothing here."}`+"\n" {
					t.Errorf("%s: %s %s: got %d, %s; want 404", listener, method, path, status, body)
				}
			}
		}
	}
	r.wantGet(Admin, "/nowhere", "", 404, `"error":"not_found"`)
}

// TestPanic has one request that goes wrong end no others.
func TestPanic(t *testing.T) {
	r := start(t, everywhere(t))
	_, err := r.intercept(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: healthpb.Health_Check_FullMethodName},
		func(context.Context, any) (any, error) { panic("oh") })
	if status.Code(err) != codes.Internal || !strings.Contains(r.log.String(), "panic=oh") {
		t.Errorf("gRPC: got %v, logged %s", err, r.log)
	}
	at := listenAndServe(t, r.recovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("dear") })))
	if response, err := http.Get(at); err == nil {
		_ = response.Body.Close()
		t.Errorf("HTTP: got %s, want no answer", response.Status)
	}
	r.wantLogged("panic=dear")
}

// TestBuiltIn limits every client without a configuration.
func TestBuiltIn(t *testing.T) {
	r := start(t, Config{HTTP: anywhere, Admin: anywhere})
	for _, want := range []string{`"tier":"anyone"`, `"600/1m burst 2x"`, `"10000/1h"`} {
		r.wantTake("", 200, want)
	}
	r.wantGet(Admin, "/config", "", 200, `"sources": []`)
	r.wantGet(Admin, "/config", "", 200, `"name": "memory"`)
	r.wantGet(Admin, "/rlconfig", "", 404, "")
}
