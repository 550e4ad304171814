package gateway_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/gateway"
)

func TestMistakesAreReportedTogether(t *testing.T) {
	_, err := gateway.New(guardOf(t, open), config.Gateway{
		Routes: []config.Route{
			{Upstream: "ftp://files"},
			{Upstream: "http://user:secret@host"},
			{Upstream: "http://host?query"},
			{Upstream: "http://host", PathPrefix: "api"},
			{Upstream: "http://host", PathPrefix: "/a/../b"},
			{Upstream: "http://host", Host: "host:80"},
			{Upstream: "http://host", Host: "Example.com", PathPrefix: "/a/"},
			{Upstream: "http://host", Host: "example.com", PathPrefix: "/a"},
			{Upstream: "http://host:70000", PathPrefix: "/port"},
			{Upstream: "http://host", PathPrefix: "/time", DialTimeout: -1},
		},
		Reserved:       []string{"X-User-ID", "X User"},
		DialTimeout:    -1,
		MaxBody:        -1,
		AccessLogEvery: -1,
	})
	if _, ok := errors.AsType[*stint.InvalidError](err); !ok {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	for _, want := range []string{
		`Routes[0]: invalid upstream "ftp://files"`, `Routes[1]: invalid upstream "http://user:xxxxx@host"`, `Routes[2]:`,
		`Routes[3]: invalid path prefix "api"`, `Routes[4]:`, `Routes[5]: invalid host "host:80"`,
		`Routes[7] is for the same host "example.com" and prefix "/a"`, `Routes[8]: the upstream "http://host:70000" has the port 70000; want 1 to 65535`,
		`Routes[9]: a timeout is below 0`, `Reserved[1] is "X User"`, "DialTimeout is below 0", "MaxBody is below 0",
		"AccessLogEvery is below 0",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not mentioned: %s", want)
		}
	}
	if got, want := strings.Count(err.Error(), "\n")+1, 13; got != want {
		t.Errorf("got %d mistakes, want %d:\n%v", got, want, err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is shown: %v", err)
	}
	_, err = gateway.New(guardOf(t, open), config.Gateway{})
	if _, ok := errors.AsType[*stint.InvalidError](err); !ok {
		t.Errorf("without routes: got %v, want an InvalidError", err)
	}
}

func TestRoutes(t *testing.T) {
	b := named(t, "b")
	g := serve(t, newGateway(t, open, config.Gateway{Routes: []config.Route{
		{PathPrefix: "/api", Upstream: named(t, "a"), StripPrefix: true},
		{PathPrefix: "/api/v2/", Upstream: b + "/base/", StripPrefix: true, RewriteHost: true},
		{PathPrefix: "/with space", Upstream: named(t, "c") + "/b%2Fc", StripPrefix: true},
		{PathPrefix: "/kept", Upstream: named(t, "d") + "/base"},
		{Host: "www.Example.com", Upstream: named(t, "e")},
		{Host: "api.example.com", PathPrefix: "/only", Upstream: named(t, "f")},
	}}))
	for _, c := range []struct{ host, path, want string }{
		{"x", "/api", "a x /"},
		{"x", "/api?q=1;r=%zz&s", "a x /?q=1;r=%zz&s"},
		{"x", "/api/users/a%2Fb", "a x /users/a%2Fb"},
		{"x", "/%61pi/users/a%2Fb", "a x /users/a%2Fb"},
		{"x", "/api/v2", "b " + strings.TrimPrefix(b, "http://") + " /base/"},
		{"x", "/api/v2/x", "b " + strings.TrimPrefix(b, "http://") + " /base/x"},
		{"x", "/with%20space/x%20y", "c x /b%2Fc/x%20y"},
		{"x", "/kept/x//y/", "d x /base/kept/x//y/"},
		{"WWW.example.com:8080", "/api/x", "e WWW.example.com:8080 /api/x"},
		{"www.example.com.", "/", "e www.example.com. /"},
		{"api.example.com", "/only/x", "f api.example.com /only/x"},
		{"api.example.com", "/api/x", "a api.example.com /x"},
		{"x", "/apis", ""},
		{"x", "/api%2Fx", ""},
		{"x", "/api/v2%2Fx", "a x /v2%2Fx"},
		{"x", "/", ""},
	} {
		resp, got := do(t, "GET", g.URL+c.path, nil, "Host: "+c.host)
		if c.want == "" {
			if resp.StatusCode != 404 || !strings.HasPrefix(got, `{"error":"no_route"`) ||
				resp.Header.Get("X-RateLimit-Remaining") == "" {
				t.Errorf("%s%s: got %d %s %v, want 404 and what is left", c.host, c.path, resp.StatusCode, got, resp.Header)
			}
		} else if got != c.want {
			t.Errorf("%s%s: got %q, want %q", c.host, c.path, got, c.want)
		}
	}
}
