package clientip

import (
	"net/netip"
	"strings"

	"github.com/stint-limiter/stint/internal/words"
)

// ParsePeer returns the address in the text of a TCP peer, such as the RemoteAddr of an HTTP
// request, with or without a port. Anything else is the zero Addr, a peer without an address.
//
// A client on a Unix socket can choose its own name, even one that looks like a TCP address.
// Servers of such a socket must pass the zero Addr for its peers instead.
func ParsePeer(remoteAddr string) netip.Addr { return parseHop(remoteAddr) }

// parseHop returns the address in an entry of a header or the name of a peer, which may have a
// port, brackets and a zone: "192.0.2.1:80", "[2001:db8::1%eth0]:80". Anything else is the zero
// Addr.
func parseHop(s string) netip.Addr {
	if bracketed, ok := strings.CutPrefix(s, "["); ok {
		host, port, ok := strings.Cut(bracketed, "]")
		if !ok || port != "" && (port[0] != ':' || !isPort(port[1:])) || !strings.Contains(host, ":") {
			return netip.Addr{}
		}
		return parseIP(host)
	}
	if host, port, ok := strings.Cut(s, ":"); ok && isPort(port) {
		return parseIP(host)
	}
	return parseIP(s)
}

// parseIP returns the canonical form of an address. It cuts off the zone before parsing, because
// the parser would keep a copy of it.
func parseIP(s string) netip.Addr {
	ip, zone, zoned := strings.Cut(s, "%")
	if zoned && (zone == "" || !strings.Contains(ip, ":")) || !resemblesIP(ip) {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}

// resemblesIP rules out most texts that are not addresses. The parser could do it as well, but
// would allocate an error each time, and "unknown" is common.
func resemblesIP(s string) bool {
	if len(s) > len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255") {
		return false
	}
	dots, colons := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			dots++
		case c == ':':
			colons++
		case !isHex(c):
			return false
		}
	}
	return dots == 3 || dots == 0 && colons >= 2
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// isPort reports whether s is a port: a number, or a name that RFC 7239 allows instead, such as
// _http.
func isPort(s string) bool {
	if strings.HasPrefix(s, "_") {
		return words.IsName(s) && len(s) > 1
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= len("65535")
}
