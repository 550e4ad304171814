package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

func get(path string) policy.Input {
	return policy.Input{Method: "GET", Host: "example.com", Path: path, Peer: client, Header: http.Header{}}
}

// admitted counts how many of n equal requests are allowed.
func (w *world) admitted(n int, in policy.Input) int {
	w.t.Helper()
	count := 0
	for range n {
		if w.judge(in).Decision.Allowed {
			count++
		}
	}
	return count
}

// TestEveryPolicyThatMatches applies, all or nothing.
func TestEveryPolicyThatMatches(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 10/1m}]
policies:
  - {name: search, match: {path: /search}, limits: 3/1m}
  - {name: site, identity: everyone, limits: 8/1m}
`)
	if got := w.admitted(5, get("/search")); got != 3 {
		t.Fatalf("search admits %d, want 3", got)
	}
	// Denials charged nothing: 7 of the tier's 10 and 5 of the site's 8 are left.
	if got := w.admitted(9, get("/other")); got != 5 {
		t.Errorf("others admit %d, want 5: the site's", got)
	}
	v := w.judge(get("/other"))
	if rule, _ := v.Decisive(); rule.Name() != "site" {
		t.Errorf("denied by %q, want the site", rule.Name())
	}
	stranger := get("/other")
	stranger.Peer = netip.MustParseAddr("198.51.100.1")
	if w.judge(stranger).Decision.Allowed {
		t.Error("the site's limit is not everyone's")
	}
}

func TestFirstThatSaysSo(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m, budget: 100/1m}]
policies:
  - {name: always, limits: 1000/1m}
  - {name: export, match: {path: /files/export}, cost: 7}
  - {name: files, match: {path: /files/**}, cost: 2, limits: 1000/1m}
`)
	tests := []struct {
		path, route string
		cost        int64
		rules       string
	}{
		{"/files/export", "export", 7, "[anyone anyone always files]"},
		{"/files/x", "files", 2, "[anyone anyone always files]"},
		{"/x", "", 1, "[anyone anyone always]"},
	}
	for _, test := range tests {
		v := w.judge(get(test.path))
		var names []string
		for _, r := range v.Rules() {
			names = append(names, r.Name())
		}
		if v.Route != test.route || v.Cost != test.cost || fmt.Sprint(names) != test.rules {
			t.Errorf("%s: route %q, cost %d, rules %v; want %q, %d, %s", test.path, v.Route, v.Cost, names, test.route, test.cost, test.rules)
		}
	}
}

