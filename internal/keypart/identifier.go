package keypart

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxIdentifier is the longest identifier that stands in a subject as it is, in bytes; a hash
// stands for longer ones.
const MaxIdentifier = 256

// AppendIdentifier appends who somebody is: as it is if it is plain and not too long, else as a
// hash. It reports whether there is anything to append.
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

// IsIdentifierHash reports whether a text looks like the hash that [AppendIdentifier] writes.
func IsIdentifierHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == 16 && text == strings.ToLower(text)
}

// AppendEscaped appends a value in which the separator does not occur.
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
