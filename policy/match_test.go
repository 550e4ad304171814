package policy_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/policy"
)

// TestSkip exempts what is listed, and nothing that merely looks like it.
func TestSkip(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 0/1m}]
policies:
  - {name: assets, match: {path: [/static/**, /site/*.css]}, skip: true}
`)
	for path, want := range map[string]string{
		"/static/x.js": "assets", "/static": "assets", "/static/": "assets", "/site/a.css": "assets",
		"/static//x.js": "assets",
		"//static/x.js": "", "/static/./../static/x": "assets", "/api/../static/x": "", "/api/x.js": "",
		"/static/../api": "", "/api;/static/x": "", "/api/static/x": "", "/site/a/b.css": "", "/api?x=.css": "",
		"/Static/x": "",
	} {
		if v := w.judge(get(path)); v.Skipped != want || v.Decision.Allowed != (want != "") {
			t.Errorf("%s: skipped by %q and allowed %v, want by %q", path, v.Skipped, v.Decision.Allowed, want)
		}
	}
}

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
	with := func(change func(*policy.Input)) policy.Input {
		in := get("/")
		change(&in)
		return in
	}
	header := func(h http.Header) policy.Input { return with(func(in *policy.Input) { in.Header = h }) }
	peer := func(a string, h http.Header) policy.Input {
		return with(func(in *policy.Input) { in.Peer, in.Header = netip.MustParseAddr(a), h })
	}
	tests := []struct {
		what string
		in   policy.Input
		want string
	}{
		{"nothing", get("/"), ""},
		{"host", with(func(in *policy.Input) { in.Host = "API.example.com.:8443" }), "host"},
		{"below a host", with(func(in *policy.Input) { in.Host = "a.b.internal" }), "host"},
		{"the host itself", with(func(in *policy.Input) { in.Host = "internal" }), ""},
		{"another host", with(func(in *policy.Input) { in.Host = "xapi.example.com" }), ""},
		{"method", with(func(in *policy.Input) { in.Method = "PUT" }), "method"},
		{"both headers", header(http.Header{"X-Debug": {"1"}, "X-Any": {"x"}}), "header"},
		{"one header", header(http.Header{"X-Debug": {"1"}}), ""},
		{"a wrong value", header(http.Header{"X-Debug": {"2"}, "X-Any": {"x"}}), ""},
		{"the application's claim", with(func(in *policy.Input) { in.Claims = claims{"role": "root"} }), "claim"},
		{"a trusted proxy's claim", peer("192.0.2.1", http.Header{"X-Role": {"admin"}}), "claim"},
		{"anybody's claim", header(http.Header{"X-Role": {"admin"}}), ""},
		{"the application's other claim", with(func(in *policy.Input) {
			in.Peer, in.Header, in.Claims = netip.MustParseAddr("192.0.2.1"), http.Header{"X-Role": {"admin"}}, claims{
				"role": "user"}
		}), ""},
		{"network", peer("::ffff:10.1.2.3", nil), "network"},
		{"network behind a proxy", peer("192.0.2.1", http.Header{"X-Forwarded-For": {"2001:db8::1"}}), "network"},
		{"network by a liar", peer("198.51.100.1", http.Header{"X-Forwarded-For": {"10.0.0.1"}}), ""},
		{"path", get("/a/c"), "unless"},
		{"exception", get("/a/b/"), ""},
	}
	for _, test := range tests {
		var matched string
		for _, p := range w.Set().Explain(&test.in).Policies {
			if p.Applies {
				matched += p.Name
			}
		}
		if matched != test.want {
			t.Errorf("%s: matched %q, want %q", test.what, matched, test.want)
		}
	}
}

// TestTwoReadings: a path that others may read otherwise is limited by either reading, and exempt
// only in both.
func TestTwoReadings(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m, budget: 1000/1m}]
policies:
  - {name: assets, match: {path: /static/**}, skip: true}
  - {name: cheap, match: {path: "/items/{id}"}, cost: 1}
  - {name: dear, match: {path: "/items/{id}/pdf"}, cost: 9, per: id, limits: 1000/1m}
`)
	tests := []struct {
		target string
		skips  bool
		cost   int64
		scope  string // one of the policy "dear"
	}{
		{"/static/x%20y", true, 0, ""},
		{"/items/..%2Fstatic%2Fx", false, 1, ""},
		{"/items/%2e%2e/static/x", false, 1, ""},
		{"/items/../static/x", false, 1, ""},
		{"/items/5%2f..%2f..%2fstatic%2fx", false, 1, ""},
		{"/items/a%2Fb/pdf", false, 9, "dear:a%252Fb"},
		{"/items/7/pdf", false, 9, "dear:7"},
		{"/items/7%2Fpdf", false, 9, "dear:7"},
		{"/items/7/pdf;v=1", false, 9, "dear:7"},
		{"/items/7;a/pdf", false, 9, "dear:7"},
		{"/items/7;a%2Fb/pdf;v", false, 9, "dear:7"},
		{"/static;/x", false, 1, ""},
		{"/static/..;/items/7", false, 1, ""},
	}
	for _, test := range tests {
		u, err := url.Parse(test.target)
		if err != nil {
			t.Fatal(err)
		}
		in := get(u.Path)
		in.RawPath = u.RawPath
		e := w.Set().Explain(&in)
		var scopes []string
		for _, c := range e.Results {
			if c.Rule.Policy == "dear" {
				scopes = append(scopes, strings.TrimPrefix(c.Key(), "ip:203.0.113.9:"))
			}
		}
		if (e.Skipped != "") != test.skips || e.Cost != test.cost || test.scope == "" && scopes != nil ||
			test.scope != "" && !slices.Contains(scopes, test.scope) {
			t.Errorf("%s: skipped by %q, cost %d, scopes %q; want %+v", test.target, e.Skipped, e.Cost, scopes, test)
		}
	}
}

// TestHeadIsGet: who may GET may HEAD, and is counted for it.
func TestHeadIsGet(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m}]
policies: [{name: search, match: {method: GET}, limits: 1/1m}]
`)
	in := get("/")
	in.Method = "HEAD"
	if got := w.admitted(3, in); got != 1 {
		t.Errorf("admitted %d, want 1", got)
	}
}

// TestRouteIsWhat is wanted, and not by whom: a header does not make another count.
func TestRouteIsWhat(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, scope: route, limits: 2/1m}]
policies:
  - {name: keys, match: {header: {X-API-Key: "*"}}, limits: 1000/1h}
`)
	in := get("/")
	in.Header = http.Header{"X-Api-Key": {"x"}}
	if got := w.admitted(3, get("/")) + w.admitted(3, in); got != 2 {
		t.Errorf("admitted %d, want 2", got)
	}
}

// TestRouteThatIsOnlyNamed is counted by itself under a tier or a policy that counts by route.
func TestRouteThatIsOnlyNamed(t *testing.T) {
	const search = `policies:
  - {name: search, match: {path: /search}}
`
	for name, text := range map[string]string{
		"tier":   "tiers: [{name: anyone, identity: ip, scope: route, limits: 2/1m}]\n" + search,
		"policy": "tiers: [{name: anyone, identity: ip, limits: unlimited}]\n" + search + "  - {name: each, per: route, limits: 2/1m}\n",
	} {
		w := newWorld(t, text)
		if got := w.admitted(3, get("/search")); got != 2 {
			t.Errorf("%s: admitted %d on the route, want 2", name, got)
		}
		if got := w.admitted(3, get("/")); got != 2 {
			t.Errorf("%s: admitted %d on others, want 2", name, got)
		}
	}
}
