package keypart

import (
	"encoding/base64"
	"strings"

	"github.com/stint-limiter/stint/internal/words"
)

// Sum is the keyed hash of a name: 128 bits, in which no two names collide.
type Sum [16]byte

// sumText is how sums are written. All of its characters stand as they are in keys.
var sumText = base64.RawURLEncoding.Strict()

const (
	// sumMark begins a sum in a name. Append escapes it.
	sumMark = '#'
	sumSize = 22 // characters
	// maxKind is how long a kind may be: as long as a name in a configuration.
	maxKind = 64
)

// AppendSum writes a sum, which ends a hashed name: "user#4kWXjsbSBbkYkHdLyaQgIQ".
func AppendSum(b []byte, sum Sum) []byte {
	return sumText.AppendEncode(append(b, sumMark), sum[:])
}

// SumIn returns the sum that a hashed name ends with, and what stands before it. There is no colon
// in that: no name of somebody that begins with a kind is taken for a hashed one.
func SumIn(name string) (before string, sum Sum, ok bool) {
	at := len(name) - sumSize
	if at < 1 || name[at-1] != sumMark || strings.IndexByte(name, ':') >= 0 {
		return "", sum, false
	}
	_, err := sumText.Decode(sum[:], []byte(name[at:]))
	return name[:at-1], sum, err == nil
}

// IsHashed reports whether a subject is one that was hashed: a kind, or nothing, and a sum.
func IsHashed(subject string) bool {
	before, _, ok := SumIn(subject)
	return ok && (before == "" || isKind(before))
}

// Kind returns the kind of a subject, or "" if it has none: the word before the first colon.
func Kind(subject string) string {
	if before, _, ok := strings.Cut(subject, ":"); ok && isKind(before) {
		return before
	}
	return ""
}

func isKind(word string) bool { return words.IsName(word) && len(word) <= maxKind }
