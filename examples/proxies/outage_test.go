package proxies

import (
	"net/http"
	"strings"
	"testing"
)

// testOutage ends stint: requests go on, as docs/proxies.md says, but for logins, which are refused
// with a status. When it is back they are limited.
func testOutage(t *testing.T, s *site, refused int) {
	c := client{s, "127.0.0.11"}
	unlimited := func(t *testing.T, n int) {
		s.application.take()
		for range n {
			a := c.curl(t, "/things", "--data", "hello")
			wantStatus(t, a, http.StatusOK)
			wantFields(t, a, "X-RateLimit-Limit:")
		}
		for _, r := range s.application.arrived(t, n) {
			if r.body != "hello" || r.header.Get("X-User-ID") != "" {
				t.Errorf("the application got %q from %q, want what the client sent", r.body, r.header.Get("X-User-ID"))
			}
		}
	}
	s.stint.Pause(t)
	t.Run("silent", func(t *testing.T) { // each of them waits
		unlimited(t, 1)
		wantLogin(t, c, "POST", "/login", refused)
	})
	s.stint.Kill()
	t.Run("gone", func(t *testing.T) {
		unlimited(t, anonymousLimit+2)
		for _, path := range []string{
			"/login", "/login?a=b", "/LOGIN", "/login/", "/%6cogin", "/%256cogin", "/login.a7", "/index.php/login",
			"//x/login", "/x/../login", "/x%2f..%2flogin", "/log;x/in", "/log%09in", `/x\..\login`, "/api/v1/login",
			"/a%20b", "/to%E2%84%AAen", "/login/../x", "/login%23/../x", "/login%3Fa/../x", "/login;a/../x",
		} {
			wantLogin(t, c, "POST", path, refused)
		}
		wantLogin(t, c, "PUT", "/login", refused)
		wantLogin(t, c, "GET", "/login", http.StatusOK)
		wantLogin(t, c, "GET", "/a%20b", http.StatusOK)
		wantLogin(t, c, "POST", "/things?next=/login&q=%20", http.StatusOK)
		wantLogin(t, c, "DELETE", "/api/v1/things/a_b-c.d~e/", http.StatusOK)
	})
	s.stint.Start(t)
	c.exhaust(t, anonymousLimit, "/things")
	wantStatus(t, c.curl(t, "/things"), http.StatusTooManyRequests)
}

// wantLogin makes a request without stint. The application gets it if its status is to be 200.
func wantLogin(t *testing.T, c client, method, target string, status int) {
	t.Helper()
	c.site.application.take()
	a := c.curl(t, target, "--path-as-is", "--request", method)
	arrived := len(c.site.application.take())
	if a.StatusCode != status || arrived > 0 != (status == http.StatusOK) {
		t.Errorf("%s %s: got status %d, and it arrived %d times; want %d", method, target, a.StatusCode, arrived, status)
	}
}

// testClosed ends stint where the configuration has been changed as its comments say: requests are
// refused until it is back.
func testClosed(t *testing.T, s *site, status int) {
	c := client{s, "127.0.0.2"}
	wantStatus(t, c.curl(t, "/things"), http.StatusOK)
	s.application.take()
	refused := func(t *testing.T) {
		wantStatus(t, c.curl(t, "/things"), status)
		s.application.arrived(t, 0)
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
	s.application.arrived(t, 0)
}

// testUntrusted has stint not listen to the proxy, which is a mistake in the configuration and no
// outage.
func testUntrusted(t *testing.T, s *site) {
	wantStatus(t, client{s, "127.0.0.2"}.curl(t, "/things"), http.StatusForbidden)
	s.application.arrived(t, 0)
}
