package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"

	"github.com/stint-limiter/stint"
)

// maxPart is the longest part of a key that is kept readable, in bytes after
// escaping. A longer one is replaced by a hash.
const maxPart = 128

// hashMark begins a part that was replaced by a hash. Escaping never produces it.
const hashMark = '~'

// appendPart writes a part of a key. It is injective for any bytes, keeps letters,
// digits and common punctuation, and never writes a brace, which would move the
// hash tag, nor a colon unless colons are allowed, as they are inside the tag.
func appendPart(b []byte, part string, colons bool) []byte {
	start := len(b)
	for i := range len(part) {
		if c := part[i]; plain(c) || c == ':' && colons {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
		if len(b)-start > maxPart {
			sum := sha256.Sum256([]byte(part))
			b = append(b[:start], hashMark)
			return hex.AppendEncode(b, sum[:20])
		}
	}
	return b
}

// readPart is the inverse of appendPart; it cannot read a part that was hashed.
func readPart(text string) (string, bool) {
	if text == "" || text[0] == hashMark {
		return "", false
	}
	part, err := url.PathUnescape(text)
	return part, err == nil
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

// keys collects the keys of one call in one buffer: they share a prefix and end
// up as substrings of one string.
type keys struct {
	store *Store
	buf   []byte
	ends  []int
}

func (k *keys) end() { k.ends = append(k.ends, len(k.buf)) }

// tag begins a key: prefix and hash tag.
func (k *keys) tag(subject string) {
	k.buf = append(k.buf, k.store.prefix...)
	k.buf = append(k.buf, ":{"...)
	k.buf = appendPart(k.buf, subject, true)
	k.buf = append(k.buf, "}:"...)
}

// ofSubject adds a key of the subject as a whole.
func (k *keys) ofSubject(subject, what string) {
	k.tag(subject)
	k.buf = append(k.buf, what...)
	k.end()
}

// inScope adds a key of the subject in one scope.
func (k *keys) inScope(subject, scope, what string) {
	k.tag(subject)
	if scope != "" {
		k.buf = appendPart(k.buf, scope, false)
		k.buf = append(k.buf, ':')
	}
	k.buf = append(k.buf, what...)
	k.end()
}

// ofLimits adds a key for each limit of a claim.
func (k *keys) ofLimits(subject, scope string, limits []stint.Limit) {
	for i := range limits {
		k.inScope(subject, scope, k.store.limitID(&limits[i]))
	}
}

// ofRequest adds the keys that decide.lua wants for a request.
func (k *keys) ofRequest(r *stint.Request) {
	claims := 1 + len(r.And)
	for i := range claims {
		c := r.ClaimAt(i)
		k.ofLimits(c.Subject, c.Scope, c.Limits)
	}
	if r.Bans != nil {
		for _, what := range [...]string{"ban", "strikes"} {
			for i := range claims {
				k.ofSubject(r.ClaimAt(i).Subject, what)
			}
		}
	}
	if r.ID != "" {
		k.inScope(r.Subject, r.Scope, "ids")
	}
}

// keysOf is how many keys ofRequest adds.
func keysOf(r *stint.Request) int {
	n := len(r.Limits)
	for i := range r.And {
		n += len(r.And[i].Limits)
	}
	if r.Bans != nil {
		n += 2 * (1 + len(r.And))
	}
	if r.ID != "" {
		n++
	}
	return n
}

func (k *keys) strings() []string {
	text := string(k.buf)
	out := make([]string, len(k.ends))
	start := 0
	for i, end := range k.ends {
		out[i] = text[start:end]
		start = end
	}
	return out
}

// identity is what limits share their state by.
type identity struct {
	algorithm stint.Algorithm
	window    int64
	name      string
}

// maxIdentities bounds the memory of limit names that are kept as text.
const maxIdentities = 10_000

// limitID is Limit.ID, remembered: a key's last part.
func (s *Store) limitID(l *stint.Limit) string {
	id := identity{l.Algorithm, int64(l.Window), l.Name}
	known := s.identities.Load()
	if text, ok := (*known)[id]; ok {
		return text
	}
	text := l.ID()
	if len(*known) < maxIdentities {
		grown := make(map[identity]string, len(*known)+1)
		for k, v := range *known {
			grown[k] = v
		}
		grown[id] = text
		s.identities.CompareAndSwap(known, &grown)
	}
	return text
}
