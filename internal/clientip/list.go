package clientip

import (
	"net/netip"
	"strings"
)

// lastListed returns the address in the last entry of a comma-separated list, or the zero Addr if
// the entry is not an address. rest is the list before that entry, and more reports whether rest
// has any entries.
func lastListed(s string) (hop netip.Addr, rest string, more bool) {
	i := strings.LastIndexByte(s, ',')
	hop = parseHop(unquote(strings.Trim(s[i+1:], " \t")))
	if i < 0 {
		return hop, "", false
	}
	return hop, s[:i], true
}

// lastForwarded is like lastListed for a line of Forwarded (RFC 7239). The for= parameter of an
// element holds the address, and values may be quoted.
//
// Quotes are paired from the end of the line. An unbalanced quote from a client affects only the
// text that the client wrote, not the element that a proxy added after it.
func lastForwarded(s string) (hop netip.Addr, rest string, more bool) {
	var e element
	end, quoted := len(s), false
	for i := len(s) - 1; i >= 0; i-- {
		switch c := s[i]; {
		case c == '"' && !escaped(s[:i]):
			quoted = !quoted
		case quoted:
		case c == ';':
			e.add(s[i+1 : end])
			end = i
		case c == ',':
			e.add(s[i+1 : end])
			return e.hop, s[:i], true
		}
	}
	e.add(s[:end])
	return e.hop, "", false
}

// element is a parsed element of Forwarded. named reports whether it has a for= parameter.
type element struct {
	hop   netip.Addr
	named bool
}

// add adds a parameter. An element with two for= parameters names no client: RFC 7239 forbids such
// an element, and one of the parameters may have been smuggled in.
func (e *element) add(parameter string) {
	name, value, ok := strings.Cut(strings.Trim(parameter, " \t"), "=")
	if !ok || !strings.EqualFold(name, "for") {
		return
	}
	e.hop = netip.Addr{}
	if !e.named {
		e.hop = parseHop(unquote(value))
	}
	e.named = true
}

// escaped reports whether s ends with a backslash that escapes the next character.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// unquote removes the quotes around s, if s begins and ends with one. It does not resolve escapes,
// because an address contains none.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
