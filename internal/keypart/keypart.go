// Package keypart encodes the subjects and scopes in keys. It is for packages that write keys, and
// for packages that find the subject of a key.
package keypart

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
)

const (
	// Max is the maximum length of a readable part, in bytes after escaping. Longer parts are
	// hashed.
	Max = 128
	// HashMark begins a part that was replaced with a hash. Escaping never produces it.
	HashMark = '~'
)

// Append appends a part of a key: escaped or, if that would be longer than [Max], as a hash. The
// escaping is injective for any bytes, and keeps letters, digits and common punctuation. The result
// never contains a brace, because braces delimit the hash tag of a Redis key. It contains colons
// only if colons is true, as for a part inside the hash tag.
func Append(b []byte, part string, colons bool) []byte {
	start := len(b)
	for i := range len(part) {
		if c := part[i]; plain(c) || c == ':' && colons {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
		if len(b)-start > Max {
			return appendHash(b[:start], part)
		}
	}
	return b
}

func appendHash(b []byte, part string) []byte {
	sum := sha256.Sum256([]byte(part))
	b = append(b, HashMark)
	return hex.AppendEncode(b, sum[:20])
}

// Read is the inverse of Append. It reports false if text is empty, is a hash or contains an
// invalid escape.
func Read(text string) (string, bool) {
	if text == "" || text[0] == HashMark {
		return "", false
	}
	part, err := url.PathUnescape(text)
	return part, err == nil
}

// Name returns a subject as it appears in keys before escaping: unchanged, or as a hash if it is
// too long. If the subject is already such a hash, Name returns it unchanged.
func Name(subject string) string {
	if len(subject) <= Max/3 {
		return subject
	}
	n := 0
	for i := range len(subject) {
		if c := subject[i]; plain(c) || c == ':' {
			n++
		} else {
			n += 3
		}
		if n > Max {
			return string(appendHash(make([]byte, 0, 41), subject))
		}
	}
	return subject
}

// ReadName returns the [Name] of the subject that text encodes in keys. It reports false if text is
// not a valid encoding.
func ReadName(text string) (string, bool) {
	if len(text) > 1 && text[0] == HashMark {
		return text, true
	}
	return Read(text)
}

const upperHex = "0123456789ABCDEF"

func plain(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	switch c {
	case '_', '-', '.', '/', '@', '+', '=', ',', '!', '*', '$', '&', '(', ')', '|':
		return true
	}
	return false
}
