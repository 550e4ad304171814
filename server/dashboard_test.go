package server

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
)

const operator = "token-of-an-operator"

// withOperator has alice as the operator of a server.
func withOperator(t *testing.T, c Config) Config {
	t.Helper()
	c.AdminTokens = testkit.TempFile(t, "tokens", "alice: "+operator+"\n")
	return c
}

// operate returns a client of the admin listener.
func (r *running) operate(token string) *control.Client {
	r.t.Helper()
	return testkit.Must(control.NewClient(r.url(Admin, ""), token))(r.t)
}

// TestStreamLasts for longer than any other answer, over HTTP/1 and HTTP/2, and ends when the
// server is stopped, which does not wait for it.
func TestStreamLasts(t *testing.T) {
	a := newAuthority(t)
	c := withOperator(t, Config{Admin: anywhere})
	a.secure(&c)
	r := start(t, c, func(s *Server) { s.timeouts.body, s.timeouts.answer = time.Second, time.Second })
	streams := map[int]*bufio.Scanner{}
	for version := range 2 {
		transport := &http.Transport{TLSClientConfig: a.client(""), ForceAttemptHTTP2: version == 1}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://"+r.Addr(Admin).String()+"/api/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+operator)
		response := testkit.Must(transport.RoundTrip(request))(t)
		defer response.Body.Close()
		if response.StatusCode != 200 || response.ProtoMajor != version+1 {
			t.Fatalf("got %s, %s", response.Status, response.Proto)
		}
		streams[response.ProtoMajor] = bufio.NewScanner(response.Body)
	}
	for version, lines := range streams {
		for ticks := 0; ticks < 4; {
			if !lines.Scan() {
				t.Fatalf("HTTP/%d: ended after %d ticks: %v", version, ticks, lines.Err())
			}
			if lines.Text() == "event: tick" {
				ticks++
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.Stop(ctx); err != nil || strings.Contains(r.log.String(), "cut off") {
		t.Errorf("Stop: %v", err)
	}
	for version, lines := range streams {
		for lines.Scan() {
		}
		if err := lines.Err(); err != nil {
			t.Errorf("HTTP/%d: ended with %v, want its end", version, err)
		}
	}
}
