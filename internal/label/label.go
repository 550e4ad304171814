// Package label makes text safe to show in logs, on pages, in messages and on terminals. The sender
// of a request chooses the subject, so a subject may contain line breaks, terminal codes, an
// incomplete character, a kilobyte of text, or a secret.
package label

import (
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/messages"
)

const (
	// shown is the number of bytes of an identifier that Short shows.
	shown = 6
	// longest is the maximum number of bytes that Line shows.
	longest = 128
	// longestKind is the maximum length of the word before the colon in a subject. A longer word
	// may be part of a secret, so it counts as part of the identifier.
	longestKind = 12

	// tagged is the number of bytes of a ref that Tagged shows.
	tagged = 4

	// more and hidden replace omitted text. secret replaces a password, or a user name without one.
	more, hidden = "…", ".x"
	secret       = "xxxxx"
)

// Short returns a subject or a key on one line, with only the beginning of its identifier:
// "user:mallor…". For an address, it shows only the network, and omits a scope that follows the
// address: "ip:203.0.113.x", "ip:2001:db8:1::/48".
func Short(subject string) string {
	kind, identifier := split(subject)
	if kind == "ip:" {
		if n, ok := network(identifier); ok {
			return kind + n
		}
	}
	return Line(kind + messages.Shorten(identifier, shown))
}

// Tagged is like [Short], but if Short hides a part of the subject, Tagged appends the beginning of
// ref: "user:mallor…#x1y2". So different subjects with the same beginning usually look different.
func Tagged(subject, ref string) string {
	short := Short(subject)
	if short == Line(subject) || len(ref) < tagged {
		return short
	}
	return short + "#" + ref[:tagged]
}

// IsShort reports whether text looks like a subject that [Short], [Tagged] or [Line] has shortened.
// It cannot detect an IPv6 address that was shortened to its network and has no tag, because the
// result looks like any other network.
func IsShort(text string) bool {
	kind, identifier := split(text)
	if at := len(identifier) - tagged - 1; at > 0 && identifier[at] == '#' && !strings.HasSuffix(text, more) {
		identifier, text = identifier[:at], text[:len(text)-tagged-1]
		if _, err := netip.ParsePrefix(identifier); kind == "ip:" && err == nil {
			return true
		}
	}
	return strings.HasSuffix(text, more) || kind == "ip:" && strings.HasSuffix(identifier, hidden) &&
		strings.Count(identifier, ".") == 3
}

// Line returns text on one line, in printable characters, truncated if it is long. It escapes
// unprintable characters as Go does: a line break becomes `\n`. It doubles backslashes, so that
// different texts look different. It leaves quotes unchanged, because logs and JSON escape them.
func Line(text string) string {
	quoted := strconv.Quote(messages.Shorten(text, longest))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) // Quote escapes every quote
}

// Lines applies [Line] to each element of texts. The result is never nil.
func Lines(texts []string) []string {
	lines := make([]string, len(texts))
	for i, text := range texts {
		lines[i] = Line(text)
	}
	return lines
}

// Wait returns the log value for a wait: the duration d, or "never" if d is the longest possible
// duration, which would look like a wait of 292 years.
func Wait(d time.Duration) slog.Value {
	if d == math.MaxInt64 {
		return slog.StringValue("never")
	}
	return slog.DurationValue(d)
}

// List returns values such as limits on one line: "10/1m, 100/1h".
func List[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}

// URL returns a URL without its query and fragment, and with its password hidden. It also hides a
// user name without a password, which is usually a password in the wrong place. It hides the whole
// URL if the URL is invalid or opaque, or has an @ after the host, because the text before the @
// may be part of an unescaped password.
func URL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return "an invalid URL"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if _, ok := u.User.Password(); ok {
		shown.User = url.UserPassword(u.User.Username(), secret)
	} else if u.User != nil {
		shown.User = url.User(secret)
	}
	return Line(shown.String())
}

// split splits a subject into its kind and the rest. The kind includes the colon or, in a hashed
// subject, the #. It is "" if the subject has no kind.
func split(subject string) (kind, identifier string) {
	colon := strings.IndexByte(subject, ':')
	if keypart.IsHashed(subject) {
		colon = strings.IndexByte(subject, '#')
	}
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

// network returns the network of the address at the beginning of an identifier. The identifier may
// continue with a scope after the address.
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

// mask removes the part of an address that distinguishes the customers of a provider: the last
// number of an IPv4 address, and everything after the first 48 bits of an IPv6 address.
func mask(a netip.Addr) string {
	if a.Is4() {
		text := a.String()
		return text[:strings.LastIndexByte(text, '.')] + hidden
	}
	return netip.PrefixFrom(a, 48).Masked().String()
}
