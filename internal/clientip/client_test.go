package clientip

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// proxies are trusted in these tests.
var proxies = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("fd00::/8"),
}

func resolver(t testing.TB, c Config) *Resolver {
	t.Helper()
	r := testkit.Must(New(c))(t)
	return r
}

// addr parses an address. "" is the zero Addr.
func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

func lines(name string, values ...string) http.Header { return http.Header{name: values} }

func TestParsePeer(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1", "192.0.2.1": "192.0.2.1", "0.0.0.0:65535": "0.0.0.0",
		"255.255.255.255:_http": "255.255.255.255", "[2001:db8::1]:5": "2001:db8::1",
		"[2001:db8::1]": "2001:db8::1", "2001:db8::1": "2001:db8::1", "[::1%eth0]:5": "::1",
		"fe80::1%25eth0": "fe80::1", "::": "::", "::ffff:192.0.2.1": "192.0.2.1",
		"[::ffff:192.0.2.1]:5": "192.0.2.1", "[::ffff:192.0.2.1%eth0]:5": "192.0.2.1",
		"2001:db8:1:2:3:4:255.255.255.255": "2001:db8:1:2:3:4:ffff:ffff",
	} {
		if got := ParsePeer(in); got != addr(want) {
			t.Errorf("%q: got %v, want %s", in, got, want)
		}
	}
	for _, in := range []string{
		"", "@", "/run/stint.sock", "pipe", "localhost:80", ":80", "[]:80", "[", "[::1", "[::1]x", "[::1]80",
		"[::1]:", "[::1]:http", "[192.0.2.1]:80", "[[::1]]", "192.0.2.1:", "192.0.2.1:http",
		"192.0.2.1:123456", "192.0.2.1:_", "192.0.2.1:_a/b", "192.0.2.1:-1", "192.0.2.1:5:6", "192.0.2.1.:5",
		"192.0.2:5", "192.0..1:5", ".0.2.1:5", "192.0.2.256:5", "192.0.2.01:5", "00.0.2.1:5", "1.2.3.4.5:6",
		"192.0.2.1%eth0", "fe80::1%", "192.0.2", "192.0.2.256", "192.0.2.01", "1.2.3.4.5", "dead", "1:2:3",
		"1::2::3", "2001:db8::g", " 192.0.2.1", `"192.0.2.1"`,
	} {
		if got := ParsePeer(in); got.IsValid() {
			t.Errorf("%q: got %v, want no address", in, got)
		}
	}
}

func TestF10OnlyOneHeaderIsConsulted(t *testing.T) {
	h := http.Header{"X-Forwarded-For": {"192.0.2.1"}, "Forwarded": {"for=192.0.2.2"}, "X-Real-Ip": {"192.0.2.3"}}
	for header, want := range map[string]string{
		"":                 "192.0.2.1",
		"x-forwarded-for":  "192.0.2.1",
		"FORWARDED":        "192.0.2.2",
		"X-Real-IP":        "192.0.2.3",
		"CF-Connecting-IP": "10.0.0.1",
	} {
		r := resolver(t, Config{Trusted: proxies, Header: header})
		if got := r.Client(addr("10.0.0.1"), h); got != addr(want) {
			t.Errorf("header %q: got client %v, want %s", header, got, want)
		}
	}
}

// The client is the last untrusted address in the configured header. Entries before an invalid
// address are ignored. [FuzzClient] compares more headers with a reference.
func TestF10Client(t *testing.T) {
	for header, tests := range map[string][]struct {
		name  string
		lines []string
		want  string
	}{
		"X-Forwarded-For": {
			{"no header", nil, "10.0.0.1"},
			{"spoofed on the left", []string{"198.51.100.66, 192.0.2.1"}, "192.0.2.1"},
			{"spoofed in a line before", []string{"198.51.100.66", "192.0.2.1"}, "192.0.2.1"},
			{"all trusted", []string{"10.0.0.4, 10.0.0.3", "10.0.0.2"}, "10.0.0.4"},
			{"unknown", []string{"192.0.2.1, unknown"}, "10.0.0.1"},
			{"a trusted mapped hop", []string{"2001:db8::1, ::ffff:10.0.0.2"}, "2001:db8::1"},
		},
		"Forwarded": {
			{"spoofed on the left", []string{"for=198.51.100.66, for=192.0.2.1"}, "192.0.2.1"},
			{"comma in quotes", []string{`for=192.0.2.1;host="a,for=198.51.100.66"`}, "192.0.2.1"},
			{"escaped quote in quotes", []string{`for=192.0.2.1;host="a\",for=198.51.100.66"`}, "192.0.2.1"},
			{"for twice", []string{"for=192.0.2.1;for=198.51.100.66"}, "10.0.0.1"},
			{"hidden", []string{"for=192.0.2.1, for=_hidden"}, "10.0.0.1"},
			{"open quote of the client", []string{`for=", for=192.0.2.1`}, "192.0.2.1"},
		},
		"X-Real-IP": {
			{"with a port", []string{"[2001:db8::1]:80"}, "2001:db8::1"},
			{"several lines", []string{"198.51.100.66", "192.0.2.1"}, "192.0.2.1"},
			{"a list", []string{"198.51.100.66, 192.0.2.1"}, "192.0.2.1"},
			{"not an address", []string{"192.0.2.1", "unknown"}, "10.0.0.1"},
			{"none", nil, "10.0.0.1"},
		},
	} {
		r := resolver(t, Config{Trusted: proxies, Header: header})
		for _, test := range tests {
			h := lines(http.CanonicalHeaderKey(header), test.lines...)
			if got := r.Client(addr("10.0.0.1"), h); got != addr(test.want) {
				t.Errorf("%s, %s: %q: got client %v, want %s", header, test.name, test.lines, got, test.want)
			}
		}
	}
}

