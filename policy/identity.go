package policy

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/keypart"
)

// identity is a compiled [Identity]. It determines the subject of a request.
type identity struct {
	name  string
	index int
	typ   string
	kind  identityKind
	key   string // name of the claim, header or cookie
	plain bool

	cookie int         // index in Set.cookies, for byCookie
	parts  []*identity // the identities that are combined, for byAll
}

type identityKind uint8

const (
	byAddress identityKind = iota
	byClaim
	byHeader
	byCookie
	byAll
	byNothing // all requests have the same subject
)

// always reports whether every request has the identity.
func (id *identity) always() bool {
	switch id.kind {
	case byAddress, byNothing:
		return true
	case byAll:
		return !slices.ContainsFunc(id.parts, func(part *identity) bool { return !part.always() })
	}
	return false
}

// shared reports whether many callers share the subject: all callers, or all clients with an
// unknown address.
func (id *identity) shared(f *facts) bool {
	return id.kind == byNothing || id.kind == byAddress && !f.clientAddr().IsValid()
}

// unknownClient takes the place of an unknown client address in a subject. The address is unknown
// if the peer has none, as on a Unix socket, and the peer does not name the client or is not
// trusted to do so.
const unknownClient = "unknown"

// subject returns the subject of a request, "type:identifier", or "" if the request does not have
// the identity. It uses room as a buffer.
func (id *identity) subject(f *facts, room []byte) string {
	if f.known == nil {
		return id.find(f, room)
	}
	of := 0
	if f.last {
		of = 1
	}
	k := &f.known[id.index]
	if !k.found[of] {
		k.subject[of], k.found[of] = id.find(f, room), true
	}
	return k.subject[of]
}

func (id *identity) find(f *facts, room []byte) string {
	if id.kind == byNothing {
		return id.typ
	}
	b, ok := append(append(room, id.typ...), ':'), false
	if id.kind == byAll {
		b, ok = id.together(f, b)
	} else {
		b, ok = id.identifier(f, b)
	}
	switch {
	case !ok:
		return ""
	case string(b) == f.before:
		return f.before
	}
	return string(b)
}

// identifier appends the caller's identifier and reports whether the request has one. The identity
// must not be a combined one.
func (id *identity) identifier(f *facts, b []byte) ([]byte, bool) {
	switch id.kind {
	case byAddress:
		if a := f.clientAddr(); a.IsValid() {
			return f.resolver.AppendSubject(b, a), true
		}
		return append(b, unknownClient...), true
	case byClaim:
		return keypart.AppendIdentifier(b, f.claim(id.key), true)
	case byHeader:
		return keypart.AppendIdentifier(b, credential(id.key, f.header(id.key)), id.plain)
	case byCookie:
		return keypart.AppendIdentifier(b, f.cookie(id.cookie), id.plain)
	}
	return b, true
}

// together appends the identifiers of all parts, joined by "+" and escaped, so that no two
// combinations produce the same text.
func (id *identity) together(f *facts, b []byte) ([]byte, bool) {
	var room [2 * keypart.MaxIdentifier]byte
	for i, part := range id.parts {
		if i > 0 {
			b = append(b, '+')
		}
		value, ok := part.identifier(f, room[:0])
		if !ok {
			return b, false
		}
		b = keypart.AppendEscaped(b, value, '+')
	}
	return b, true
}

// plainCookie returns one spelling for all values of a cookie that some framework treats as equal.
// Some frameworks decode the value, some remove the quotes around it and resolve the escapes
// between them, and some read a plus sign as a space.
func plainCookie(value string) string {
	value = strings.TrimSpace(value)
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		value = unquoted(value[1 : n-1])
	}
	return strings.ReplaceAll(decoded(value), " ", "+")
}

// unquoted resolves the escapes in a quoted value, such as \141 and \".
func unquoted(value string) string {
	if strings.IndexByte(value, '\\') < 0 {
		return value
	}
	b := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\\' && i+1 < len(value) {
			i++
			c = value[i]
			if i+2 < len(value) {
				if n, err := strconv.ParseUint(value[i:i+3], 8, 8); err == nil {
					c, i = byte(n), i+2
				}
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// credential returns one spelling for all values of a header field that contain the same
// credential. For Authorization, the scheme is in lower case and followed by one space, because RFC
// 9110 allows any case and several spaces. Basic credentials also get one spelling, because lenient
// servers decode several encodings to the same credentials.
func credential(field, value string) string {
	if value == "" || field != "Authorization" && field != "Proxy-Authorization" {
		return value
	}
	scheme, rest := value, ""
	if i := strings.IndexAny(value, " \t"); i >= 0 {
		scheme, rest = value[:i], strings.Trim(value[i:], " \t")
	}
	if scheme = strings.ToLower(scheme); scheme == "basic" {
		rest = plainBase64(rest)
	}
	return scheme + " " + rest
}

// plainBase64 returns the canonical form of base64 text: in the standard alphabet, without padding,
// and without any other characters. The text stays encoded, so that keys do not show passwords.
func plainBase64(text string) string {
	digits := strings.Map(func(c rune) rune {
		switch {
		case c == '-':
			return '+'
		case c == '_':
			return '/'
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/':
			return c
		}
		return -1
	}, text)
	if len(digits)%4 == 1 {
		digits = digits[:len(digits)-1]
	}
	plain, _ := base64.RawStdEncoding.DecodeString(digits) // cannot fail: digits has only base64 digits
	return base64.RawStdEncoding.EncodeToString(plain)
}

// repeated reports whether a request has several values of the identity's header or cookie.
func (id *identity) repeated(f *facts) bool {
	if id.kind == byHeader {
		return len(f.lines(id.key)) > 1
	}
	return f.cookies != nil && f.cookies[id.cookie].several
}
