package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/routecheck"
)

func TestGateway(t *testing.T) {
	config := parsed(t, base+`gateway:
  routes:
    - {path: [/api/**, /v1/**/], upstream: "http://127.0.0.1:3000", strip_prefix: true, connect_timeout: 1s, response_timeout: 2m}
    - {host: [a.example.com, B.example.com], upstream: "h2c://[::1]:65535/base", rewrite_host: true}
    - {path: /**, upstream: "https://example.com"}
  connect_timeout: 2s
  response_timeout: 30s
  body_timeout: 5s
  min_body_rate: 1KiB
  send_timeout: 1m
  max_body: 10MiB
  unusual_paths: pass
`)
	api := Route{PathPrefix: "/api", Upstream: "http://127.0.0.1:3000", StripPrefix: true, DialTimeout: time.Second,
		ResponseHeaderTimeout: 2 * time.Minute}
	v1 := api
	v1.PathPrefix = "/v1"
	want := Gateway{
		Routes: []Route{
			api, v1,
			{Host: "a.example.com", Upstream: "h2c://[::1]:65535/base", RewriteHost: true},
			{Host: "B.example.com", Upstream: "h2c://[::1]:65535/base", RewriteHost: true},
			{Upstream: "https://example.com"},
		},
		DialTimeout: 2 * time.Second, ResponseHeaderTimeout: 30 * time.Second, BodyTimeout: 5 * time.Second,
		MinBodyRate: 1 << 10, SendTimeout: time.Minute, MaxBody: 10 << 20, PassUnusualPaths: true,
	}
	if got := config.Gateway; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for i, r := range config.Gateway.Routes {
		if err := routecheck.All(r.Host, r.PathPrefix, r.Upstream); err != nil {
			t.Errorf("route %d: %v", i, err)
		}
	}
	if got := parsed(t, base).Gateway; !reflect.DeepEqual(got, Gateway{}) {
		t.Errorf("without a section: got %+v; want nothing", got)
	}
}

