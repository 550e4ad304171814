package policy_test

import (
	"cmp"
	"net/http"
	"net/netip"
	"testing"

	"github.com/stint-limiter/stint/policy"
)

// TestMatch is every key of a match.
func TestMatch(t *testing.T) {
	w := newWorld(t, `
client_ip: {trusted_proxies: 192.0.2.0/24}
claims: {role: X-Role}
tiers: [{name: anyone, identity: ip, limits: 1000/1m}]
policies:
  - {name: host, match: {host: [api.example.com, "*.internal"]}, limits: 1000/1m}
  - {name: method, match: {method: [PUT, DELETE]}, limits: 1000/1m}
  - {name: header, match: {header: {x-debug: "1", X-Any: "*"}}, limits: 1000/1m}
  - {name: claim, match: {claim: {role: [admin, root]}}, limits: 1000/1m}
  - {name: network, match: {network: [10.0.0.0/8, "2001:db8::/32"]}, limits: 1000/1m}
  - {name: unless, match: {path: /a/**}, unless: {path: /a/b}, limits: 1000/1m}
`)
	type input struct {
		method, host, path, peer string
		claims                   claims
		header                   http.Header
	}
	admin := http.Header{"X-Role": {"admin"}}
	for _, test := range []struct {
		what string
		in   input
		want string
	}{
		{"nothing", input{}, ""},
		{"host", input{host: "API.example.com.:8443"}, "host"},
		{"below a host", input{host: "a.b.internal"}, "host"},
		{"the host itself", input{host: "internal"}, ""},
		{"another host", input{host: "xapi.example.com"}, ""},
		{"method", input{method: "PUT"}, "method"},
		{"both headers", input{header: http.Header{"X-Debug": {"1"}, "X-Any": {"x"}}}, "header"},
		{"one header", input{header: http.Header{"X-Debug": {"1"}}}, ""},
		{"a wrong value", input{header: http.Header{"X-Debug": {"2"}, "X-Any": {"x"}}}, ""},
		{"the application's claim", input{claims: claims{"role": "root"}}, "claim"},
		{"a trusted proxy's claim", input{peer: "192.0.2.1", header: admin}, "claim"},
		{"an untrusted peer's claim", input{header: admin}, ""},
		{"a claim in two lines", input{peer: "192.0.2.1", header: http.Header{"X-Role": {"user", "admin"}}}, ""},
		{"the application's other claim", input{peer: "192.0.2.1", header: admin, claims: claims{"role": "user"}}, ""},
		{"network", input{peer: "::ffff:10.1.2.3"}, "network"},
		{"network behind a proxy", input{peer: "192.0.2.1", header: http.Header{"X-Forwarded-For": {"2001:db8::1"}}}, "network"},
		{"network by a liar", input{peer: "198.51.100.1", header: http.Header{"X-Forwarded-For": {"10.0.0.1"}}}, ""},
		{"path", input{path: "/a/c"}, "unless"},
		{"exception", input{path: "/a/b/"}, ""},
	} {
		in := getWith(cmp.Or(test.in.path, "/"), test.in.header)
		in.Method, in.Host = cmp.Or(test.in.method, "GET"), cmp.Or(test.in.host, "example.com")
		in.Peer = netip.MustParseAddr(cmp.Or(test.in.peer, client.String()))
		if test.in.claims != nil {
			in.Claims = test.in.claims
		}
		var matched string
		for _, p := range w.Set().Explain(&in, nil).Policies {
			if p.Applies {
				matched += p.Name
			}
		}
		if matched != test.want {
			t.Errorf("%s: matched %q, want %q", test.what, matched, test.want)
		}
	}
}

// TestCountedTogether: HEAD is counted as GET, and a route is what is requested, not by whom.
func TestCountedTogether(t *testing.T) {
	head := get("/search")
	head.Method = "HEAD"
	keyed := getWith("/", http.Header{"X-Api-Key": {"x"}})
	const byRoute = "tiers: [{name: anyone, identity: ip, scope: route, limits: 2/1m}]\n"
	const unlimited = "tiers: [{name: anyone, identity: ip, limits: unlimited}]\n"
	for _, test := range []struct {
		name, config string
		ins          []policy.Input
		want         int // admitted of three each
	}{
		{"method", unlimited + "policies: [{name: search, match: {method: GET}, limits: 2/1m}]", []policy.Input{get("/search"), head}, 2},
		{"header", byRoute + "policies: [{name: keys, match: {header: {X-API-Key: '*'}}, limits: 1000/1h}]",
			[]policy.Input{get("/"), keyed}, 2},
		{"route of a tier", byRoute + "policies: [{name: search, match: {path: /search}}]", []policy.Input{get("/search"), get("/")}, 4},
		{"route of a policy", unlimited + "policies: [{name: search, match: {path: /search}}, {name: each, per: route, limits: 2/1m}]",
			[]policy.Input{get("/search"), get("/")}, 4},
	} {
		w, got := newWorld(t, test.config), 0
		for _, in := range test.ins {
			got += w.admitted(3, in)
		}
		if got != test.want {
			t.Errorf("%s: admitted %d, want %d", test.name, got, test.want)
		}
	}
}

// TestPer: a policy's count is divided by values, which no spelling can make equal.
func TestPer(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m}]
policies:
  - {name: orgs, match: {path: "/orgs/{org}/teams/{team}"}, per: [org, team, method], limits: 1/1m}
`)
	if got := w.admitted(3, get("/orgs/a/teams/b")); got != 1 {
		t.Errorf("one team admits %d, want 1", got)
	}
	key := func(method, path string) string {
		in := get(path)
		in.Method = method
		return w.Set().Explain(&in, nil).Results[1].Key()
	}
	seen := map[string]bool{}
	for _, test := range [][2]string{
		{"GET", "/orgs/a/teams/b"}, {"GET", "/orgs/a:b/teams/c"}, {"GET", "/orgs/a/teams/b:c"},
		{"GET", "/orgs/a%3ab/teams/c"}, {"POST", "/orgs/a/teams/b"}, {"XYZZY", "/orgs/a/teams/b"},
	} {
		k := key(test[0], test[1])
		if seen[k] {
			t.Errorf("%v shares the key %q", test, k)
		}
		seen[k] = true
	}
	if a, b := key("XYZZY", "/orgs/a/teams/b"), key("PLUGH", "/orgs/a/teams/b"); a != b {
		t.Errorf("invented methods have counts of their own: %q and %q", a, b)
	}
}
