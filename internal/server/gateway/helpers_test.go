package gateway_test

import (
	"bufio"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/gateway"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

// open is a limit that no test reaches.
const open = "tiers: [{name: all, identity: ip, limits: 1000000/1m}]\n"

// trusting is open, and trusts the peers that tests are.
const trusting = "client_ip: {trusted_proxies: loopback}\nclaims: {user: X-User-ID}\n" + open

// patience is how long a test waits for what must come.
const patience = time.Minute

var discard = slog.New(slog.DiscardHandler)

func guardOf(t testing.TB, text string) *policy.Guard {
	t.Helper()
	return guardtest.New(t, guardtest.Memory(t), text, policy.GuardConfig{})
}

// judging returns a guard that limits nobody, and counts what it judges.
func judging(t testing.TB) (*policy.Guard, *counted) {
	t.Helper()
	judged := &counted{}
	return guardtest.New(t, guardtest.Memory(t), open, policy.GuardConfig{Observer: judged}), judged
}

func newGateway(t testing.TB, text string, c config.Gateway) *gateway.Gateway {
	t.Helper()
	return gatewayOver(t, guardOf(t, text), c)
}

// gatewayOver returns a gateway that is closed with the test.
func gatewayOver(t testing.TB, guard *policy.Guard, c config.Gateway) *gateway.Gateway {
	t.Helper()
	if c.Logger == nil {
		c.Logger = discard
	}
	return testkit.Opened(gateway.New(guard, c))(t)
}

// to is a configuration with a single upstream.
func to(url string) config.Gateway { return config.Gateway{Routes: []config.Route{{Upstream: url}}} }

// logged is a configuration with a single upstream, and the log.
func logged(url string) (config.Gateway, *testkit.Buffer) {
	c, log := to(url), &testkit.Buffer{}
	c.Logger = slog.New(slog.NewTextHandler(log, nil))
	return c, log
}

// front serves a gateway in front of one upstream.
func front(t testing.TB, text, upstream string) *httptest.Server {
	t.Helper()
	return serve(t, newGateway(t, text, to(upstream)))
}

// serve serves a handler on a real listener, silently.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = discardLog()
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// upstream is a server that a test writes.
func upstream(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	return serve(t, h)
}

// echo answers with the head of the request as it was received.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, r.Method+" "+r.RequestURI+"\nHost: "+r.Host+"\n")
	r.Header.Write(w)
}

// do sends a request with header fields ("Name: value") and returns the response with its body
// read.
func do(t testing.TB, method, url string, body io.Reader, fields ...string) (*http.Response, string) {
	t.Helper()
	r := request(t, method, url, body)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Add(name, value)
	}
	resp := send(t, http.DefaultTransport, r)
	return resp, read(t, resp)
}

// request is a request that no test can hang on.
func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return testkit.Must(http.NewRequestWithContext(ctx, method, url, body))(t)
}

// send returns the response to a request, whose body is closed with the test.
func send(t testing.TB, client http.RoundTripper, r *http.Request) *http.Response {
	t.Helper()
	resp := testkit.Must(client.RoundTrip(r))(t)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// read returns the body of a response, and closes it.
func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	return string(testkit.Must(io.ReadAll(resp.Body))(t))
}

// dial returns a connection that no test can hang on.
func dial(t testing.TB, s *httptest.Server) net.Conn {
	t.Helper()
	conn := testkit.Opened(net.Dial("tcp", s.Listener.Addr().String()))(t)
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// response reads the head of a response. Its body may follow.
func response(t testing.TB, r *bufio.Reader) *http.Response {
	t.Helper()
	return testkit.Must(http.ReadResponse(r, nil))(t)
}

// rawUpstream serves every connection with a function, and returns its URL.
func rawUpstream(t testing.TB, handle func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(patience))
				handle(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return "http://" + l.Addr().String()
}

// receive waits for a value.
func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: not in time", what)
		panic("unreachable")
	}
}
