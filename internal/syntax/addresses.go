package syntax

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxContact is the maximum length of a contact in bytes.
const maxContact = 256

// WrongContact describes the mistake in a contact, which is text or a URL. It returns "" if the
// contact is valid.
func WrongContact(text string) string {
	switch {
	case text == "":
		return ""
	case len(text) > maxContact:
		return fmt.Sprintf("%d bytes; want at most %d", len(text), maxContact)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fmt.Sprintf("%q has characters that cannot be printed", text)
	case strings.TrimSpace(text) != text:
		return fmt.Sprintf("%q begins or ends with a space", text)
	}
	u, ok := contactURL(text)
	switch {
	case !ok:
		return ""
	case !strings.HasPrefix(text, "http:") && !strings.HasPrefix(text, "https:") && !strings.HasPrefix(text, "mailto:"):
		return fmt.Sprintf("%q is a URL with an unsupported scheme", text)
	case u == nil || u.Scheme == "mailto" && !strings.Contains(u.Opaque, "@") ||
		u.Scheme != "mailto" && (u.Host == "" || u.User != nil):
		return fmt.Sprintf("%q is not a URL", text)
	}
	return ""
}

// IsContactURL reports whether a valid contact is a URL rather than text.
func IsContactURL(contact string) bool {
	_, ok := contactURL(contact)
	return ok
}

// contactURL returns the URL of a contact, and whether the contact is meant to be a URL. A contact
// is meant to be text if it contains a space, or does not begin with a scheme, a colon and more
// text. The URL is nil if it is malformed.
func contactURL(text string) (*url.URL, bool) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || rest == "" || strings.ContainsFunc(text, unicode.IsSpace) || !consistsOf(scheme, "+-.") {
		return nil, false
	}
	u, _ := url.Parse(text)
	return u, true
}

// WrongWebhook describes the mistake in a webhook address, and how to correct it. It returns "" if
// the address is valid. The result does not contain the address, which may be a secret.
func WrongWebhook(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "not a URL; want one such as https://example.com/quotas"
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return "http:// does not protect what is posted; want https://, or this machine, such as http://localhost:9000"
	}
	return ""
}