func TestUnixPeer(t *testing.T) {
	none := netip.Addr{}
	for _, test := range []struct {
		trust bool
		lines []string
		want  string
	}{
		{false, []string{"192.0.2.1"}, ""},
		{true, []string{"198.51.100.66, 192.0.2.1"}, "192.0.2.1"},
		{true, nil, ""},
		{true, []string{"192.0.2.1, unknown"}, ""},
	} {
		r := resolver(t, Config{TrustUnix: test.trust})
		got := r.Client(none, lines("X-Forwarded-For", test.lines...))
		if r.Trusts(none) != test.trust || got != addr(test.want) {
			t.Errorf("trusted %v, %q: got trusted %v, client %v; want client %q", test.trust, test.lines, r.Trusts(none), got, test.want)
		}
	}
}

func TestNamesLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "127.0.0.1": true, "127.0.0.1:8080": true, "[::1]": true,
		"[::1]:8080":    true,
		"10.0.0.5:8080": true,
		"":              false, "example.com": false, "example.com:8080": false, "localhost.example.com": false,
		"127.0.0.1.example.com": false, "stint": false, "[localhost.example.com]": false,
	} {
		if got := NamesLocal(host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}

func TestF10UntrustedPeerIsTheClient(t *testing.T) {
	everything := http.Header{
		"X-Forwarded-For":  {"198.51.100.1"},
		"X-Real-Ip":        {"198.51.100.2"},
		"Forwarded":        {"for=198.51.100.3"},
		"Cf-Connecting-Ip": {"198.51.100.4"},
	}
	for _, header := range []string{"", "X-Forwarded-For", "X-Real-IP", "Forwarded", "CF-Connecting-IP"} {
		r := resolver(t, Config{Trusted: proxies, Header: header})
		for _, peer := range []string{"192.0.2.1", "2001:db8::1", ""} {
			if got, want := r.Client(addr(peer), everything), addr(peer); got != want {
				t.Errorf("header %q, peer %q: got client %v, want the peer", header, peer, got)
			}
		}
	}
	for _, peer := range []string{"127.0.0.1", "10.0.0.1", "::1", ""} { // the zero Config trusts none
		if got, want := resolver(t, Config{}).Client(addr(peer), everything), addr(peer); got != want {
			t.Errorf("zero Config, peer %q: got client %v, want the peer", peer, got)
		}
	}
}

func TestClientDoesNotAllocate(t *testing.T) {
	long := strings.Repeat("198.51.100.66, ", 1<<16)
	tests := []struct{ header, value string }{
		{"X-Forwarded-For", "198.51.100.66, 192.0.2.1, 10.0.0.2"},
		{"X-Forwarded-For", "2001:db8::1, [fd00::1%eth0]:80"},
		{"X-Forwarded-For", long + "192.0.2.1"},
		{"X-Forwarded-For", strings.Repeat("x", 1<<20)},
		{"Forwarded", `for=198.51.100.66, for="[2001:db8::1]:80";host="a,\"b";proto=https, for=10.0.0.2`},
	}
	for _, tt := range tests {
		r := resolver(t, Config{Trusted: proxies, Header: tt.header})
		h := http.Header{}
		h.Set(tt.header, tt.value)
		var key [64]byte
		n := testing.AllocsPerRun(100, func() {
			r.AppendSubject(key[:0], r.Client(ParsePeer("10.0.0.1:4711"), h))
		})
		if n != 0 {
			t.Errorf("%s: %.40s: got %v allocations, want none", tt.header, tt.value, n)
		}
	}
}
