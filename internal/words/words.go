// Package words says what names look like: those of a configuration, and those of HTTP.
package words

import "strings"

// IsName reports whether s can name something in a configuration, a store's keys or a metric: letters and digits of
// ASCII and "_-.", at least one. How long a name may be is up to those who use it.
func IsName(s string) bool { return consistsOf(s, "_-.") }

// IsToken reports whether s is a token of HTTP (RFC 9110, section 5.6.2), as the names of header fields and methods are.
func IsToken(s string) bool { return consistsOf(s, "!#$%&'*+-.^_`|~") }

// consistsOf reports whether s has letters, digits and the others in it, and nothing else.
func consistsOf(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != ""
}

// Host returns a host without its port, the brackets of an IPv6 address, and the dot at its end.
func Host(hostport string) string {
	host := hostport
	if end := strings.LastIndexByte(host, ']'); strings.HasPrefix(host, "[") && end > 0 {
		return host[1:end]
	}
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && strings.IndexByte(host, ':') == colon {
		host = host[:colon]
	}
	return strings.TrimSuffix(host, ".")
}
