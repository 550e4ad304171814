package server

import (
	"bufio"
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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// hurried has bounds short enough to see them work.
func hurried(s *Server) {
	s.bounds.header, s.bounds.body, s.bounds.alive = 100*time.Millisecond, 200*time.Millisecond, time.Second
}

func TestF31Bounds(t *testing.T) {
	b := usualBounds()
	const most = 10 * time.Second
	if b.header > most || b.body > most || 2*b.alive > most {
		t.Errorf("got %+v, want whoever is slow closed within %v", b, most)
	}
	if b.answer <= 0 || b.idle <= 0 || b.finish <= 0 {
		t.Errorf("got %+v, want a bound for everything", b)
	}
}

// preface is what a client of HTTP/2 says first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// TestF31Slow closes connections on which nothing, or too little, arrives.
func TestF31Slow(t *testing.T) {
	r := start(t, everywhere(t), hurried)
	tests := []struct{ name, listener, text string }{
		{"nothing", HTTP, ""},
		{"half a header", HTTP, "GET /livez HTTP/1.1\r\nHost: a\r\nX-A"},
		{"half a body", HTTP, "POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"},
		{"half a header", Admin, "GET /livez HTTP/1.1\r\nHost: a\r\nX-A"},
		{"half a body", Admin, "GET /config HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"},
		{"nothing", GRPC, ""},
		{"half a preface", GRPC, preface[:10]},
		{"half a frame", GRPC, preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x40\x01\x04\x00\x00\x00\x01\x82"},
	}
	for _, test := range tests {
		t.Run(test.listener+"/"+test.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", r.Addr(test.listener).String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, test.text); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("not closed: %v", err)
			}
		})
	}
}

// TestF31LargeHeader answers 431, and does not keep what it was sent.
func TestF31LargeHeader(t *testing.T) {
	c := everywhere(t)
	c.Admin = anywhere
	r := start(t, c)
	for _, listener := range []string{HTTP, Admin} {
		for _, field := range []string{"X-Large: " + strings.Repeat("a", 1<<20), strings.Repeat("X-Many: b\r\n", 1<<20/11)} {
			if got := exchange(t, r.Addr(listener), "GET /livez HTTP/1.1\r\nHost: a\r\n"+field+"\r\n\r\n"); got != 431 {
				t.Errorf("%s: got %d, want 431", listener, got)
			}
		}
	}
	large := metadata.AppendToOutgoingContext(t.Context(), "x-large", strings.Repeat("a", 1<<20))
	if _, err := ask(large, r.dial(), "a"); status.Code(err) != codes.Internal && status.Code(err) != codes.ResourceExhausted && status.Code(err) != codes.Unavailable {
		t.Errorf("gRPC: got %v, want that it is too large", err)
	}
	if _, err := ask(t.Context(), r.dial(), strings.Repeat("a", 2<<20)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("gRPC message: got %v, want that it is too large", err)
	}
}

// exchange sends text and returns the status of the answer. The server may close the connection before it has read
// everything.
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
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", path)
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
