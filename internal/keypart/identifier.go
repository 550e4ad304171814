package keypart

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxIdentifier is the length in bytes of the longest identifier that a subject contains verbatim.
// Longer identifiers are replaced with a hash.
const MaxIdentifier = 256

// AppendIdentifier appends an identifier: verbatim if plain is true and the identifier has at most
// [MaxIdentifier] bytes, and otherwise as a hash. If it is empty, AppendIdentifier appends nothing
// and returns false.
func AppendIdentifier(b []byte, value string, plain bool) ([]byte, bool) {
	if value == "" {
		return b, false
	}
	if plain && len(value) <= MaxIdentifier {
		return append(b, value...), true
	}
	sum := sha256.Sum256([]byte(value))
	return hex.AppendEncode(b, sum[:16]), true
}

// IsIdentifierHash reports whether text looks like a hash that [AppendIdentifier] appends.
func IsIdentifierHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == 16 && text == strings.ToLower(text)
}

// AppendEscaped appends a value, escaped so that the separator does not occur in it.
func AppendEscaped(b, value []byte, separator byte) []byte {
	for _, c := range value {
		if c == separator || c == '%' {
			b = append(b, '%')
			b = hex.AppendEncode(b, []byte{c})
			continue
		}
		b = append(b, c)
	}
	return b
}
