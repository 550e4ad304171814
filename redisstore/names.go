package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

// names hashes identifying strings with one name key before they reach Redis: subjects, request
// ids, and scopes that contain a colon. A nil *names leaves them unchanged. See [Config.NameKeys].
type names struct {
	fingerprint string // identifies the key without revealing it
	macs        sync.Pool
	recent      recent
}

// Kinds of hashed strings. Equal strings of different kinds have different hashes.
const (
	ofSubject = iota
	ofScope
	ofID
	ofKey
)

func newNames(key []byte) *names {
	n := &names{}
	n.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	sum := n.sum(ofKey, "")
	n.fingerprint = hex.EncodeToString(sum[:8])
	return n
}

// mac is the state of one hash computation.
type mac struct {
	hash.Hash
	in  []byte
	out [sha256.Size]byte
}

// sum returns the hash of text, a string of the given kind.
func (n *names) sum(kind byte, text string) (sum keypart.Sum) {
	m := n.macs.Get().(*mac)
	m.Reset()
	m.in = append(append(m.in[:0], kind), text...)
	_, _ = m.Write(m.in) // never fails
	copy(sum[:], m.Sum(m.out[:0]))
	n.macs.Put(m)
	return sum
}

// appendSubject appends a subject: its kind in plain text, and a hash of the whole subject.
func (n *names) appendSubject(b []byte, subject string) []byte {
	return keypart.AppendSum(append(b, keypart.Kind(subject)...), n.sum(ofSubject, subject))
}

// appendScope appends a scope: the part before its first colon in plain text and, if it has a
// colon, a hash of the whole scope.
func (n *names) appendScope(b []byte, scope string) []byte {
	before, _, divided := strings.Cut(scope, ":")
	if b = keypart.Append(b, before, false); !divided {
		return b
	}
	return keypart.AppendSum(b, n.sum(ofScope, scope))
}

// id returns the hash that replaces a request id.
func (n *names) id(id string) string {
	if n == nil || id == "" {
		return id
	}
	sum := n.sum(ofID, id)
	return string(sum[:])
}

// recent maps hashes to subjects, because announcements contain only hashes. It has the subjects
// whose denials, bans or leases this process may remember. To bound its size, it forgets the oldest
// subjects, and then does not recognize announcements about them.
type recent struct {
	mu         sync.Mutex
	young, old map[keypart.Sum]string
}

// maxRecent is the maximum number of subjects in recent.young.
const maxRecent = 1 << 15

// note remembers the subjects of a request that was denied or asked for a lease.
func (n *names) note(r *stint.Request, d *stint.Decision) {
	if n == nil || d.Allowed && r.Terms().Lease == 0 {
		return
	}
	for i := range r.Claims {
		subject := r.Claims[i].Subject
		n.recent.add(n.sum(ofSubject, subject), subject)
	}
}

func (r *recent) add(sum keypart.Sum, subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.young[sum]; known {
		return
	}
	if r.young == nil || len(r.young) >= maxRecent {
		r.young, r.old = map[keypart.Sum]string{}, r.young
	}
	r.young[sum] = strings.Clone(subject)
}

// recall returns the subject of a name in an announcement, or the name itself if the subject is not
// known.
func (n *names) recall(name string) string {
	_, sum, ok := keypart.SumIn(name)
	if n == nil || !ok {
		return name
	}
	n.recent.mu.Lock()
	defer n.recent.mu.Unlock()
	for _, known := range []map[keypart.Sum]string{n.recent.young, n.recent.old} {
		if subject, ok := known[sum]; ok {
			return subject
		}
	}
	return name
}
