// Package label makes subjects fit to be shown: in logs, on pages, in messages. A subject is written by whoever sends
// a request, so it may hold line breaks, terminal codes, half a character, a kilobyte, or somebody's secret.
package label

import (
	"net/netip"
	"strconv"
	"strings"
)

const (
	// shown is how many bytes of an identifier are shown by Short.
	shown = 6
	// longest is how many bytes of anything are shown at all.
	longest = 128
	// longestKind is how long the word before the colon may be. What is longer is no kind but part of a secret.
	longestKind = 12
)

// Short returns a subject, or a key, with the beginning of its identifier only, on one line: "user:mallor…". Of an
// address it keeps the network, and leaves a scope away: "ip:203.0.113.x", "ip:2001:db8:1::/48".
func Short(subject string) string {
	kind, identifier := split(subject)
	if kind == "ip:" {
		if n, ok := network(identifier); ok {
			return kind + n
		}
	}
	return Line(kind + head(identifier, shown))
}

// Line returns a text on one line, of printable characters, and without its end if it is long. What cannot be printed is
// written as in Go, `\n` for a line break, and therefore a backslash as two: what is shown stands for one text only. Quotes
// stay as they are: logs and JSON see to those of their values themselves.
func Line(text string) string {
	quoted := strconv.Quote(head(text, longest))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) // every quote inside has a backslash of its own
}

// split returns the kind of a subject with its colon, "" if it has none, and the rest.
func split(subject string) (kind, identifier string) {
	colon := strings.IndexByte(subject, ':')
	if colon <= 0 || colon > longestKind {
		return "", subject
	}
	for i := range colon {
		if c := subject[i]; c < 'a' || c > 'z' {
			return "", subject
		}
	}
	return subject[:colon+1], subject[colon+1:]
}

// head returns the first bytes of a text, and a sign if there are more.
func head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// network returns that of the address that an identifier begins with. A scope may follow.
func network(identifier string) (string, bool) {
	for {
		if a, ok := address(identifier); ok {
			return mask(a), true
		}
		colon := strings.LastIndexByte(identifier, ':')
		if colon < 0 {
			return "", false
		}
		identifier = identifier[:colon]
	}
}

// address reads an address, or that of a prefix.
func address(s string) (netip.Addr, bool) {
	if len(s) > longest {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		var p netip.Prefix
		p, err = netip.ParsePrefix(s)
		a = p.Addr()
	}
	return a.Unmap().WithZone(""), err == nil
}

// mask leaves away what tells one customer of a provider from another: the last number of an IPv4 address, and all
// after the first 48 bits of others.
func mask(a netip.Addr) string {
	if a.Is4() {
		text := a.String()
		return text[:strings.LastIndexByte(text, '.')] + ".x"
	}
	return netip.PrefixFrom(a, 48).Masked().String()
}
