package envoyrls

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// The subject of a counter consists of a domain and a descriptor, in a readable and unique form:
//
//	envoy:messaging:message_type=marketing,to_number=2061111111
//
// Separators within the parts are escaped, for example as %2c. Clients can make descriptors long,
// so a subject that would be longer than maxSubject is replaced by its hash: envoy#….
const (
	subjectPrefix = "envoy:"
	hashPrefix    = "envoy#"
	maxSubject    = 4 << 10
)

// subjectOf returns the prefix of the subjects of all counters in a domain.
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

func finishSubject(b []byte) string {
	if len(b) <= maxSubject {
		return string(b)
	}
	sum := sha256.Sum256(b)
	return hashPrefix + hex.EncodeToString(sum[:])
}

func readSubject(subject string) (domain string, d *commonv3.RateLimitDescriptor, ok bool) {
	rest, ok := strings.CutPrefix(subject, subjectPrefix)
	if !ok {
		return "", nil, false
	}
	domain, rest, ok = strings.Cut(rest, ":")
	if !ok {
		return "", nil, false
	}
	d = &commonv3.RateLimitDescriptor{}
	for entry := range strings.SplitSeq(rest, ",") {
		key, value, found := strings.Cut(entry, "=")
		key, errKey := url.PathUnescape(key)
		value, errValue := url.PathUnescape(value)
		if !found || errKey != nil || errValue != nil {
			return "", nil, false
		}
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	domain, err := url.PathUnescape(domain)
	return domain, d, err == nil
}
