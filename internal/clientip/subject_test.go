package clientip

import (
	"net/netip"
	"testing"
)

func TestF28Subject(t *testing.T) {
	tests := []struct {
		name       string
		ipv4, ipv6 int
		addr       string
		want       string
		wantText   string
	}{
		{"IPv4", 0, 0, "192.0.2.1", "192.0.2.1/32", "192.0.2.1"},
		{"IPv6", 0, 0, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "2001:db8:1:2::/64"},
		{"mapped is IPv4", 0, 0, "::ffff:192.0.2.1", "192.0.2.1/32", "192.0.2.1"},
		{"mapped with a zone", 0, 0, "::ffff:192.0.2.1%eth0", "192.0.2.1/32", "192.0.2.1"},
		{"zone", 0, 0, "fe80::1%eth0", "fe80::/64", "fe80::/64"},
		{"IPv4 by network", 24, 0, "192.0.2.1", "192.0.2.0/24", "192.0.2.0/24"},
		{"mapped by network", 24, 0, "::ffff:192.0.2.1", "192.0.2.0/24", "192.0.2.0/24"},
		{"IPv6 by site", 0, 48, "2001:db8:1:2::1", "2001:db8:1::/48", "2001:db8:1::/48"},
		{"IPv6 whole", 0, 128, "2001:db8::1%eth0", "2001:db8::1/128", "2001:db8::1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := resolver(t, Config{IPv4Prefix: tt.ipv4, IPv6Prefix: tt.ipv6})
			if got, want := r.Subject(addr(tt.addr)), netip.MustParsePrefix(tt.want); got != want {
				t.Errorf("got subject %v, want %v", got, want)
			}
			if got, want := string(r.AppendSubject([]byte("ip:"), addr(tt.addr))), "ip:"+tt.wantText; got != want {
				t.Errorf("got text %q, want %q", got, want)
			}
		})
	}
}

func TestSubjectOfUnknown(t *testing.T) {
	r := resolver(t, Config{})
	if got := r.Subject(netip.Addr{}); got.IsValid() {
		t.Errorf("got subject %v, want the zero Prefix", got)
	}
	if got := string(r.AppendSubject([]byte("ip:"), netip.Addr{})); got != "ip:" {
		t.Errorf("got text %q, want nothing appended", got)
	}
}

func TestF28RotationWithinANetworkIsOneSubject(t *testing.T) {
	r := resolver(t, Config{Trusted: proxies})
	subjects := map[string]int{}
	for _, peer := range []string{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", "2001:db8::1%eth0", "2001:db8::dead:beef"} {
		subjects[string(r.AppendSubject(nil, r.Client(addr(peer), nil)))]++
		subjects[string(r.AppendSubject(nil, r.Client(addr("10.0.0.1"), lines("X-Forwarded-For", peer))))]++
	}
	if want := "2001:db8::/64"; len(subjects) != 1 || subjects[want] != 8 {
		t.Errorf("got subjects %v, want only %s", subjects, want)
	}
}

func TestF28MappedIsIPv4Everywhere(t *testing.T) {
	want := addr("192.0.2.1")
	mapped := []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}
	for _, trusted := range [][]netip.Prefix{proxies, mapped} {
		r := resolver(t, Config{Trusted: trusted})
		if got := r.Client(addr("::ffff:192.0.2.1"), nil); got != want {
			t.Errorf("trusted %v: got untrusted peer %v, want %v", trusted, got, want)
		}
		for _, peer := range []string{"10.0.0.1", "::ffff:10.0.0.1", "::ffff:10.0.0.1%eth0"} {
			if !r.Trusts(addr(peer)) {
				t.Errorf("trusted %v: got peer %s not trusted, want trusted", trusted, peer)
			}
			for _, list := range []string{"192.0.2.1", "::ffff:192.0.2.1", "[::ffff:c000:201]:80, ::ffff:10.0.0.2"} {
				if got := r.Client(addr(peer), lines("X-Forwarded-For", list)); got != want {
					t.Errorf("trusted %v, peer %s, %q: got client %v, want %v", trusted, peer, list, got, want)
				}
			}
		}
	}
}