// wrongGateways are sections with the one mistake in them, each on the fourth line.
var wrongGateways = []struct{ text, want string }{
	{"{}", `gateway: is empty; want routes, or leave it out`},
	{"{routes: []}", `gateway.routes: there are none; want at least one, such as {upstream: http://127.0.0.1:3000}, or leave it out`},
	{"{route: [{upstream: http://a}]}", `gateway.route: unknown key (did you mean "routes"?)`},
	{"{routes: {upstream: http://a}}", `gateway.routes: want a list, each element a mapping with keys such as host, path, upstream; got a mapping`},
	{"{routes: [{}]}", `gateway.routes[0]: has no upstream; want a URL such as http://127.0.0.1:3000`},
	{"{routes: [{upstream: localhost}]}", `gateway.routes[0].upstream: invalid upstream "localhost"; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
	{"{routes: [{upstream: 'localhost:3000'}]}", `gateway.routes[0].upstream: invalid upstream "localhost:3000"; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
	{`{routes: [{upstream: "http://a b"}]}`, `gateway.routes[0].upstream: invalid upstream: invalid character " " in host name; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
	{`{routes: [{upstream: "http://u:secret@a"}]}`, `gateway.routes[0].upstream: invalid upstream "http://u:xxxxx@a"; want it without user, query, fragment and dot segments`},
	{`{routes: [{upstream: "http://u:secret@a b"}]}`, `gateway.routes[0].upstream: invalid upstream, not shown because it may contain a password; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
	{`{routes: [{upstream: "http://u:sec#ret@a"}]}`, `gateway.routes[0].upstream: invalid upstream, not shown because it may contain a password; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
	{`{routes: [{upstream: "http://u:123456/7@a"}]}`, `gateway.routes[0].upstream: invalid upstream, not shown because it may contain a password; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
	{`{routes: [{upstream: "u:secret@a"}]}`, `gateway.routes[0].upstream: invalid upstream, not shown because it may contain a password; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
	{`{routes: [{upstream: "http://a/b?token=secret"}]}`, `gateway.routes[0].upstream: invalid upstream "http://a/b"; want it without user, query, fragment and dot segments`},
	{"{routes: [{upstream: http://a/../b}]}", `gateway.routes[0].upstream: invalid upstream "http://a/../b"; want it without user, query, fragment and dot segments`},
	{"{routes: [{upstream: http://a:65536}]}", `gateway.routes[0].upstream: the upstream "http://a:65536" has the port 65536; want 1 to 65535`},
	{"{routes: [{upstream: http://a:0}]}", `gateway.routes[0].upstream: the upstream "http://a:0" has the port 0; want 1 to 65535`},
	{"{routes: [{upstream: http://a, host: a:80}]}", `gateway.routes[0].host: invalid host "a:80"; want a name without port or wildcard, such as api.example.com`},
	{`{routes: [{upstream: http://a, host: [a, "*.b"]}]}`, `gateway.routes[0].host[1]: invalid host "*.b"; want a name without port or wildcard, such as api.example.com`},
	{"{routes: [{upstream: http://a, path: /api}]}", `gateway.routes[0].path: "/api"; a route matches everything below a path; want something like /api/**`},
	{`{routes: [{upstream: http://a, path: "/users/{id}/**"}]}`, `gateway.routes[0].path: "/users/{id}/**"; a route matches everything below a path; want something like /api/**`},
	{"{routes: [{upstream: http://a, path: api/**}]}", `gateway.routes[0].path: path "api/**" does not begin with /; want something like /users/{id}, /static/** or /**/*.css`},
	{"{routes: [{upstream: http://a, strip_prefix: true}]}", `gateway.routes[0].strip_prefix: has no effect without a path`},
	{"{routes: [{upstream: http://a}, {upstream: http://b, path: /**}]}", `gateway.routes[1]: another route has the same host and path, at stint.yaml:4; want one route for both`},
	{"{routes: [{upstream: http://a, host: [A.example, b.example, a.example]}]}", `gateway.routes[0]: another route has the same host and path, at stint.yaml:4; want one route for both`},
	{"{routes: [{upstream: http://a, path: [/a, /b/**]}, {upstream: http://a}]}", `gateway.routes[0].path[0]: "/a"; a route matches everything below a path; want something like /api/**`},
	{"{routes: [{upstream: http://a, host: [" + numbered("a%d.example", 40) + "], path: [" +
		numbered("/p%d/**", 40) + "]}]}",
		`gateway.routes[0]: more than 1000 routes so far, counting every host with every path; want fewer`},
	{"{body_timeout: 0s}", `gateway.body_timeout: must be longer than 0s; want something like 10s`},
	{"{body_timeout: 10}", `gateway.body_timeout: 10 has no unit; want a duration such as 15ms, 1m30s, 1h or 1d`},
	{"{min_body_rate: 0}", `gateway.min_body_rate: want a number of bytes such as 1024, 1KiB or 1MB; got "0"`},
	{"{send_timeout: 0s}", `gateway.send_timeout: must be longer than 0s; want something like 10s`},
	{"{unusual_paths: deny}", `gateway.unusual_paths: "deny"; want refuse or pass`},
	{"{max_body: 0}", `gateway.max_body: want a number of bytes such as 1024, 1KiB or 1MB; got "0"`},
	{"{routes: [{upstream: http://a, response_timeout: 0s}]}", `gateway.routes[0].response_timeout: must be longer than 0s; want something like 10s`},
}

// numbered returns a list of n texts.
func numbered(format string, n int) string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(texts, ", ")
}

func TestGatewayMistakes(t *testing.T) {
	for _, test := range wrongGateways {
		_, err := Parse("stint.yaml", []byte(base+"gateway:\n  "+test.text+"\n"))
		if err == nil {
			t.Errorf("%s: no mistake; want %s", test.text, test.want)
			continue
		}
		// A section's own mistakes stand at its key, those of what is in it on the line below.
		got := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "stint.yaml:3: "), "stint.yaml:4: ")
		if got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.text, got, test.want)
		}
	}
}
