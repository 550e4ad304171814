package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// newClient returns a client whose connections are its own.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// sigtermUnderLoad ends a busy daemon. Callers leave when it is not ready, like a load balancer:
// each request is answered, each answer is in Redis, and the exit code is 0.
func sigtermUnderLoad(t *testing.T, binary string) {
	redis := redistest.Start(t)
	// However busy this machine is, no decision is made without Redis.
	config := write(t, "stint.yaml", "failure: {mode: error, budget: 10s}\n"+
		"tiers:\n  - {name: all, identity: user, limits: 1000000/1h}\n  - {name: rest, identity: ip, limits: 1000000/1h}\n")
	rules := write(t, "test.yaml", "domain: test\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}]\n")
	args := []string{"serve", "--store", redis.URL(), "--http", "127.0.0.1:0", "--config", config}
	d := launch(t, binary, append(args, "--drain", "5s", "--envoy-config", filepath.Dir(rules), "--grpc", "127.0.0.1:0")...)

	const question = `{"method":"GET","path":"/","peer":"192.0.2.1","claims":{"user":"a"}}`
	client, address := newClient(t), d.at(server.HTTP)
	conn, err := grpc.NewClient(d.at(server.GRPC), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var admitted atomic.Int64
	var leave atomic.Bool
	var work sync.WaitGroup
	for range 32 {
		work.Go(func() {
			for !leave.Load() {
				response, err := client.Post("http://"+address+"/v1/take", "application/json", strings.NewReader(question))
				if err != nil {
					t.Error(err)
					return
				}
				if status, body := readAll(t, response); status != 200 {
					t.Errorf("got %d, %s; want 200", status, body)
				}
				admitted.Add(1)
			}
		})
	}
	for range 8 {
		work.Go(func() {
			for !leave.Load() {
				_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "test",
					Descriptors: []*ratelimit.RateLimitDescriptor{
						{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "a"}}}}})
				if err != nil {
					t.Errorf("gRPC: %v", err)
					return
				}
			}
		})
	}
	testkit.Eventually(t, "busy", func() bool { return admitted.Load() > 500 })
	d.signal(syscall.SIGTERM)
	testkit.Eventually(t, "not ready", func() bool { status, _ := d.get(server.Admin, "/readyz"); return status == 503 })
	atSignal := admitted.Load()
	testkit.Eventually(t, "served while draining", func() bool { return admitted.Load() > atSignal })
	leave.Store(true)
	work.Wait()
	if code := d.exit(); code != exitGood || strings.Contains(d.logged(), "cut off") {
		t.Errorf("exit code %d, want 0; logged %s", code, d.logged())
	}
	next := launch(t, binary, args...)
	if _, body := next.post("/v1/peek", question); !strings.Contains(body, fmt.Sprintf(`"used":%d,`, admitted.Load())) {
		t.Errorf("got %s, want %d used", body, admitted.Load())
	}
	if keys := redistest.KeysWithoutTTL(t, redis); len(keys) > 0 {
		t.Errorf("keys without a TTL: %v", keys)
	}
}
