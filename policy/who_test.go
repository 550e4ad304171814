package policy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/policy"
)

// TestTwoClaimLines: a claim that stands in two lines may be the client's own.
func TestTwoClaimLines(t *testing.T) {
	w := newWorld(t, `
client_ip: {trusted_proxies: 203.0.113.0/24}
claims: {user: X-User-ID}
tiers:
  - {name: signed-in, identity: user, limits: 10/1m}
  - {name: anonymous, identity: ip, limits: 10/1m}
`)
	for values, want := range map[string]string{"mallory": "signed-in", "victim|mallory": "anonymous",
		"": "anonymous"} {
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
		for _, c := range w.Set().Explain(&in).Results {
			keys = append(keys, c.Key())
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
		{Method: "POST", Path: "/orgs/a/teams/b", Peer: client},
		{Method: "XYZZY", Path: "/orgs/a/teams/b", Peer: client},
	} {
		key := w.Set().Explain(&in).Results[1].Key()
		if seen[key] {
			t.Errorf("%s %s shares the key %q", in.Method, in.Path, key)
		}
		seen[key] = true
	}
	strange, stranger := get("/orgs/a/teams/b"), get("/orgs/a/teams/b")
	strange.Method, stranger.Method = "XYZZY", "PLUGH"
	if a, b := w.Set().Explain(&strange).Results[1].Key(), w.Set().Explain(&stranger).Results[1].Key(); a != b {
		t.Errorf("invented methods have counts of their own: %q and %q", a, b)
	}
}

// TestUnknownIsNotBanned: those whose address nobody knows share a count, and are not banned for
// each other.
func TestUnknownIsNotBanned(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1/1m}]
bans: {after: 2, within: 1m, durations: [1h]}
`)
	in := get("/")
	in.Peer = netip.Addr{}
	for range 10 {
		if w.judge(in).Decision.Banned {
			t.Fatal("everybody without an address is banned")
		}
	}
}