// TestSkip exempts what is listed, and nothing that merely looks like it.
func TestSkip(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 0/1m}]
policies:
  - {name: assets, match: {path: [/static/**, /site/*.css]}, skip: true}
`)
	for path, want := range map[string]string{
		"/static/x.js": "assets", "/static": "assets", "/static/": "assets", "/site/a.css": "assets", "/static//x.js": "assets",
		"//static/x.js": "", "/static/./../static/x": "assets", "/api/../static/x": "", "/api/x.js": "", "/static/../api": "", "/api;/static/x": "", "/api/static/x": "", "/site/a/b.css": "", "/api?x=.css": "", "/Static/x": "",
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
			in.Peer, in.Header, in.Claims = netip.MustParseAddr("192.0.2.1"), http.Header{"X-Role": {"admin"}}, claims{"role": "user"}
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

// TestTwoReadings: a path that others may read otherwise is limited by either reading, and exempt only in both.
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
		scope  string // of the policy "dear"
	}{
		{"/static/x%20y", true, 0, ""},
		{"/items/..%2Fstatic%2Fx", false, 1, ""},
		{"/items/%2e%2e/static/x", false, 1, ""},
		{"/items/../static/x", false, 1, ""},
		{"/items/5%2f..%2f..%2fstatic%2fx", false, 1, ""},
		{"/items/a%2Fb/pdf", false, 9, "dear:a%252Fb"},
		{"/items/7/pdf", false, 9, "dear:7"},
		{"/items/7%2Fpdf", false, 9, "dear:7"},
	}
	for _, test := range tests {
		u, err := url.Parse(test.target)
		if err != nil {
			t.Fatal(err)
		}
		in := get(u.Path)
		in.RawPath = u.RawPath
		e := w.Set().Explain(&in)
		scope := ""
		for _, c := range e.Counts {
			if c.Rule.Policy == "dear" {
				scope = strings.TrimPrefix(c.Key, "ip:203.0.113.9:")
			}
		}
		if (e.Skipped != "") != test.skips || e.Cost != test.cost || scope != test.scope {
			t.Errorf("%s: skipped by %q, cost %d, scope %q; want %+v", test.target, e.Skipped, e.Cost, scope, test)
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

// TestTwoClaimLines: a claim that stands in two lines may be the client's own.
func TestTwoClaimLines(t *testing.T) {
	w := newWorld(t, `
client_ip: {trusted_proxies: 203.0.113.0/24}
claims: {user: X-User-ID}
tiers:
  - {name: signed-in, identity: user, limits: 10/1m}
  - {name: anonymous, identity: ip, limits: 10/1m}
`)
	for values, want := range map[string]string{"mallory": "signed-in", "victim|mallory": "anonymous", "": "anonymous"} {
		in := get("/")
		in.Header = http.Header{"X-User-Id": strings.Split(values, "|")}
		if got := w.judge(in).Tier; got != want {
			t.Errorf("%q: tier %q, want %q", values, got, want)
		}
	}
}

// TestF10SpoofedClient: a header changes nothing unless a trusted proxy wrote it.
func TestF10SpoofedClient(t *testing.T) {
	w := newWorld(t, `
client_ip: {trusted_proxies: [10.0.0.0/8]}
tiers: [{name: anyone, identity: ip, limits: 3/1m}]
`)
	n := 0
	for i := range 20 {
		in := get("/")
		lie := fmt.Sprintf("192.0.2.%d", i)
		in.Header = http.Header{"X-Forwarded-For": {lie}, "X-Real-Ip": {lie}, "Forwarded": {"for=" + lie}}
		if w.judge(in).Decision.Allowed {
			n++
		}
	}
	if n != 3 {
		t.Errorf("a liar got %d, want 3", n)
	}
	n = 0
	for i := range 20 {
		in := get("/")
		in.Peer = netip.MustParseAddr("10.0.0.1")
		in.Header = http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d, 198.51.100.7, 10.0.0.2", i)}}
		if w.judge(in).Decision.Allowed {
			n++
		}
	}
	if n != 3 {
		t.Errorf("a liar behind a trusted proxy got %d, want 3", n)
	}
}

// TestF28AddressForms: one subject per prefix, and mapped is IPv4.
func TestF28AddressForms(t *testing.T) {
	w := newWorld(t, `tiers: [{name: anyone, identity: ip, limits: 1000/1m}]`)
	for a, want := range map[string]string{
		"::ffff:203.0.113.9":                    "ip:203.0.113.9:global",
		"2001:db8:1:2::1":                       "ip:2001:db8:1:2::/64:global",
		"2001:db8:1:2:ffff:ffff:ffff:ffff%eth0": "ip:2001:db8:1:2::/64:global",
	} {
		in := get("/")
		in.Peer = netip.MustParseAddr(a)
		v := w.judge(in)
		if got := v.Decision.Key(); got != want {
			t.Errorf("%s: got %q, want %q", a, got, want)
		}
	}
}

// TestMissingIdentity falls to the identity that is named, in tiers and in policies.
func TestMissingIdentity(t *testing.T) {
	w := newWorld(t, `
identities:
  apikey: {header: X-API-Key}
  device: {all: [ip, print]}
  print: {header: X-Print, plain: true}
tiers:
  - {name: keyed, identity: apikey, limits: 1000/1m}
  - {name: rest, identity: ip, limits: 1000/1m}
policies:
  - {name: p, identity: [device, ip], limits: 1000/1m}
`)
	tests := []struct {
		header http.Header
		want   string
	}{
		{nil, "[ip:203.0.113.9:global ip:203.0.113.9:p]"},
		{http.Header{"X-Api-Key": {""}}, "[ip:203.0.113.9:global ip:203.0.113.9:p]"},
		{http.Header{"X-Print": {"a+b%"}}, "[ip:203.0.113.9:global device:203.0.113.9+a%2bb%25:p]"},
		{http.Header{"X-Api-Key": {"k"}, "X-Print": {"x"}}, "[apikey:8254c329a92850f6d539dd376f4816ee:global device:203.0.113.9+x:p]"},
	}
	for _, test := range tests {
		in := get("/")
		in.Header = test.header
		var keys []string
		for _, c := range w.Set().Explain(&in).Counts {
			keys = append(keys, c.Key)
		}
		if got := fmt.Sprint(keys); got != test.want {
			t.Errorf("%v: got %s, want %s", test.header, got, test.want)
		}
	}
}

// TestUnknownClient: a peer without an address is not believed, has a name, and somebody is told.
func TestUnknownClient(t *testing.T) {
	var logged strings.Builder
	w := newWorld(t, `tiers: [{name: anyone, identity: ip, limits: 1/1m}]`)
	g := w.withLog(&logged)
	in := get("/")
	in.Peer, in.Header = netip.Addr{}, http.Header{"X-Forwarded-For": {"192.0.2.1"}}
	v := new(policy.Verdict)
	if err := g.Decide(context.Background(), &in, v); err != nil {
		t.Fatal(err)
	}
	if v.Decision.Key() != "ip:unknown:global" || !strings.Contains(logged.String(), "client_ip.trusted_proxies") {
		t.Errorf("key %q, log %q", v.Decision.Key(), logged.String())
	}
}

// TestPer divides a policy's count, and nothing that a caller writes makes two of them one.
func TestPer(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m}]
policies:
  - {name: orgs, match: {path: "/orgs/{org}/teams/{team}"}, per: [org, team, method], limits: 1/1m}
`)
	if got := w.admitted(3, get("/orgs/a/teams/b")); got != 1 {
		t.Errorf("one team admits %d, want 1", got)
	}
	seen := map[string]bool{}
	for _, in := range []policy.Input{
		get("/orgs/a/teams/b"), get("/orgs/a:b/teams/c"), get("/orgs/a/teams/b:c"), get("/orgs/a%3ab/teams/c"),
		{Method: "POST", Path: "/orgs/a/teams/b", Peer: client}, {Method: "XYZZY", Path: "/orgs/a/teams/b", Peer: client},
	} {
		key := w.Set().Explain(&in).Counts[1].Key
		if seen[key] {
			t.Errorf("%s %s shares the key %q", in.Method, in.Path, key)
		}
		seen[key] = true
	}
	strange, stranger := get("/orgs/a/teams/b"), get("/orgs/a/teams/b")
	strange.Method, stranger.Method = "XYZZY", "PLUGH"
	if a, b := w.Set().Explain(&strange).Counts[1].Key, w.Set().Explain(&stranger).Counts[1].Key; a != b {
		t.Errorf("invented methods have counts of their own: %q and %q", a, b)
	}
}

func TestTierLimitsInPolicies(t *testing.T) {
	w := newWorld(t, `
tiers:
  - {name: pro, match: {claim: {plan: pro}}, identity: user, limits: unlimited}
  - {name: free, identity: user, limits: unlimited}
  - {name: anonymous, identity: ip, limits: unlimited}
policies:
  - name: search
    limits: {pro: unlimited, free: 4/1m, default: 2/1m}
`)
	for _, test := range []struct {
		claims claims
		want   int
	}{{claims{"user": "1", "plan": "pro"}, 10}, {claims{"user": "1"}, 4}, {nil, 2}} {
		in := get("/")
		in.Claims = test.claims
		if got := w.admitted(10, in); got != test.want {
			t.Errorf("%v: admitted %d, want %d", test.claims, got, test.want)
		}
	}
}

// TestF25LimitChanged: a new limit counts from the next decision on, with the history kept.
func TestF25LimitChanged(t *testing.T) {
	config := `tiers: [{name: anyone, identity: ip, limits: 5/1m}]`
	w := newWorld(t, config)
	if got := w.admitted(9, get("/")); got != 5 {
		t.Fatalf("admitted %d, want 5", got)
	}
	for _, step := range []struct {
		limit string
		want  int
	}{{"8/1m", 3}, {"3/1m", 0}, {"10/1m", 2}} {
		set, err := policy.Parse("stint.yaml", []byte(edit(t, config, "5/1m", step.limit)))
		if err != nil {
			t.Fatal(err)
		}
		w.Swap(set)
		if got := w.admitted(9, get("/")); got != step.want {
			t.Errorf("%s: admitted %d more, want %d", step.limit, got, step.want)
		}
	}
}

func TestRequestID(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 2/1m}]
request_id: {header: Idempotency-Key}
`)
	in := get("/")
	in.Header = http.Header{"Idempotency-Key": {strings.Repeat("k", 300)}}
	if got := w.admitted(5, in); got != 5 {
		t.Errorf("one request, sent five times: admitted %d, want 5", got)
	}
	other := in
	other.Path = "/elsewhere"
	if got := w.admitted(5, other); got != 5 {
		t.Errorf("the same id for another request: admitted %d, want 5, of which one is charged", got)
	}
	if got := w.admitted(5, get("/")); got != 0 {
		t.Errorf("others: admitted %d, want none: two were charged", got)
	}
}

// TestRequestIDOfARoute is for that route alone.
func TestRequestIDOfARoute(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, scope: route, limits: 1/1m}]
policies: [{name: pay, match: {path: /pay}, request_id: {header: Idempotency-Key}}]
`)
	for path, want := range map[string]int{"/pay": 4, "/other": 1} {
		in := get(path)
		in.Header = http.Header{"Idempotency-Key": {"k"}}
		if got := w.admitted(4, in); got != want {
			t.Errorf("%s: admitted %d, want %d", path, got, want)
		}
	}
}

// TestBans: who keeps being denied is banned, but never everybody at once.
func TestBans(t *testing.T) {
	w := newWorld(t, `
tiers:
  - {name: trusted, identity: user, limits: 1/1m, bans: {after: 0}}
  - {name: anyone, identity: ip, limits: 5/1m}
policies:
  - {name: site, match: {path: /site}, identity: everyone, limits: 2/1m}
bans: {after: 3, within: 1m, durations: [10m]}
`)
	for range 10 {
		w.judge(get("/site"))
	}
	if v := w.judge(get("/")); !v.Decision.Allowed {
		t.Errorf("denied because of a limit that everyone shares: %+v", v.Decision)
	}
	for range 20 {
		w.judge(get("/"))
	}
	v := w.judge(get("/"))
	if !v.Decision.Banned || v.Decision.RetryAfter != 10*time.Minute {
		t.Errorf("not banned for 10m: %+v", v.Decision)
	}
	in := get("/")
	in.Claims = claims{"user": "1"}
	for range 20 {
		if w.judge(in).Decision.Banned {
			t.Fatal("the tier without bans bans")
		}
	}
}

func TestShadowAndRollout(t *testing.T) {
	const config = `
tiers: [{name: anyone, identity: user, limits: unlimited}, {name: nobody, identity: ip, limits: 0/1m}]
policies:
  - {name: new, limits: 2/1m, shadow: true}
`
	w := newWorld(t, config)
	in := get("/")
	in.Claims = claims{"user": "1"}
	shadowed := 0
	for range 10 {
		v := w.judge(in)
		if !v.Decision.Allowed {
			t.Fatal("denied by a policy in shadow")
		}
		shadowed += len(v.Shadowed)
	}
	if shadowed != 8 {
		t.Errorf("%d would have been denied, want 8", shadowed)
	}

	enforcedFor := func(share string) map[string]bool {
		w := newWorld(t, edit(t, config, "shadow: true", "rollout: "+share))
		enforced := map[string]bool{}
		for i := range 2000 {
			in := get("/")
			in.Claims = claims{"user": fmt.Sprint(i)}
			if w.admitted(3, in) == 2 {
				enforced[fmt.Sprint(i)] = true
			}
		}
		return enforced
	}
	if near := enforcedFor("10%"); len(near) < 140 || len(near) > 260 {
		t.Errorf("enforced for %d of 2000, want about 200", len(near))
	}
	few, many := enforcedFor("5%"), enforcedFor("25%")
	if len(few) < 60 || len(few) > 140 || len(many) < 430 || len(many) > 570 {
		t.Errorf("enforced for %d and %d of 2000, want about 100 and 500", len(few), len(many))
	}
	for user := range few {
		if !many[user] {
			t.Errorf("user %s was in at 5%% and is out at 25%%", user)
		}
	}
	if n := len(enforcedFor("100%")); n != 2000 {
		t.Errorf("100%%: enforced for %d of 2000", n)
	}
}

// broken is a store that fails.
type broken struct{ stint.Store }

func (broken) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	return stint.Decision{}, &stint.StoreError{Op: "take", Kind: stint.KindTimeout, Err: errors.New(r.Failure.Mode.String())}
}

func TestFailurePerPolicy(t *testing.T) {
	set, err := policy.Parse("stint.yaml", []byte(`
failure: {mode: allow, budget: 20ms}
tiers:
  - {name: paying, identity: user, limits: 10/1m, failure: {mode: local}}
  - {name: anyone, identity: ip, limits: 10/1m}
policies:
  - {name: login, match: {path: /login}, failure: {mode: deny}}
  - {name: any, match: {path: /**}, failure: {mode: error, budget: 5ms}}
`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		in     policy.Input
		mode   stint.FailureMode
		budget time.Duration
	}{
		{get("/login"), stint.FailDeny, 20 * time.Millisecond},
		{get("/x"), stint.FailError, 5 * time.Millisecond},
	}
	for _, test := range tests {
		if got := set.Explain(&test.in).Failure; got.Mode != test.mode || got.Budget != test.budget {
			t.Errorf("%s: got %+v", test.in.Path, got)
		}
	}
	guard, err := policy.NewGuard(broken{}, set, policy.GuardConfig{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	in := get("/x")
	var v policy.Verdict
	if err := guard.Decide(context.Background(), &in, &v); stint.KindOf(err) != stint.KindTimeout {
		t.Errorf("got %v, want the store's error", err)
	}
}

// TestF34Names: whatever requests say, verdicts have the configuration's names, and logs are single lines without secrets.
func TestF34Names(t *testing.T) {
	var logged strings.Builder
	w := newWorld(t, `
identities: {apikey: {header: X-API-Key}}
tiers:
  - {name: keyed, identity: apikey, limits: 0/1m}
  - {name: user, identity: user, limits: 0/1m}
  - {name: rest, identity: ip, limits: 0/1m}
policies:
  - {name: things, match: {path: "/things/{id}"}, per: [id, method], limits: 10/1m}
`)
	g := w.withLog(&logged)
	names := map[string]bool{}
	for i := range 3000 {
		evil := fmt.Sprintf("sk_live_%d\"\n\r\x00level=ERROR msg=\x1b[31m{}", i)
		in := policy.Input{Method: evil, Host: evil, Path: "/things/" + evil, Peer: client}
		switch i % 3 {
		case 0:
			in.Header = http.Header{"X-Api-Key": {evil}}
		case 1:
			in.Claims = claims{"user": evil}
		}
		var v policy.Verdict
		if err := g.Decide(context.Background(), &in, &v); err != nil {
			t.Fatal(err)
		}
		rule, _ := v.Decisive()
		names[v.Tier+"/"+v.Route+"/"+rule.Name()] = true
	}
	if len(names) != 3 {
		t.Errorf("%d different names: %v", len(names), names)
	}
	lines := slices.Collect(strings.Lines(logged.String()))
	if len(lines) == 0 || len(lines) > 100 {
		t.Errorf("%d lines for 3000 denials", len(lines))
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "time=") || strings.Contains(line, "sk_live_") || strings.ContainsAny(line, "\r\x00\x1b") {
			t.Errorf("logged %q", line)
		}
	}
}
