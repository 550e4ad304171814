package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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
		{"half a header", Admin, "GET /livez HTTP/1.1\r\nHost: a\r\nX-A"},
		{"nothing", GRPC, ""},
		{"half a preface", GRPC, http2.ClientPreface[:10]},
		{"h2 half a frame", HTTP, settings + half},
		{"h2 half a frame", Admin, settings + half},
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

// TestF31Watch lets a stream of the health service go on that has begun.
func TestF31Watch(t *testing.T) {
	r := start(t, everywhere(t), hurried)
	ctx, cancel := context.WithCancel(t.Context()) // a deadline would be the server's too
	defer cancel()
	defer time.AfterFunc(5*r.timeouts.body, cancel).Stop()
	if _, err := r.watch(ctx).Recv(); ctx.Err() == nil {
		t.Errorf("got %v, want that only the client ends it", err)
	}
}

// TestF31LargeHeader answers 431, and does not keep what it was sent.
func TestF31LargeHeader(t *testing.T) {
	r := start(t, everywhere(t))
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
	conn := testkit.Must(net.Dial("tcp", to.String()))(t)
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }() // ends with the connection
	response := testkit.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	_ = response.Body.Close()
	return response.StatusCode
}

// frames returns frames as they are sent.
func frames(write func(f *http2.Framer) error) string {
	var b strings.Builder
	_ = write(http2.NewFramer(&b, nil)) // a builder takes all
	return b.String()
}

// TestF31Bounds: slow clients are closed within ten seconds.
func TestF31Bounds(t *testing.T) {
	b := defaultTimeouts()
	const most = 10 * time.Second
	if b.header > most || b.body > most || 2*b.alive >= most {
		t.Errorf("got %+v, want slow clients closed within %v", b, most)
	}
	if b.answer <= 0 || b.idle <= 0 || b.finish <= 0 {
		t.Errorf("got %+v, want a bound for everything", b)
	}
}
