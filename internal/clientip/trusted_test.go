package clientip

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestParsePrefixes(t *testing.T) {
	got, unix, err := ParsePrefixes([]string{
		"loopback", "unix", "192.0.2.0/24", "192.0.2.1", "2001:db8::/32", "2001:db8::1",
		"::ffff:198.51.100.0/120", "::ffff:198.51.100.1", "private",
	})
	if err != nil {
		t.Fatal(err)
	}
	if !unix {
		t.Error("got unix false, want true")
	}
	var want []netip.Prefix
	for _, s := range []string{
		"127.0.0.0/8", "::1/128", "192.0.2.0/24", "192.0.2.1/32", "2001:db8::/32", "2001:db8::1/128",
		"198.51.100.0/24", "198.51.100.1/32",
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10",
	} {
		want = append(want, netip.MustParsePrefix(s))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestParsePrefixesMistakes(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", `is ""; want a prefix such as 10.0.0.0/8`},
		{"Private", `is "Private"; want a prefix such as 10.0.0.0/8, an address, or one of loopback, private and unix`},
		{"10.0.0.0/33", `is "10.0.0.0/33"; want a prefix`},
		{"10.0.0.1:80", `is "10.0.0.1:80"; want a prefix`},
		{"proxy.example.org", `is "proxy.example.org"; want a prefix`},
		{"fe80::1%eth0", `is "fe80::1%eth0"; want it without a zone: fe80::1`},
		{"10.1.2.3/8", "is 10.1.2.3/8, which has bits set beyond its length; want 10.0.0.0/8 for the network, or 10.1.2.3/32 for the address"},
		{"::ffff:10.1.2.3/104", "is ::ffff:10.1.2.3/104, which has bits set beyond its length; want 10.0.0.0/8 for the network"},
		{"2001:db8::1/32", "is 2001:db8::1/32, which has bits set beyond its length; want 2001:db8::/32 for the network, or 2001:db8::1/128 for the address"},
	}
	for _, tt := range tests {
		got, unix, err := ParsePrefixes([]string{"unix", "10.0.0.0/8", tt.in})
		if got != nil || unix || err == nil {
			t.Errorf("%q: got %v, %v, %v; want an error and nothing else", tt.in, got, unix, err)
			continue
		}
		if want := "entry 3 " + tt.want; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got error %q, want it to begin with %q", tt.in, err, want)
		}
	}
}

func TestNewReportsAllMistakes(t *testing.T) {
	_, err := New(Config{
		Trusted:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.2.3/8"), {}},
		Header:     "X-Forwarded-For, X-Real-IP",
		IPv4Prefix: 33,
		IPv6Prefix: -1,
	})
	for _, want := range []string{
		"clientip: Trusted[1] is 10.1.2.3/8",
		"Trusted[2] is the zero Prefix",
		`Header is "X-Forwarded-For, X-Real-IP"; want the name of one header`,
		"IPv4Prefix is 33; want 1 to 32",
		"IPv6Prefix is -1; want 1 to 128",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want it to contain %s", err, want)
		}
	}
}

func TestTrusts(t *testing.T) {
	r := resolver(t, Config{Trusted: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.128/25"),
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("10.1.0.0/16"), // within the one before
		netip.MustParsePrefix("10.0.0.0/8"),  // again
		netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("2001:db8:ffff::/48"),
		netip.MustParsePrefix("::1/128"),
	}})
	for want, peers := range map[bool][]string{
		true: {
			"10.0.0.0", "10.1.2.3", "10.2.0.0", "10.255.255.255", "192.0.2.128", "192.0.2.255", "::1",
			"::1%lo", "::ffff:10.2.0.0", "2001:db8::", "2001:db8:fffe::1", "2001:db8:ffff:ffff::1",
		},
		false: {
			"9.255.255.255", "11.0.0.0", "192.0.2.127", "192.0.3.0", "255.255.255.255", "0.0.0.0", "::",
			"::2", "::10.2.0.0", "2001:db7:ffff::", "2001:db9::", "",
		},
	} {
		for _, peer := range peers {
			if got := r.Trusts(addr(peer)); got != want {
				t.Errorf("%q: got %v, want %v", peer, got, want)
			}
		}
	}
}

func TestAllOfIPv6IsNotIPv4(t *testing.T) {
	r := resolver(t, Config{Trusted: []netip.Prefix{netip.MustParsePrefix("::/0")}})
	for peer, want := range map[string]bool{"2001:db8::1": true, "192.0.2.1": false, "::ffff:192.0.2.1": false} {
		if got := r.Trusts(addr(peer)); got != want {
			t.Errorf("Trusts(%s): got %v, want %v", peer, got, want)
		}
	}
}
