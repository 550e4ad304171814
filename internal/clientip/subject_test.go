package clientip

import (
	"net/netip"
	"testing"
)

func TestF28Subject(t *testing.T) {
	for _, test := range []struct {
		ipv4, ipv6 int
		addr, want string
	}{
		{0, 0, "192.0.2.1", "192.0.2.1"},
		{0, 0, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{0, 0, "::ffff:192.0.2.1", "192.0.2.1"},                                 // mapped is IPv4
		{0, 0, "::ffff:192.0.2.1%eth0", "192.0.2.1"},                            // mapped with a zone
		{0, 0, "fe80::1%eth0", "fe80::/64"},                                     // zone
		{24, 0, "192.0.2.1", "192.0.2.0/24"},                                    // IPv4 by network
		{24, 0, "::ffff:192.0.2.1", "192.0.2.0/24"},                             // mapped by network
		{0, 48, "2001:db8:1:2::1", "2001:db8:1::/48"},                           // IPv6 by site
		{0, 0, "64:ff9b::192.0.2.1", "192.0.2.1"},                               // NAT64
		{24, 0, "64:ff9b::192.0.2.1", "192.0.2.0/24"},                           // NAT64 by network
		{0, 0, "64:ff9b::10.0.0.1", "10.0.0.1"},                                 // NAT64 of a private address
		{0, 0, "64:ff9b:1:fffe::192.0.2.1", "192.0.2.1"},                        // NAT64 of this site
		{0, 0, "64:ff9b:0:1::192.0.2.1", "64:ff9b:0:1::/64"},                    // beside NAT64
		{0, 0, "64:ff9b:2::192.0.2.1", "64:ff9b:2::/64"},                        // beside NAT64 of this site
		{0, 0, "2002:c000:201:7::1", "192.0.2.1"},                               // 6to4
		{0, 0, "2002:c000:201:ffff:ffff:ffff:ffff:ffff", "192.0.2.1"},           // 6to4 of another host there
		{0, 0, "2003:c000:201:7::1", "2003:c000:201:7::/64"},                    // beside 6to4
		{0, 0, "2001:0:4136:e378:8000:63bf:3fff:fdfe", "192.0.2.1"},             // Teredo
		{0, 0, "2001:0:2222:2222:0:2222:3fff:fdfd", "192.0.2.2"},                // Teredo by another server and port
		{0, 0, "2001:1:4136:e378:8000:63bf:3fff:fdfe", "2001:1:4136:e378::/64"}, // beside Teredo
		{0, 0, "::192.0.2.1", "::/64"},                                          // compatible is IPv6
		{0, 128, "2001:db8::1%eth0", "2001:db8::1"},                             // IPv6 whole
		{0, 0, "", ""}, // unknown
	} {
		r := resolver(t, Config{IPv4Prefix: test.ipv4, IPv6Prefix: test.ipv6})
		if got := string(r.AppendSubject([]byte("ip:"), addr(test.addr))); got != "ip:"+test.want {
			t.Errorf("%+v: got the text %q", test, got)
		}
	}
}

// TestCarriedIsNotTrusted: an IPv6 address is not trusted because it contains a trusted IPv4
// address.
func TestCarriedIsNotTrusted(t *testing.T) {
	r := resolver(t, Config{Trusted: proxies})
	for _, peer := range []string{"64:ff9b::10.0.0.1", "64:ff9b:1::10.0.0.1", "2002:a00:1::1",
		"2001:0:1:1:0:1:f5ff:fffe"} {
		if got := r.Client(addr(peer), lines("X-Forwarded-For", "192.0.2.1")); got != addr(peer) {
			t.Errorf("%s: got client %v, want the peer", peer, got)
		}
	}
	got := r.Client(addr("10.0.0.1"), lines("X-Forwarded-For", "192.0.2.1, 64:ff9b::10.0.0.1"))
	if want := addr("64:ff9b::10.0.0.1"); got != want {
		t.Errorf("got client %v, want %v", got, want)
	}
}

func TestIsOneSubject(t *testing.T) {
	for _, test := range []struct {
		ipv4, ipv6 int
		network    string
		want       bool
	}{
		{0, 0, "192.0.2.1/32", true},
		{0, 0, "192.0.2.0/31", false},
		{24, 0, "192.0.2.0/24", true},
		{24, 0, "192.0.2.9/25", true},
		{24, 0, "192.0.2.0/23", false},
		{0, 0, "::ffff:192.0.2.1/128", true},
		{0, 0, "::ffff:192.0.2.0/127", false},
		{0, 0, "::ffff:0:0/90", false},
		{0, 0, "2001:db8::/64", true},
		{0, 0, "2001:db8::1/64", true},
		{0, 0, "2001:db8::/63", false},
		{0, 48, "2001:db8::/48", true},
		{0, 128, "2001:db8::/127", false},
		{0, 0, "2002:c000:201::/48", true},
		{0, 0, "2002:c000:200::/47", false},
		{0, 0, "64:ff9b::192.0.2.1/128", true},
		{0, 0, "64:ff9b::/96", false},
		{0, 0, "64:ff9b::/64", false},
		{0, 0, "2001:0:1:1::/64", false},
		{0, 0, "::/0", false},
		{0, 0, "0.0.0.0/0", false},
	} {
		r := resolver(t, Config{IPv4Prefix: test.ipv4, IPv6Prefix: test.ipv6})
		if got := r.IsOneSubject(netip.MustParsePrefix(test.network)); got != test.want {
			t.Errorf("%s of %d and %d bits: got %t, want %t", test.network, test.ipv4, test.ipv6, got, test.want)
		}
	}
	if resolver(t, Config{}).IsOneSubject(netip.Prefix{}) {
		t.Error("the zero Prefix is one subject")
	}
}

func TestF28MappedIsIPv4Everywhere(t *testing.T) {
	want := addr("192.0.2.1")
	mapped, _, err := ParsePrefix("::ffff:10.0.0.0/104")
	if err != nil {
		t.Fatal(err)
	}
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
