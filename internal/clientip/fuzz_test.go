package clientip

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The grammar of the reference.
const (
	port = `(?::(?:[0-9]{1,5}|_[0-9A-Za-z._-]+))?`
	ipv6 = `([0-9A-Fa-f.]*:[0-9A-Fa-f.:]*)`
)

var (
	forms = []*regexp.Regexp{
		regexp.MustCompile(`^([0-9.]+)` + port + `$`),
		regexp.MustCompile(`(?s)^\[` + ipv6 + `(?:%[^\]]+)?\]` + port + `$`),
		regexp.MustCompile(`(?s)^` + ipv6 + `(?:%.+)?$`),
	}
	forParameter = regexp.MustCompile(`(?is)^[ \t]*for=(.*?)[ \t]*$`)
	inQuotes     = regexp.MustCompile(`(?s)^"(.*)"$`)
	escape       = regexp.MustCompile(`(?s)\\.`)
)

func FuzzClient(f *testing.F) {
	for _, seed := range []string{
		"", ",", "192.0.2.1", "198.51.100.66, 192.0.2.1, 10.0.0.2", "unknown\n10.0.0.2", "[fd00::1%eth0]:80",
		"2001:db8::1, ::ffff:10.0.0.2", "\"192.0.2.1:80\"\t", "192.0.2.1:_x", "10.0.0.2, 10.0.0.3\n10.0.0.4",
		"for=192.0.2.1", `For="[2001:db8::1]:8080";proto=https, for=10.0.0.2`, `for=192.0.2.1;host="a,\";b"`,
		`for=", for="[2001:db8::1]"`, `x="\\";for=10.0.0.1`, "for=10.0.0.1;for=10.0.0.2", "for=10.0.0.1;for",
		`for=10.0.0.1;x=\"`,
		"10.9.9.9, 192.0.2.1", "198.51.100.66,192.0.2.1\n10.0.0.2", "\n10.0.0.2", ",10.0.0.2", ",,,",
		"192.0.2.1, _hidden, 10.0.0.2", "192.0.2.1, unix:, 10.0.0.2", "\x00, %%, 192.0.2.1",
		" \t198.51.100.66 ,\t 192.0.2.1 \t", "[2001:db8::1]", "[2001:db8::1]:80", "2001:db8::1",
		"2001:db8::1, [fd00::1%eth0]:80", "localhost", " proto=https ; for=192.0.2.1 ; by=10.0.0.1 ",
		";for=192.0.2.1;;", `for="192.0.2.1:_https.2-x"`, `for="[2001:db8::1]";proto=https`,
		"for=[2001:db8::1]:8080", "for=198.51.100.66\nfor=192.0.2.1", "for=10.0.0.3\nfor=10.0.0.2",
		`for=192.0.2.1;host="a;for=198.51.100.66"`, `host="a\\";for=192.0.2.1`, `for=", for=192.0.2.1`,
		"for=192.0.2.1, proto=https", "for=a;for=b;for=192.0.2.1", "for=192.0.2.1;for",
		"for=192.0.2.1, for=unknown, for=10.0.0.2", "for=", "for", `for=""`, `for="192.0.2.1`, `for="192.0.2\.1"`,
	} {
		f.Add(seed, "10.0.0.1")
		f.Add(seed, "192.0.2.9")
	}
	f.Fuzz(func(t *testing.T, text, from string) {
		if len(text) > 1<<10 {
			t.Skip("the reference is slow")
		}
		values := strings.Split(text, "\n")
		peer, _ := netip.ParseAddr(from)
		if got, want := ParsePeer(from), slowHop(from); got != want {
			t.Fatalf("ParsePeer(%q): got %v, want %v", from, got, want)
		}
		for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
			r := resolver(t, Config{Trusted: proxies, TrustUnix: true, Header: header})
			got := r.Client(peer, lines(header, values...))
			want, reached := slowClient(header, slowCanonical(peer), values)
			if got != want {
				t.Fatalf("%s %q from %v: got client %v, want %v", header, values, peer, got, want)
			}
			if !r.Trusts(peer) && got != slowCanonical(peer) {
				t.Fatalf("%s %q: got client %v, want the untrusted peer %v", header, values, got, peer)
			}
			if peer.IsValid() && !got.IsValid() {
				t.Fatalf("%s %q from %v: got no client, want one", header, values, peer)
			}
			if slowTrusts(got) && slices.ContainsFunc(reached, func(a netip.Addr) bool { return !slowTrusts(a) }) {
				t.Fatalf("%s %q from %v: got the proxy %v, want the client among %v", header, values, peer, got, reached)
			}
			if got != slowCanonical(got) {
				t.Fatalf("%s %q from %v: got client %v, want it without zone and unmapped", header, values, peer, got)
			}
		}
	})
}

// slowClient does the same as [Resolver.Client] in the simplest way: it makes a list of all hops,
// and walks it from the end. It also returns the hops that it reached.
func slowClient(header string, peer netip.Addr, values []string) (client netip.Addr, reached []netip.Addr) {
	hops := []netip.Addr{}
	for _, line := range values {
		for _, entry := range slowSplit(line, ',', header == "Forwarded") {
			entry = strings.Trim(entry, " \t")
			if header == "Forwarded" {
				entry = slowFor(entry)
			}
			hops = append(hops, slowHop(slowUnquote(entry)))
		}
	}
	if header == "X-Real-Ip" {
		hops = hops[len(hops)-1:]
	}
	hops = append(hops, peer)
	for i, hop := range slices.Backward(hops) {
		isPeer := i == len(hops)-1
		if !hop.IsValid() && !isPeer {
			break
		}
		client, reached = hop, append(reached, hop)
		if !slowTrusts(hop) {
			break
		}
	}
	return client, reached
}

// slowFor returns the value of the for= parameter in an element of Forwarded, or "" if there is not
// exactly one.
func slowFor(element string) string {
	var values []string
	for _, parameter := range slowSplit(element, ';', true) {
		if m := forParameter.FindStringSubmatch(parameter); m != nil {
			values = append(values, m[1])
		}
	}
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// slowSplit splits s at separators. If quotes is true, a separator counts only if an even number of
// unescaped quotes follows it.
func slowSplit(s string, separator byte, quotes bool) []string {
	var parts []string
	begin, unescaped := 0, slowUnescaped(s)
	for i := range len(s) {
		if s[i] != separator || quotes && strings.Count(unescaped[i:], `"`)%2 == 1 {
			continue
		}
		parts = append(parts, s[begin:i])
		begin = i + 1
	}
	return append(parts, s[begin:])
}

// slowUnescaped returns s with every backslash, and the character that it escapes, replaced by
// dashes.
func slowUnescaped(s string) string {
	return escape.ReplaceAllStringFunc(s, func(m string) string { return strings.Repeat("-", len(m)) })
}

func slowUnquote(s string) string {
	if m := inQuotes.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return s
}

func slowHop(s string) netip.Addr {
	for _, form := range forms {
		m := form.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		if a, err := netip.ParseAddr(m[1]); err == nil {
			return slowCanonical(a)
		}
	}
	return netip.Addr{}
}

func slowCanonical(a netip.Addr) netip.Addr { return a.WithZone("").Unmap() }

// slowTrusts trusts a peer on a Unix socket, as the fuzzed resolver does.
func slowTrusts(a netip.Addr) bool {
	return !a.IsValid() || slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}
