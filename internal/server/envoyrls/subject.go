package envoyrls

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// A counter's subject is its descriptor in a form that people can read and no two descriptors
// share:
//
//	envoy:messaging:message_type=marketing,to_number=2061111111
//
// What separates the parts is escaped in them as %2c. A subject that is too long to be read anyway
// is a hash, envoy#…: requests choose how long descriptors are.
const (
	subjectPrefix = "envoy:"
	hashPrefix    = "envoy#"
	maxSubject    = 4 << 10
)

// subjectOf is what the subjects of a domain begin with.
func subjectOf(domain string) string {
	return string(append(appendEscaped([]byte(subjectPrefix), domain, ":%"), ':'))
}

func appendEntry(b []byte, i int, key, value string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = append(appendEscaped(b, key, "=,%"), '=')
	return appendEscaped(b, value, ",%")
}

func appendDescriptor(b []byte, d *commonv3.RateLimitDescriptor) []byte {
	for i, e := range d.GetEntries() {
		b = appendEntry(b, i, e.GetKey(), e.GetValue())
	}
	return b
}

// appendEscaped appends a text in which none of the reserved characters is left.
func appendEscaped(b []byte, text, reserved string) []byte {
	for {
		i := strings.IndexAny(text, reserved)
		if i < 0 {
			return append(b, text...)
		}
		b = append(b, text[:i]...)
		b = append(b, '%')
		b = hex.AppendEncode(b, []byte{text[i]})
		text = text[i+1:]
	}
}

// finishSubject returns the subject as a text of bounded length.
func finishSubject(b []byte) string {
	if len(b) <= maxSubject {
		return string(b)
	}
	sum := sha256.Sum256(b)
	return hashPrefix + hex.EncodeToString(sum[:])
}
