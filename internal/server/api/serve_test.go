package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/api"
)

// TestCallers: without tokens, only callers on this host are served, and others learn what to do.
// Package callers tests which callers are on this host.
func TestCallers(t *testing.T) {
	const body = `{"subject":"a","tier":"free"}`
	for _, test := range []struct {
		public bool
		peer   string
		want   int
	}{{false, "127.0.0.1:1", 200}, {false, "203.0.113.9:1", 401}, {true, "203.0.113.9:1", 200}} {
		s := serve(t, guardtest.Memory(t), rules, func(c *api.Config) { c.Public = test.public })
		r := request("/v1/take", body)
		r.RemoteAddr, r.Host = test.peer, "localhost:8080"
		a := s.send(r, body)
		const remedy = "connections over loopback (localhost, 127.0.0.1) are served; start the server with --api-token-file, or"
		if a.Code != test.want || a.Code == 401 && (a.Header().Get("WWW-Authenticate") != "Bearer" || !strings.Contains(a.Body.String(), remedy)) {
			t.Errorf("%+v: got %d: %s", test, a.Code, a.Body)
		}
	}
}

func TestHTTP(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules)
	const good = `{"subject":"a","tier":"free"}`
	for _, test := range []struct {
		method, path, body, field string
		want                      int
	}{
		{"POST", "/v1/take", good, "", 200},
		{"POST", "/v1/take", good, "Content-Type: application/json; charset=UTF-8", 200},
		{"POST", "/v1/take", good, "Content-Type: application/json; charset=latin1", 415},
		{"POST", "/v1/take", good, "Content-Type: application/x-www-form-urlencoded", 415},
		{"POST", "/v1/take", good, "Content-Type: ", 415},
		{"POST", "/v1/take", good, "Content-Encoding: gzip", 415},
		{"GET", "/v1/take", "", "", 405},
		{"POST", "/v1/take/", good, "", 404},
		{"GET", "/openapi.json", "", "Authorization: none", 200},
		{"HEAD", "/openapi.json", "", "", 200},
		{"POST", "/v1/take", good[:len(good)-1] + strings.Repeat(" ", 64<<10-len(good)) + "}", "", 200},
		{"POST", "/v1/take", good + strings.Repeat(" ", 64<<10), "", 413},
		{"POST", "/v1/batch", `{"requests":[` + good + `]` + strings.Repeat(" ", 1<<20-200) + "}", "", 200},
		{"POST", "/v1/batch", good + strings.Repeat(" ", 1<<20), "", 413},
	} {
		r := httptest.NewRequest(test.method, test.path, strings.NewReader(test.body))
		r.Header.Set("Content-Type", "application/json")
		if name, value, ok := strings.Cut(test.field, ": "); ok {
			r.Header.Set(name, value)
		}
		a := s.send(r, test.body)
		if a.Code != test.want {
			t.Errorf("%s %s %s: got %d, want %d: %s", test.method, test.path, test.field, a.Code, test.want, a.Body)
		}
		if a.Code == 405 && a.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", test.method, test.path)
		}
	}
}

// F31: of a body that does not end no more is read than is allowed, and none of it from those who
// may not ask.
func TestF31EndlessBody(t *testing.T) {
	for _, test := range []struct {
		public bool
		want   int
		most   int64
	}{{true, 413, 128 << 10}, {false, 401, 0}} {
		s := serve(t, guardtest.Memory(t), rules, func(c *api.Config) { c.Public = test.public })
		body := &endless{}
		r := httptest.NewRequest(http.MethodPost, "/v1/take", body)
		r.ContentLength = -1
		r.Header.Set("Content-Type", "application/json")
		if a := s.send(r, ""); a.Code != test.want || body.read > test.most {
			t.Errorf("got %d after %d bytes; want %d after at most %d", a.Code, body.read, test.want, test.most)
		}
	}
}
