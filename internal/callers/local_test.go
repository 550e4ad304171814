package callers_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/callers"
)

func TestLocal(t *testing.T) {
	for _, test := range []struct {
		peer, host, field string
		unix              bool
		want              bool
		name              string
	}{
		{"127.0.0.1:1", "localhost:8080", "", false, true, "127.0.0.1"},
		{"127.0.0.1:1", "127.0.0.1:8080", "", false, true, "127.0.0.1"},
		{"[::1]:1", "[::1]", "", false, true, "::1"},
		{"203.0.113.9:1", "localhost", "", false, false, "203.0.113.9"},
		{"127.0.0.1:1", "rebound.example", "", false, false, "127.0.0.1"},
		{"127.0.0.1:1", "localhost", "X-Forwarded-For: 203.0.113.9", false, false, "127.0.0.1"},
		{"127.0.0.1:1", "localhost", "X-Real-Ip: 203.0.113.9", false, false, "127.0.0.1"},
		{"127.0.0.1:1", "localhost", "Forwarded: for=203.0.113.9", false, false, "127.0.0.1"},
		{"127.0.0.1:1", "localhost", "Via: 1.1 proxy", false, false, "127.0.0.1"},
		{"", "localhost", "", false, false, "unix"},
		{"203.0.113.9:1", "stint", "", true, true, "unix"}, // a client chooses the name of its end of a socket
		{"@", "stint", "X-Forwarded-For: 203.0.113.9", true, false, "unix"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Host = test.peer, test.host
		if name, value, ok := strings.Cut(test.field, ": "); ok {
			r.Header.Set(name, value)
		}
		if test.unix {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
				&net.UnixAddr{Name: "s", Net: "unix"}))
		}
		if got := callers.Local(r); got != test.want {
			t.Errorf("%+v: got %t", test, got)
		}
		if got := callers.Peer(r); got != test.name {
			t.Errorf("%+v: the peer is %q", test, got)
		}
	}
}

func TestCrossSite(t *testing.T) {
	for _, test := range []struct {
		method, site, mode, origin string
		cross, navigates           bool
	}{
		{"GET", "", "", "", false, false}, // not from a browser
		{"POST", "", "", "", false, false},
		{"GET", "same-origin", "cors", "", false, false},
		{"POST", "same-origin", "cors", "http://stint.example:6070", false, false},
		{"POST", "same-origin", "cors", "http://behind-a-proxy.example", false, false},
		{"GET", "none", "navigate", "", false, true},
		{"GET", "cross-site", "navigate", "", true, true},
		{"GET", "same-site", "navigate", "", true, true},
		{"POST", "cross-site", "navigate", "https://evil.example", true, false},
		{"GET", "cross-site", "no-cors", "", true, false},
		{"GET", "cross-site", "cors", "https://evil.example", true, false},
		{"GET", "same-site", "cors", "", true, false},
		// From browsers that do not send Sec-Fetch-Site, or do not send it without TLS.
		{"POST", "", "", "http://stint.example:6070", false, false},
		{"POST", "", "", "http://stint.example:6071", true, false},
		{"GET", "", "", "https://evil.example", true, false},
		{"POST", "", "", "null", true, false},
	} {
		r := httptest.NewRequest(test.method, "http://stint.example:6070/", nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": test.site, "Sec-Fetch-Mode": test.mode,
			"Origin": test.origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if cross, navigates := callers.CrossSite(r), callers.Navigates(r); cross != test.cross ||
			navigates != test.navigates {
			t.Errorf("%+v: got %t, %t", test, cross, navigates)
		}
	}
}
