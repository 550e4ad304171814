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

// ofPart adds the key of a part: a state, or the holders of a limit.
func (k *keys) ofPart(p *part) {
	if p.holders() {
		k.inScope(p.subject, p.scope, p.limits[0].ID())
		return
	}
	k.inScope(p.subject, p.scope, stateKey)
	if p.name != "" {
		k.buf = append(append(k.buf, '/'), p.name...)
		k.ends[len(k.ends)-1] = len(k.buf)
	}
}

// stateKey is how the key of a state ends, but for the name of its limits.
const stateKey = "limits"

// ofRequest adds the keys that take.lua wants for a request of such parts.
func (k *keys) ofRequest(r *stint.Request, parts []part) {
	for i := range parts {
		k.ofPart(&parts[i])
	}
	if r.ObeysBans() {
		for _, what := range [...]string{"ban", "strikes"} {
			for i := range 1 + len(r.And) {
				k.ofSubject(r.ClaimAt(i).Subject, what)
			}
		}
	}
	if r.ID != "" {
		k.inScope(r.Subject, r.Scope, "ids")
	}
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
