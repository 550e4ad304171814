package proxies

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// testClaimedAddresses has a client say that it is another one each time (F10).
func testClaimedAddresses(t *testing.T, s *site) {
	c := client{s, "127.0.0.5"}
	for i := range anonymousLimit + 2 {
		address := fmt.Sprintf("203.0.113.%d", i)
		a := c.curl(t, "/things",
			"--header", "X-Forwarded-For: "+address, "--header", "X-Real-IP: "+address, "--header", "Forwarded: for="+address,
			"--header", "Connection: close, X-Forwarded-For") // would have a careless proxy drop its own
		want := http.StatusOK
		if i >= anonymousLimit {
			want = http.StatusTooManyRequests
		}
		wantStatus(t, a, want)
	}
}

// testExempt has a client ask for what is exempt. That it cannot only say so in a field is what
// [testStripped] shows.
func testExempt(t *testing.T, s *site) {
	c := client{s, "127.0.0.6"}
	for range anonymousLimit + 2 {
		a := c.curl(t, "/healthz")
		wantStatus(t, a, http.StatusOK)
		wantFields(t, a, "X-RateLimit-Limit:")
	}
}

// testClaimedStatus has a client choose the status of its refusal, which only the proxy may.
func testClaimedStatus(t *testing.T, s *site) {
	c := client{s, "127.0.0.11"}
	c.exhaust(t, anonymousLimit, "/things?deny=nothing")
	for _, path := range []string{"/things?deny=418", "/things?deny=nothing", "/things?deny=200"} {
		wantStatus(t, c.curl(t, path), http.StatusTooManyRequests)
	}
}

// testMalformed has a client send what an application could take for another request than the one
// that stint is asked about: without a host, which the application chooses then, with a host that
// it may cut, and with bytes that some servers take for spaces. The proxy refuses it, or encodes
// the bytes.
func testMalformed(t *testing.T, s *site) {
	c := client{s, "127.0.0.14"}
	s.application.take()
	for _, request := range []string{
		"GET /things HTTP/1.0\r\n\r\n",
		"GET /things HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
		"GET http:///things HTTP/1.0\r\n\r\n",
		"GET http:///things HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
		"GET /things HTTP/1.1\r\nHost: admin.example.com,x\r\nConnection: close\r\n\r\n",
		"GET /things HTTP/1.1\r\nHost: x,admin.example.com\r\nConnection: close\r\n\r\n",
		"GET /things HTTP/1.1\r\nHost: u@admin.example.com\r\nConnection: close\r\n\r\n",
	} {
		c.send(t.Context(), request)
		if got := s.application.take(); len(got) != 0 {
			t.Errorf("%q: the application got it", request)
		}
	}
	for _, space := range []string{"\x85", "\xa0"} {
		c.send(t.Context(), "POST /login"+space+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		for _, r := range s.application.take() {
			if strings.Contains(r.target, space) {
				t.Errorf("the application got %q", r.target)
			}
		}
	}
}

// testManyFields has a client send about as many header fields as a proxy takes, and then more. It
// is limited like any other, and the proxy survives it.
func testManyFields(t *testing.T, s *site) {
	c := client{s, "127.0.0.12"}
	var fields []string
	for i := range 120 {
		fields = append(fields, "--header", fmt.Sprintf("X-Field-%d: %d", i, i))
	}
	for n := 93; n <= 97; n++ { // HAProxy takes 101, with those of curl and its own
		a := c.curl(t, "/things", fields[:2*n]...)
		wantStatus(t, a, http.StatusOK)
		wantFields(t, a, aboutLimits...)
	}
	c.curl(t, "/things", fields...) // which HAProxy refuses
	wantFields(t, c.curl(t, "/things"), aboutLimits...)
}

// testUsers has somebody sign in, and others say that they have.
func testUsers(t *testing.T, s *site) {
	const field = "X-User-ID"
	tests := []struct {
		name  string
		args  []string
		tier  string
		limit int
		user  []string // as the application gets it
	}{
		{"anonymous", nil, "anonymous", anonymousLimit, nil},
		{"claimed", []string{"--header", field + ": alice"}, "anonymous", anonymousLimit, nil},
		{"wrong key", []string{"--header", "X-API-Key: alice"}, "anonymous", anonymousLimit, nil},
		{"another name", []string{"--header", "X_API_Key: alice-secret", "--header", "X.API.Key: alice-secret"},
			"anonymous", anonymousLimit, nil},
		{"signed in", []string{"--header", "X-API-Key: alice-secret"}, "users", userLimit, []string{"alice"}},
		{"signed in as another", []string{"--header", "X-API-Key: alice-secret", "--header", field + ": bob"}, "users",
			userLimit, []string{"alice"}},
	}
	c := client{s, "127.0.0.7"}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s.application.take()
			a := c.curl(t, "/things", test.args...)
			wantStatus(t, a, http.StatusOK)
			wantFields(t, a, "X-RateLimit-Tier: "+test.tier, fmt.Sprint("X-RateLimit-Limit: ", test.limit))
			if got := s.application.arrived(t, 1)[0].header.Values(field); !slices.Equal(got, test.user) {
				t.Errorf("%s: the application got %q, want %q", field, got, test.user)
			}
		})
	}
	// A user has one limit wherever the requests come from.
	elsewhere := client{s, "127.0.0.8"}.curl(t, "/things", "--header", "X-API-Key: alice-secret")
	wantFields(t, elsewhere, fmt.Sprint("X-RateLimit-Remaining: ", userLimit-3))
}
