package words

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxContact is the longest contact in bytes.
const maxContact = 256

// WrongContact says what is wrong with a contact: a text, or a URL. It is "" if nothing is.
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
		return fmt.Sprintf("%q is a URL of another kind", text)
	case u == nil || u.Scheme == "mailto" && !strings.Contains(u.Opaque, "@") ||
		u.Scheme != "mailto" && (u.Host == "" || u.User != nil):
		return fmt.Sprintf("%q is not a URL", text)
	}
	return ""
}

// IsContactURL reports whether a contact that is not wrong is a URL, and not a text.
func IsContactURL(contact string) bool {
	_, ok := contactURL(contact)
	return ok
}

// contactURL returns the URL of a contact, and whether it is meant to be one: a text has a space in
// it, or no colon after its first word. The URL is nil if it is malformed.
func contactURL(text string) (*url.URL, bool) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || rest == "" || strings.ContainsFunc(text, unicode.IsSpace) || !consistsOf(scheme, "+-.") {
		return nil, false
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, true
	}
	return u, true
}
