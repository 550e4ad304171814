package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// serve serves a rig, with the timeouts of a server that does not expect streams, until the test
// ends. Its connections have small buffers: what is not read is not written.
func (r *rig) serve() (*http.Server, *bufconn.Listener) {
	listener := bufconn.Listen(256)
	server := &http.Server{Handler: r.board, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	r.t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return server, listener
}

// listen begins a stream.
func listen(t *testing.T, p *bufconn.Listener) (*http.Response, net.Conn) {
	t.Helper()
	client := testkit.Must(p.Dial())(t)
	if _, err := io.WriteString(client, "GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response := testkit.Must(http.ReadResponse(bufio.NewReader(client), nil))(t)
	return response, client
}

// TestStream: a tick each second, for longer than any other answer may take.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoard(t)
		_, p := r.serve()
		response, conn := listen(t, p)
		defer conn.Close()
		if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" ||
			response.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("got %+v", response)
		}
		began, lines := time.Now(), bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for i := range 300 {
			for r.ask("mallory", "/") {
			}
			var text [3]string
			for k := range text {
				if !lines.Scan() {
					t.Fatalf("the stream ended after %d ticks: %v", i, lines.Err())
				}
				text[k] = lines.Text()
			}
			data, ok := strings.CutPrefix(text[1], "data: ")
			if text[0] != "event: tick" || !ok || text[2] != "" {
				t.Fatalf("got %q", text)
			}
			var tick observe.Tick
			if err := json.Unmarshal([]byte(data), &tick); err != nil {
				t.Fatal(err)
			}
			if i > 0 && (tick.Point.Denied != 1 || len(tick.Violations) != 1) {
				t.Fatalf("tick %d: got %s", i, data)
			}
		}
		if took := time.Since(began).Round(time.Second); took != 300*time.Second {
			t.Errorf("300 ticks came in %v", took)
		}
	})
}

// TestSlowReader: one that does not read is cut off, and its place is free again.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoard(t)
		_, p := r.serve()
		response, conn := listen(t, p)
		defer conn.Close()
		if got := len(r.board.streams); got != 1 {
			t.Fatalf("%d streams, want 1", got)
		}
		time.Sleep(2*sendTime + time.Second)
		if got := len(r.board.streams); got != 0 {
			t.Fatalf("%d streams, want none", got)
		}
		if _, err := io.ReadAll(response.Body); err == nil {
			t.Error("the answer ended as if it were whole")
		}
	})
}

// TestStreamEnds with the reader, with the dashboard and with the monitor, and a server that is
// shut down does not wait.
func TestStreamEnds(t *testing.T) {
	for name, end := range map[string]func(*rig, net.Conn){
		"the reader":    func(_ *rig, conn net.Conn) { _ = conn.Close() },
		"the dashboard": func(r *rig, _ net.Conn) { r.close() },
		"the monitor":   func(r *rig, _ net.Conn) { _ = r.monitor.Close() },
	} {
		testkit.InBubble(t, name, func(t *testing.T) {
			r := newBoard(t)
			server, p := r.serve()
			response, conn := listen(t, p)
			defer conn.Close()
			go func() { _, _ = io.Copy(io.Discard, response.Body) }()
			end(r, conn)
			synctest.Wait()
			if got := len(r.board.streams); got != 0 {
				t.Errorf("%d streams, want none", got)
			}
			began := time.Now()
			if err := server.Shutdown(context.Background()); err != nil || time.Since(began) > time.Second {
				t.Errorf("shut down in %v: %v", time.Since(began), err)
			}
		})
	}
}

// TestTooManyStreams are refused with a sentence, as are those of a dashboard that has ended.
func TestTooManyStreams(t *testing.T) {
	r := newRig(t)
	for range maxStreams {
		r.board.streams <- struct{}{}
	}
	if why := r.refused(503, "busy", http.MethodGet, "/api/stream", ""); !strings.Contains(why, "100 streams") {
		t.Errorf("got %s", why)
	}
	<-r.board.streams
	r.close()
	r.refused(503, "closed", http.MethodGet, "/api/stream", "")
}
