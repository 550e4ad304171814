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

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/gateway"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// open is a limit that no test reaches.
const open = "tiers: [{name: all, identity: ip, limits: 1000000/1m}]\n"

// trusting is open, and trusts the peers that tests are.
const trusting = "client_ip: {trusted_proxies: loopback}\nclaims: {user: X-User-ID}\n" + open

// patience is how long a test waits for what must come.
const patience = time.Minute

var discard = slog.New(slog.DiscardHandler)

func guardOver(t testing.TB, store stint.Store, text string) *policy.Guard {
	t.Helper()
	conf, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func guardOf(t testing.TB, text string) *policy.Guard {
	t.Helper()
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return guardOver(t, store, text)
}

// newGateway returns a gateway that is closed with the test.
func newGateway(t testing.TB, text string, c config.Gateway) *gateway.Gateway {
	t.Helper()
	if c.Logger == nil {
		c.Logger = discard
	}
	g, err := gateway.New(guardOf(t, text), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// to is a configuration with a single upstream.
func to(url string) config.Gateway { return config.Gateway{Routes: []config.Route{{Upstream: url}}} }

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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Add(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// dial returns a connection that no test can hang on.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// rawUpstream serves every connection with a function, and returns its URL.
func rawUpstream(t testing.TB, handle func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
