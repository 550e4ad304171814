package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
)

// hurried has bounds short enough to see them work.
func hurried(s *Server) {
	s.timeouts.header, s.timeouts.body, s.timeouts.alive = 400*time.Millisecond, 600*time.Millisecond, time.Second
}

// TestF31Slow closes connections on which nothing, or too little, arrives.
func TestF31Slow(t *testing.T) {
	plain := start(t, everywhere(t), hurried)
	c := everywhere(t)
	signer := newAuthority(t)
	signer.secure(&c)
	secret := start(t, c, hurried)
	settings := http2.ClientPreface + frames(func(f *http2.Framer) error { return f.WriteSettings() })
	half := frames(func(f *http2.Framer) error {
		return f.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, make([]byte, 64))
	})[:10]
	endless := frames(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: testkit.HTTP2Header(":method", "GET")})
	})
	tests := []struct {
		name     string
		listener Listener
		text     string
	}{
		{"nothing", HTTP, ""},
		{"half a header", HTTP, "GET /livez HTTP/1.1\r\nHost: a\r\nX-A"},
		{"half a body", HTTP, "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"},
		{"nothing", GRPC, ""},
		{"half a preface", GRPC, http2.ClientPreface[:10]},
		{"h2 half a frame", HTTP, settings + half},
		{"h2 half a frame", GRPC, settings + half},
		{"h2 a header without an end", HTTP, settings + endless},
	}
	for _, test := range tests {
		t.Run(string(test.listener)+"/"+test.name, func(t *testing.T) {
			t.Parallel()
			var conn net.Conn
			var err error
			if strings.HasPrefix(test.name, "h2 ") {
				trusting := signer.client("")
				trusting.NextProtos = []string{"h2"}
				conn, err = tls.Dial("tcp", secret.Addr(test.listener).String(), trusting)
			} else {
				conn, err = net.Dial("tcp", plain.Addr(test.listener).String())
			}
			if err == nil { // or we were too slow ourselves, here and below
				defer conn.Close()
				if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				if _, err = io.WriteString(conn, test.text); err == nil {
					_, err = io.Copy(io.Discard, conn)
				}
			}
			if err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("not closed: %v", err)
			}
		})
	}
}

// TestF31EndlessMessage ends gRPC calls whose message never does, on a connection that stays, and
// does not keep what was sent.
func TestF31EndlessMessage(t *testing.T) {
	r := start(t, everywhere(t), func(s *Server) {
		s.timeouts.header, s.timeouts.alive = 2*time.Second, time.Hour
	})
	before := heap()
	const calls = 100
	clients := map[string]*http2Client{}
	for _, method := range []string{"/" + envoyrls.ServiceName + "/ShouldRateLimit",
		healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName} {
		client := dialHTTP2(t, r.Addr(GRPC))
		clients[method] = client
		for i := range calls {
			stream := uint32(2*i + 1)
			client.call(stream, method)
			client.sent(client.WriteData(stream, false, []byte("\x00\x00\x03\x00\x00"+strings.Repeat("a", 512))))
		}
	}
	for method, client := range clients {
		if got := client.ended(calls); got != calls {
			t.Errorf("%s: %d of %d calls were ended", method, got, calls)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// TestF31Watch lets a stream of the health service go on that has begun.
func TestF31Watch(t *testing.T) {
	r := start(t, everywhere(t), hurried)
	ctx, cancel := context.WithCancel(t.Context()) // a deadline would be the server's too
	defer cancel()
	defer time.AfterFunc(5*r.timeouts.body, cancel).Stop()
	stream, err := healthpb.NewHealthClient(r.dial()).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); ctx.Err() == nil {
		t.Errorf("got %v, want that only the client ends it", err)
	}
}

// TestF31LargeHeader answers 431, and does not keep what it was sent.
func TestF31LargeHeader(t *testing.T) {
	c := everywhere(t)
	c.Admin = anywhere
	r := start(t, c)
	for _, listener := range []Listener{HTTP, Admin} {
		for _, field := range []string{"X-Large: " + strings.Repeat("a", 1<<20),
			strings.Repeat("X-Many: b\r\n", 1<<20/11)} {
			if got := exchange(t, r.Addr(listener), "GET /livez HTTP/1.1\r\nHost: a\r\n"+field+"\r\n\r\n"); got != 431 {
				t.Errorf("%s: got %d, want 431", listener, got)
			}
		}
	}
	large := metadata.AppendToOutgoingContext(t.Context(), "x-large", strings.Repeat("a", 1<<20))
	if _, err := ask(large, r.dial(), "a"); status.Code(err) != codes.Internal &&
		status.Code(err) != codes.ResourceExhausted && status.Code(err) != codes.Unavailable {
		t.Errorf("gRPC: got %v, want that it is too large", err)
	}
	if _, err := ask(t.Context(), r.dial(), strings.Repeat("a", 2<<20)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("gRPC message: got %v, want that it is too large", err)
	}
}

// exchange sends text and returns the status of the answer. The server may close the connection
// before it has read everything.
func exchange(t *testing.T, to net.Addr, text string) int {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }() // ends with the connection
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestF31EndlessBody answers 413 to bodies without an end, from many at once, in little memory.
func TestF31EndlessBody(t *testing.T) {
	r := start(t, everywhere(t))
	before := heap()
	const callers = 50
	var work sync.WaitGroup
	most := uint64(0)
	for _, path := range []string{"/v1/take", "/v1/batch", "/json"} {
		statuses := make(chan int, callers)
		for range callers {
			work.Go(func() { statuses <- endless(r, path) })
		}
		work.Wait()
		close(statuses)
		for got := range statuses {
			if got != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: got %d, want 413", path, got)
			}
		}
		most = max(most, heap())
	}
	if grown := int64(most) - int64(before); grown > 16<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// endless posts a body without an end and returns the status of the answer; 0 if there was none.
func endless(r *running, path string) int {
	conn, err := net.Dial("tcp", r.Addr(HTTP).String())
	if err != nil {
		return 0
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", path)
	go func() { // ends with the connection
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 32<<10, strings.Repeat(" ", 32<<10))
		for {
			if _, err := io.WriteString(conn, chunk); err != nil {
				return
			}
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// heap returns how much is in use after all garbage is gone.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// frames returns frames as they are sent.
func frames(write func(f *http2.Framer) error) string {
	var b strings.Builder
	_ = write(http2.NewFramer(&b, nil)) // a builder takes all
	return b.String()
}

// http2Client is a client that sends anything, and answers pings.
type http2Client struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
}

func dialHTTP2(t *testing.T, to net.Addr) *http2Client {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &http2Client{t, conn, http2.NewFramer(conn, conn)}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c.sent(c.WriteSettings())
	return c
}

func (c *http2Client) sent(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// call begins a gRPC call.
func (c *http2Client) call(stream uint32, method string) {
	c.t.Helper()
	c.sent(c.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: testkit.HTTP2CallHeader(method), EndHeaders: true,
	}))
}

// ended waits until so many streams have ended, and returns how many have.
func (c *http2Client) ended(want int) int {
	c.t.Helper()
	c.sent(c.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	streams := map[uint32]bool{}
	for len(streams) < want {
		frame, err := c.ReadFrame()
		if err != nil {
			break
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			if !f.IsAck() {
				c.sent(c.WritePing(true, f.Data))
			}
		case *http2.RSTStreamFrame:
			streams[f.StreamID] = true
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				streams[f.StreamID] = true
			}
		}
	}
	return len(streams)
}
