package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
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
		Policies: testkit.TempFile(t, "stint.yaml", three), Envoy: Envoy{Rules: filepath.Dir(testkit.TempFile(t, "test.yaml", rules))},
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

// wantGet asks for a path, with a token if it is not "". The answer must have a status, and text in
// its body.
func (r *running) wantGet(listener Listener, path, token string, status int, text string) {
	r.t.Helper()
	if got, body := r.get(listener, path, token); got != status || !strings.Contains(body, text) {
		r.t.Errorf("%s: %s with the token %q: got %d, %s; want %d, %q", listener, path, token, got, body, status, text)
	}
}

// wantReload reloads everything. The error must have text in it; "" is for no error.
func (r *running) wantReload(text string) {
	r.t.Helper()
	if err := r.Reload(); (err == nil) != (text == "") || !strings.Contains(fmt.Sprint(err), text) {
		r.t.Fatalf("Reload: got %v, want %q", err, text)
	}
}

// wantLogged looks for text in the log.
func (r *running) wantLogged(text string) {
	r.t.Helper()
	if !strings.Contains(r.log.String(), text) {
		r.t.Errorf("%q is not logged:\n%s", text, r.log.String())
	}
}

// take asks the JSON API about a client.
func (r *running) take(token string) (int, string) {
	r.t.Helper()
	return send(r.t, http.MethodPost, r.url(HTTP, "/v1/take"), `{"method":"GET","path":"/","peer":"192.0.2.1"}`, bearer(token))
}

// wantTake asks the JSON API about a client. The answer must have a status, and text in its body.
func (r *running) wantTake(token string, status int, text string) {
	r.t.Helper()
	if got, body := r.take(token); got != status || !strings.Contains(body, text) {
		r.t.Errorf("take with the token %q: got %d, %s; want %d, %q", token, got, body, status, text)
	}
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
	fields = append([]string{"Content-Type: application/json"}, fields...)
	response, text := testkit.Fetch(t, client, method, url, body, fields...)
	return response.StatusCode, text
}

// dial connects to gRPC.
func (r *running) dial(options ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	return testkit.Opened(grpc.NewClient(r.Addr(GRPC).String(), options...))(r.t)
}

// ask is one question of Envoy's.
func ask(ctx context.Context, conn *grpc.ClientConn, user string) (*rls.RateLimitResponse, error) {
	return rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, question(user))
}

func question(user string) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "test", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}}}
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
