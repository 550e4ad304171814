package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// redisEnv tells a process of this test binary that it is to serve, and over which Redis.
const redisEnv = "STINT_HTTPLIMIT_REDIS"

// shared is the configuration of all processes.
const shared = `
tiers: [{name: free, identity: user, limits: [30/1h, 1000/1d]}, {name: anonymous, identity: ip, limits: 5/1h}]
claims: {user: X-User}
client_ip: {trusted_proxies: loopback}
`

// TestServerProcess is no test but a server, if it was started as one by [startServer]: it says
// where it listens and serves until its input ends.
func TestServerProcess(t *testing.T) {
	url := os.Getenv(redisEnv)
	if url == "" {
		return
	}
	store, err := redisstore.Open(t.Context(), redisstore.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: httplimit.New(guardOver(t, store, shared))(ok)}
	fmt.Println("http://" + listener.Addr().String())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		server.Shutdown(context.Background())
	}()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		t.Error(err)
	}
}

// startServer starts a process that serves over a Redis, and returns its address.
func startServer(t *testing.T, redisURL string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerProcess$") // ends with its input
	cmd.Env = append(os.Environ(), redisEnv+"="+redisURL)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("a server: %v", err)
		}
	})
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not say where it is: %v", err)
	}
	return strings.TrimSpace(line)
}

// Two processes and one Redis admit exactly as many as one would.
func TestProcessesShareLimits(t *testing.T) {
	redis := redistest.Start(t)
	servers := []string{startServer(t, redis.URL()), startServer(t, redis.URL())}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		user string
		want int64
	}{{"alice", 30}, {"bob", 30}, {"", 5}} {
		var admitted, denied atomic.Int64
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for range 10 {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, servers[i%2], nil)
					if err != nil {
						t.Error(err)
						return
					}
					if c.user != "" {
						r.Header.Set("X-User", c.user)
					}
					resp, err := client.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					switch resp.StatusCode {
					case http.StatusOK:
						admitted.Add(1)
					case http.StatusTooManyRequests:
						denied.Add(1)
					}
				}
			})
		}
		callers.Wait()
		if admitted.Load() != c.want || denied.Load() != 80-c.want {
			t.Errorf("user %q: got %d admitted and %d denied of 80, want %d admitted", c.user, admitted.Load(), denied.Load(), c.want)
		}
	}
	if keys := redistest.KeysWithoutTTL(t, redis); len(keys) > 0 {
		t.Errorf("keys without TTL: %q", keys)
	}
}

// curl runs curl, and fails the test if there is none.
func curl(t *testing.T, args ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs curl: make test runs it")
	}
	cmd := exec.CommandContext(t.Context(), "curl",
		append([]string{"--silent", "--show-error", "--noproxy", "*"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("curl %q: %v: %s", args, err, &stderr)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

func TestCurl(t *testing.T) {
	server := httptest.NewServer(httplimit.New(guardOf(t, `
headers: {format: [x, draft-11], retry_after_jitter: 0%}
tiers: [{name: free, identity: ip, limits: 2/1h}]
policies:
  - {name: soon, match: {path: /soon}, limits: 1/1s, identity: everyone}
  - {name: outside, match: {path: /skip}, skip: true}
`))(ok))
	t.Cleanup(server.Close)
	got := curl(t, "--include", server.URL)
	for _, want := range []string{
		"HTTP/1.1 200 OK\n", "X-Ratelimit-Limit: 2\n", "X-Ratelimit-Remaining: 1\n", "X-Ratelimit-Policy: free\n",
		`Ratelimit-Policy: "free-1h";q=2;w=3600` + "\n", `Ratelimit: "free-1h";r=1;t=3600` + "\n", "\n\nok\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%swithout %q", got, want)
		}
	}
	curl(t, server.URL)
	got = curl(t, "--include", server.URL)
	for _, want := range []string{
		"HTTP/1.1 429 Too Many Requests\n", "Retry-After: 3600\n", "Content-Type: application/json\n",
		"Cache-Control: no-store\n",
		"\n\n" + `{"error":"rate_limited","message":"` + slowDown + `","retry_after_seconds":3600,"policy":"free","tier":"free","denial":"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%swithout %q", got, want)
		}
	}
	if got, want := curl(t, "--header", "Accept: text/plain", server.URL), slowDown+
		" Retry after 3600 s.\n"; got != want {
		t.Errorf("plain: got %q, want %q", got, want)
	}
	if got := curl(t, "--head", server.URL); !strings.Contains(got, "HTTP/1.1 429 ") ||
		!strings.HasSuffix(got, "\n\n") || strings.Contains(got, "rate_limited") {
		t.Errorf("HEAD: got\n%s", got)
	}
}

// curl obeys Retry-After, and is admitted then.
func TestCurlComesBack(t *testing.T) {
	server := httptest.NewServer(httplimit.New(guardOf(t, "tiers: [{name: free, identity: everyone, limits: 1/1s}]"))(ok))
	t.Cleanup(server.Close)
	curl(t, server.URL)
	got := curl(t, "--retry", "3", server.URL)
	if strings.Count(got, "rate_limited") != 1 || !strings.HasSuffix(got, "\nok\n") {
		t.Errorf("got %q, want to be denied once and then admitted", got)
	}
}
