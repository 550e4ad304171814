package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/redistest"
)

const handshake = " HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// echoSocket takes the upgrade and then sends back what it receives, until the client ends.
func echoSocket(conn net.Conn, r *bufio.Reader) {
	head := readHead(r)
	if !strings.Contains(head, "Upgrade: WebSocket\r\n") || !strings.Contains(head, "Connection: Upgrade\r\n") ||
		!strings.Contains(head, "Sec-Websocket-Key: dGhl") {
		io.WriteString(conn, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
		return
	}
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"+
		"X-RateLimit-Limit: the upstream's\r\n\r\nhello\n")
	io.Copy(conn, r)
}

// openSocket shakes hands with a gateway, and returns the connection and its response.
func openSocket(t *testing.T, s *httptest.Server, path string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn := dial(t, s)
	io.WriteString(conn, "GET "+path+handshake)
	r := bufio.NewReader(conn)
	return conn, r, response(t, r)
}

// A websocket passes frames of both sides until one ends. A server that drains asks for connections
// to be closed, which is no answer to a handshake.
func TestWebsocketWhileDraining(t *testing.T) {
	c := to(rawUpstream(t, echoSocket))
	c.Routes = append(c.Routes, config.Route{PathPrefix: "/plain", Upstream: upstream(t, echo).URL})
	g := newGateway(t, open, c)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		g.ServeHTTP(w, r)
	}))
	conn, r, resp := openSocket(t, s, "/")
	if got := resp.Header.Values("Connection"); resp.StatusCode != 101 || len(got) != 1 || got[0] != "Upgrade" {
		t.Fatalf("got %d with Connection %q, want 101 with Upgrade", resp.StatusCode, got)
	}
	if got := resp.Header.Values("X-RateLimit-Limit"); len(got) != 1 || got[0] != "1000000" {
		t.Errorf("X-RateLimit-Limit: got %q, want the gateway's once", got)
	}
	io.WriteString(conn, "\x81\x02hi\n")
	conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(r); err != nil || string(got) != "hello\n\x81\x02hi\n" {
		t.Errorf("got %q, %v, want the frames of both and the end", got, err)
	}
	if resp, _ := do(t, "GET", s.URL+"/plain", nil); resp.StatusCode != 200 || !resp.Close {
		t.Errorf("other requests: got %d, close %v, want 200 on the last of its connection", resp.StatusCode, resp.Close)
	}
}

// Nothing runs on once server and gateway are closed, whatever clients have left behind.
func TestNothingIsLeft(t *testing.T) {
	socket, plain := rawUpstream(t, echoSocket), upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	guard := guardOf(t, open)
	before := runtime.NumGoroutine()
	g := gatewayOver(t, guard, config.Gateway{
		Routes: []config.Route{{Upstream: plain.URL}, {PathPrefix: "/socket", Upstream: socket}}})
	s := serve(t, g)
	for i := range 10 {
		conn, _, resp := openSocket(t, s, "/socket")
		if resp.StatusCode != 101 {
			t.Fatalf("got %d", resp.StatusCode)
		}
		if i%2 == 0 {
			conn.Close()
		}
		conn = dial(t, s)
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
		conn.Close()
		conn = dial(t, s)
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		conn.Close()
	}
	s.Close()
	g.Close()
	redistest.CheckGoroutines(t, before)
}

// Close ends upgraded connections and returns when their places are free.
func TestCloseEndsWebsockets(t *testing.T) {
	const text = "tiers: [{name: all, identity: ip, limits: 1/30s concurrency}]\n"
	guard := guardOf(t, text)
	c := to(rawUpstream(t, echoSocket))
	g := gatewayOver(t, guard, c)
	s := serve(t, g)
	conn, r, resp := openSocket(t, s, "/")
	if resp.StatusCode != 101 {
		t.Fatalf("got %d", resp.StatusCode)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection is still open: %v", err)
	}
	conn.Close()
	s = serve(t, gatewayOver(t, guard, c))
	if _, _, resp := openSocket(t, s, "/"); resp.StatusCode != 101 {
		t.Errorf("afterwards: got %d, want the place to be free", resp.StatusCode)
	}
	if err := g.Close(); err != nil {
		t.Errorf("twice: got %v", err)
	}
}
