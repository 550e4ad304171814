package proxies

import (
	"net/http"
	"strings"
	"testing"
)

// testOutage ends stint: requests go on, as docs/proxies.md says. When it is back they are limited.
func testOutage(t *testing.T, s *site) {
	c := client{s, "127.0.0.11"}
	unlimited := func(t *testing.T, n int) {
		s.application.take()
		for range n {
			a := c.curl(t, "/things", "--data", "hello")
			wantStatus(t, a, http.StatusOK)
			if got := a.Header.Values("X-RateLimit-Limit"); got != nil {
				t.Errorf("X-RateLimit-Limit: got %q, want none", got)
			}
		}
		got := s.application.take()
		if len(got) != n {
			t.Errorf("the application got %d requests, want %d", len(got), n)
		}
		for _, r := range got {
			if r.body != "hello" || r.header.Get("X-User-ID") != "" {
				t.Errorf("the application got %q from %q, want what the client sent", r.body, r.header.Get("X-User-ID"))
			}
		}
	}
	s.stint.Pause(t)
	t.Run("silent", func(t *testing.T) { unlimited(t, 1) }) // each of them waits
	s.stint.Kill()
	t.Run("gone", func(t *testing.T) { unlimited(t, anonymousLimit+2) })
	s.stint.Start(t)
	c.exhaust(t, anonymousLimit, "/things")
	wantStatus(t, c.curl(t, "/things"), http.StatusTooManyRequests)
}

// testClosed ends stint where the configuration has been changed as its comments say: requests are
// refused until it is back.
func testClosed(t *testing.T, s *site, status int) {
	c := client{s, "127.0.0.2"}
	wantStatus(t, c.curl(t, "/things"), http.StatusOK)
	s.application.take()
	refused := func(t *testing.T) {
		wantStatus(t, c.curl(t, "/things"), status)
		if got := s.application.take(); len(got) != 0 {
			t.Errorf("the application got %d requests, want none", len(got))
		}
	}
	s.stint.Pause(t)
	t.Run("silent", refused)
	s.stint.Kill()
	t.Run("gone", refused)
	s.stint.Start(t)
	wantStatus(t, c.curl(t, "/things"), http.StatusOK)
}

// testNoStore has stint refuse because its store is down: clients are told, and it is not taken for
// an outage of stint.
func testNoStore(t *testing.T, s *site) {
	a := client{s, "127.0.0.2"}.curl(t, "/things")
	wantStatus(t, a, http.StatusServiceUnavailable)
	wantFields(t, a, "Retry-After")
	if want := `{"error":"unavailable",`; !strings.HasPrefix(a.body, want) {
		t.Errorf("body: got %q, want it to begin with %s", a.body, want)
	}
	if got := s.application.take(); len(got) != 0 {
		t.Errorf("the application got %d requests, want none", len(got))
	}
}

// testUntrusted has stint not listen to the proxy, which is a mistake in the configuration and no
// outage.
func testUntrusted(t *testing.T, s *site) {
	wantStatus(t, client{s, "127.0.0.2"}.curl(t, "/things"), http.StatusForbidden)
	if got := s.application.take(); len(got) != 0 {
		t.Errorf("the application got %d requests, want none", len(got))
	}
}
