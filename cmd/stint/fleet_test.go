package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// patient is a configuration in which no decision is made without Redis, however busy this machine
// is.
const slowFailure = "failure: {mode: error, budget: 10s}\ntiers:\n  - {name: all, identity: user, limits: %d/1h}\n  - {name: rest, identity: ip, limits: 1000000/1h}\n"

// take asks the JSON API whether a user may go on, under an id unless that is "", and returns the
// status.
func take(client *http.Client, address, user, id string) (int, error) {
	if id != "" {
		id = fmt.Sprintf(`,"id":%q`, id)
	}
	body := fmt.Sprintf(`{"method":"GET","path":"/","peer":"192.0.2.1","claims":{"user":%q}%s}`, user, id)
	response, err := client.Post("http://"+address+"/v1/take", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// newClient returns a client whose connections are its own.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// sigtermUnderLoad ends a daemon while it is busy. Callers leave when it says that it is not ready,
// as those behind a load balancer do: each of them has its answer, each answer is in Redis, and the
// daemon ends well.
func sigtermUnderLoad(t *testing.T, binary string) {
	const limit = 1_000_000
	redis := redistest.Start(t)
	args := []string{"serve", "--store", redis.URL(), "--http", "127.0.0.1:0", "--config",
		write(t, "stint.yaml", fmt.Sprintf(slowFailure, limit))}
	d := launch(t, binary, append(args, "--drain", "2s", "--envoy-config", envoyRules(t, limit), "--grpc",
		"127.0.0.1:0")...)

	client, address := newClient(t), d.at(server.HTTP)
	var admitted atomic.Int64
	var leave atomic.Bool
	var work sync.WaitGroup
	load := func(enough func(n int) bool) {
		for range 32 {
			work.Go(func() {
				for n := 0; !enough(n); n++ {
					status, err := take(client, address, "a", "")
					if err != nil || status != 200 {
						t.Errorf("got %d, %v; want 200", status, err)
						return
					}
					admitted.Add(1)
				}
			})
		}
	}
	some := func(n int) bool { return n == 50 }
	most := 0 // under load the daemon makes connections to Redis that it keeps for a while
	testkit.Eventually(t, "no goroutine is left of the load", func() bool {
		load(some)
		work.Wait()
		client.CloseIdleConnections()
		before := most
		most = max(most, settled(func() int { return goroutines(t, d) }))
		return most <= before+2
	})

	before := admitted.Load()
	load(func(int) bool { return leave.Load() })
	service := dial(t, d)
	for range 8 {
		work.Go(func() {
			for !leave.Load() {
				if err := ask(t.Context(), service, "a", nil); err != nil {
					t.Errorf("gRPC: %v", err)
					return
				}
			}
		})
	}
	testkit.Eventually(t, "busy", func() bool { return admitted.Load() > before+500 })
	d.signal(syscall.SIGTERM)
	testkit.Eventually(t, "not ready", func() bool { status, _ := d.get(server.Admin, "/readyz"); return status == 503 })
	atSignal := admitted.Load()
	testkit.Eventually(t, "served while draining", func() bool { return admitted.Load() > atSignal+100 })
	leave.Store(true)
	work.Wait()
	if code := d.exit(); code != exitGood {
		t.Errorf("exit code %d, want 0", code)
	}
	if strings.Contains(d.logged(), "cut off") {
		t.Errorf("logged %s", d.logged())
	}

	next := launch(t, binary, args...)
	if _, body := next.post("/v1/peek", `{"method":"GET","path":"/","peer":"192.0.2.1","claims":{"user":"a"}}`); !strings.Contains(body, fmt.Sprintf(`"used":%d,`, admitted.Load())) {
		t.Errorf("got %s, want %d used", body, admitted.Load())
	}
	if keys := redistest.KeysWithoutTTL(t, redis); len(keys) > 0 {
		t.Errorf("keys without a TTL: %v", keys)
	}
}

// envoyRules makes a directory with a limit on every user an hour.
func envoyRules(t *testing.T, limit int) string {
	t.Helper()
	text := fmt.Sprintf("domain: test\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: %d}}\n", limit)
	return filepath.Dir(write(t, "test.yaml", text))
}

// dial returns Envoy's rate limit service of a daemon, over a connection of its own.
func dial(t *testing.T, d *daemon) rls.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(d.at(server.GRPC), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return rls.NewRateLimitServiceClient(conn)
}

// ask asks Envoy's rate limit service whether a user may go on, and counts it in admitted, unless
// that is nil, if so.
func ask(ctx context.Context, service rls.RateLimitServiceClient, user string, admitted *atomic.Int64) error {
	answer, err := service.ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: "test",
		Descriptors: []*ratelimit.RateLimitDescriptor{
			{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}},
	})
	if err == nil && admitted != nil && answer.GetOverallCode() == rls.RateLimitResponse_OK {
		admitted.Add(1)
	}
	return err
}

var goroutineTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)

// goroutines returns how many a daemon has.
func goroutines(t *testing.T, d *daemon) int {
	t.Helper()
	_, body := d.get(server.Admin, "/debug/pprof/goroutine?debug=1")
	found := goroutineTotal.FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("got %s", body)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// killedUnderLoad ends one of two daemons as a crash would. Clients turn to the other one with what
// they had asked, under the same id: everybody is answered, and nobody is charged twice or admitted
// for nothing.
func killedUnderLoad(t *testing.T, binary string) {
	const (
		users    = 20
		limit    = 50
		requests = 2 * limit // of each user
		callers  = 40
	)
	redis := redistest.Start(t)
	args := []string{"serve", "--store", redis.URL(), "--http", "127.0.0.1:0", "--config",
		write(t, "stint.yaml", fmt.Sprintf(slowFailure, limit))}
	first, second := launch(t, binary, args...), launch(t, binary, args...)
	client := newClient(t)
	addresses := []string{first.at(server.HTTP), second.at(server.HTTP)}

	var admitted [users]atomic.Int64
	var answered, turned atomic.Int64
	next := make(chan int)
	var work sync.WaitGroup
	for range callers {
		work.Go(func() {
			for n := range next {
				user, id := n%users, strconv.Itoa(n)
				status, err := take(client, addresses[n/users%2], strconv.Itoa(user), id)
				if err != nil {
					turned.Add(1)
					status, err = take(client, addresses[1], strconv.Itoa(user), id)
				}
				if err != nil || status != 200 && status != 429 {
					t.Errorf("got %d, %v; want an answer", status, err)
				}
				if status == 200 {
					admitted[user].Add(1)
				}
				answered.Add(1)
			}
		})
	}
	for n := range users * requests {
		if n == users*requests/4 {
			first.signal(syscall.SIGKILL)
		}
		next <- n
	}
	close(next)
	work.Wait()
	if got := answered.Load(); got != users*requests {
		t.Errorf("%d were answered, want all %d", got, users*requests)
	}
	if turned.Load() == 0 {
		t.Error("nobody had to turn to the other one")
	}
	for user := range admitted {
		if got := admitted[user].Load(); got != limit {
			t.Errorf("user %d: %d admitted, want %d", user, got, limit)
		}
	}
	if code := first.exit(); code != -1 || !errors.Is(first.cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		t.Errorf("exit code %d, want that it was killed", code)
	}
}

// settled returns a number when it has stayed the same for a while.
func settled(read func() int) int {
	last, same := read(), 0
	for same < 10 {
		time.Sleep(50 * time.Millisecond)
		if now := read(); now == last {
			same++
		} else {
			last, same = now, 0
		}
	}
	return last
}
