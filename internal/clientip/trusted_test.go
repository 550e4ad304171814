package clientip

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stint-limiter/stint"
)

func TestParsePrefix(t *testing.T) {
	for entry, want := range map[string]string{
		"loopback": "[127.0.0.0/8 ::1/128]", "192.0.2.0/24": "[192.0.2.0/24]", "192.0.2.1": "[192.0.2.1/32]",
		"2001:db8::/32": "[2001:db8::/32]", "2001:db8::1": "[2001:db8::1/128]",
		"::ffff:198.51.100.0/120": "[198.51.100.0/24]", "::ffff:198.51.100.1": "[198.51.100.1/32]",
		"private": "[10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 169.254.0.0/16 fc00::/7 fe80::/10]", "unix": "[]",
	} {
		got, unix, err := ParsePrefix(entry)
		if err != nil || fmt.Sprint(got) != want || unix != (entry == "unix") {
			t.Errorf("%s: got %v, unix %v, %v; want %s", entry, got, unix, err, want)
		}
	}
}

// TestKeyMistakes: Key reports every invalid entry.
func TestKeyMistakes(t *testing.T) {
	const form = "want a prefix such as 10.0.0.0/8, an address, or one of loopback, private and unix"
	trusted, want := []string{"unix"}, "stint: invalid: "
	for i, test := range []struct{ in, want string }{
		{"", `is ""; ` + form},
		{"Private", `is "Private"; ` + form},
		{"10.0.0.0/33", `is "10.0.0.0/33"; ` + form},
		{"10.0.0.1:80", `is "10.0.0.1:80"; ` + form},
		{"proxy.example.org", `is "proxy.example.org"; ` + form},
		{"fe80::1%eth0", `is "fe80::1%eth0"; want it without a zone: fe80::1`},
		{"10.1.2.3/8", "is 10.1.2.3/8, which has bits set beyond its length; want 10.0.0.0/8 for the network, or 10.1.2.3/32 for the address"},
		{"::ffff:10.1.2.3/104", "is ::ffff:10.1.2.3/104, which has bits set beyond its length; want 10.0.0.0/8 for the network, or 10.1.2.3/32 for the address"},
		{"2001:db8::1/32", "is 2001:db8::1/32, which has bits set beyond its length; want 2001:db8::/32 for the network, or 2001:db8::1/128 for the address"},
	} {
		trusted = append(trusted, test.in)
		want += fmt.Sprintf("entry %d %s\n", i+2, test.want)
	}
	_, err := Key(trusted)
	if _, ok := errors.AsType[*stint.InvalidError](err); !ok || err.Error()+"\n" != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestNewMistake(t *testing.T) {
	_, err := New(Config{Header: "X-Forwarded-For, X-Real-IP"})
	want := `clientip: Header is "X-Forwarded-For, X-Real-IP"; want the name of one header, such as X-Forwarded-For`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
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
