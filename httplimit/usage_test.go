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

	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/policy"
)

// The time that a server gives requests is not prolonged by what is read of them before the
// decision.
func TestUsageKeepsReadTimeouts(t *testing.T) {
	guard, err := policy.NewGuard(memory(t), parse(t, `
tiers: [{name: all, identity: ip, budget: 1000000/1m}]
policies: [{name: chat, match: {path: /**}, usage: {preset: openai}}]
`), policy.GuardConfig{})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	reads := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		failed <- err
	})
	s := httptest.NewUnstartedServer(httplimit.New(guard)(reads))
	s.Config.ReadTimeout = 300 * time.Millisecond
	s.Start()
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
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
