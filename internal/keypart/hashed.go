package keypart

import (
	"encoding/base64"
	"strings"

	"github.com/stint-limiter/stint/internal/syntax"
)

// Sum is the keyed hash of a name. It has 128 bits, so in practice no two names have the same Sum.
type Sum [16]byte

// sumText is the encoding of sums. All of its characters appear in keys unescaped.
var sumText = base64.RawURLEncoding.Strict()

const (
	// sumMark is the byte before the sum in a hashed name. [Append] escapes it.
	sumMark = '#'
	sumSize = 22 // length of an encoded sum in bytes
)

// AppendSum appends the end of a hashed name: sumMark and the sum, as in
// "user#4kWXjsbSBbkYkHdLyaQgIQ".
func AppendSum(b []byte, sum Sum) []byte {
	return sumText.AppendEncode(append(b, sumMark), sum[:])
}

// SumIn returns the sum at the end of a hashed name, and the part before it. A hashed name contains
// no colon, so a plain name such as "user:ann" is never mistaken for a hashed one.
func SumIn(name string) (before string, sum Sum, ok bool) {
	at := len(name) - sumSize
	if at < 1 || name[at-1] != sumMark || strings.IndexByte(name, ':') >= 0 {
		return "", sum, false
	}
	_, err := sumText.Decode(sum[:], []byte(name[at:]))
	return name[:at-1], sum, err == nil
}

// IsHashed reports whether a subject has the form of a hashed name: a kind, which may be empty,
// followed by a sum.
func IsHashed(subject string) bool {
	before, _, ok := SumIn(subject)
	return ok && (before == "" || syntax.IsShortName(before))
}

// Kind returns the kind of a subject: the word before the first colon, or "" if there is no colon
// or the word is not a valid name.
func Kind(subject string) string {
	if before, _, ok := strings.Cut(subject, ":"); ok && syntax.IsShortName(before) {
		return before
	}
	return ""
}
