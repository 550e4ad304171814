package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/testkit"
)

// The time that a server gives requests is not prolonged by what is read of them before the
// decision.
func TestUsageKeepsReadTimeouts(t *testing.T) {
	guard := guardOf(t, `
tiers: [{name: all, identity: ip, budget: 1000000/1m}]
policies: [{name: chat, match: {path: /**}, usage: {preset: openai}}]
`)
	failed := make(chan error, 1)
	reads := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		failed <- err
	})
	s := httptest.NewUnstartedServer(httplimit.New(guard)(reads))
	s.Config.ReadTimeout = 300 * time.Millisecond
	s.Start()
	defer s.Close()
	conn := testkit.Must(net.Dial("tcp", s.Listener.Addr().String()))(t)
	defer conn.Close()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"+strings.Repeat("x", 70_000))
	select {
	case err := <-failed:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want a timeout", err)
		}
	case <-time.After(time.Minute):
		t.Error("the handler waits for a body without an end")
	}
}

// A body that was read before the decision ends without an error after the server has closed its
// own, which it does when the response begins. A proxy's transport may look for the end only then.
func TestBodyEndsAfterResponseBegins(t *testing.T) {
	guard := guardOf(t, `
tiers: [{name: all, identity: ip, budget: 1000000/1m}]
policies:
  - {name: click, match: {path: /derived}, request_id: {header: Idempotency-Key, derive: 2s}}
  - {name: chat, match: {path: /metered}, usage: {preset: openai}}
  - {name: stream, match: {path: /injected}, usage: {preset: openai, inject_usage: true}}
`)
	mux := http.NewServeMux()
	reads := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadFull(r.Body, make([]byte, r.ContentLength))
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		fmt.Fprint(w, err)
	})
	mux.Handle("/", httplimit.New(guard)(reads))
	mux.Handle("/field", httplimit.ByIP(stint.PerHour(4),
		httplimit.AndBy("account", httplimit.JSONField("email"), stint.PerHour(4)))(reads))
	s := httptest.NewServer(mux)
	defer s.Close()
	for _, path := range []string{"/derived", "/metered", "/injected", "/field"} {
		resp, err := s.Client().Post(s.URL+path, "application/json",
			strings.NewReader(`{"model": "a", "stream": true, "email": "ann@example.com"}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || err != nil || string(got) != "<nil>" {
			t.Errorf("%s: got %s, %q, %v; want the end of the body", path, resp.Status, got, err)
		}
	}
}
