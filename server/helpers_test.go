package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/testkit"
)

const (
	anywhere  = "127.0.0.1:0"
	patient   = "failure: {budget: 10s}\n" // Redis decides, however busy the machine is
	three     = "tiers:\n  - {name: all, identity: ip, limits: 3/1h}\n"
	five      = "tiers:\n  - {name: all, identity: ip, limits: 5/1h}\n"
	rules     = "domain: test\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}\n"
	moreRules = "domain: test\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}\n"
)

// running is a server under test, which ends with it.
type running struct {
	*Server
	t   *testing.T
	log *testkit.Buffer
}

// everywhere is a Config with all listeners, and with files of its own.
func everywhere(t *testing.T) Config {
	t.Helper()
	return Config{
		Policies: file(t, "stint.yaml", three), Envoy: Envoy{Rules: filepath.Dir(file(t, "test.yaml", rules))},
		HTTP: anywhere, GRPC: anywhere, Admin: anywhere,
	}
}

// start runs a server until the test ends.
func start(t *testing.T, c Config, adjust ...func(*Server)) *running {
	t.Helper()
	r := &running{t: t, log: &testkit.Buffer{}}
	c.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	if r.Server, err = New(c); err != nil {
		t.Fatal(err)
	}
	for _, f := range adjust {
		f(r.Server)
	}
	if err := r.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", r.log)
		}
	})
	return r
}

// url returns that of a path on a listener.
func (r *running) url(listener Listener, path string) string {
	return "http://" + r.Addr(listener).String() + path
}

// get returns the status and the body of a GET, with a token if it is not "".
func (r *running) get(listener Listener, path, token string) (int, string) {
	r.t.Helper()
	return send(r.t, http.MethodGet, r.url(listener, path), "", bearer(token))
}

// take asks the JSON API about a client.
func (r *running) take(token string) (int, string) {
	r.t.Helper()
	return send(r.t, http.MethodPost, r.url(HTTP, "/v1/take"), `{"method":"GET","path":"/","peer":"192.0.2.1"}`, bearer(token))
}

// bearer returns the header field with a token; none for "".
func bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Authorization: Bearer " + token
}

// send returns the status and the body of the answer to a request, whose body is JSON unless the
// fields say otherwise. Fields without a value are not sent.
func send(t *testing.T, method, url, body string, fields ...string) (int, string) {
	t.Helper()
	return sendBy(t, http.DefaultClient, method, url, body, fields...)
}

func sendBy(t *testing.T, client *http.Client, method, url, body string, fields ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for _, field := range fields {
		switch name, value, _ := strings.Cut(field, ": "); {
		case name == "Host":
			request.Host = value
		case value != "":
			request.Header.Set(name, value)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// dial connects to gRPC.
func (r *running) dial(options ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient(r.Addr(GRPC).String(), options...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask is one question of Envoy's.
func ask(ctx context.Context, conn *grpc.ClientConn, user string) (*rls.RateLimitResponse, error) {
	return rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, question(user))
}

func question(user string) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "test", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}}}
}

// put writes a file, and makes its directory.
func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// file writes a file in a directory of its own, and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	put(t, path, text)
	return path
}

// codeOf returns the code of a question of Envoy's that is asked with an authorization.
func codeOf(t *testing.T, conn *grpc.ClientConn, authorization string) string {
	t.Helper()
	ctx := t.Context()
	if authorization != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
	}
	_, err := ask(ctx, conn, "a")
	return status.Code(err).String()
}
