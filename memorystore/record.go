package memorystore

import (
	"bytes"
	"hash/maphash"
	"slices"
	"unsafe"

	"github.com/stint-limiter/stint/internal/algorithm"
)

// record is what is known of one subject in one scope, or of its limits with one name there: a
// state of the rules. Most subjects have a short key and one limit without a name: that is all in
// here.
type record struct {
	count algorithm.Count // of the first limit; in use if it has a tag
	last  int64           // the clock at the last write of a count
	rest  *rest
	// generation is that of the state, 0 until there is one.
	generation uint32
	size       uint8 // of the key, with named; or longKey; 0 in a free record
	split      uint8 // where in the key the scope starts
	key        [18]byte
}

const (
	// longKey is the size of a key that is in rest.
	longKey = 255
	// named marks the size of a key that ends with a name and the length of that.
	named = 128
)

// rest is what is known of some subjects.
type rest struct {
	// If the key is too long for the record: it, and where in it scope and name start.
	key         []byte
	split, name int

	// Of the limits that are not in the record. One without a tag is free.
	counts  []algorithm.Count
	holders []held

	// These are in the record without a name.
	ids     ids
	settled settledList
	ban     *ban // of the subject; in its record with an empty scope
}

// recordBytes is about what a record takes, with its slot in the index and the room that a shard
// has for more of both. It is a little too much for large shards, and a little too little for small
// ones.
const recordBytes = int(unsafe.Sizeof(record{}))*9/8 + 6

func (r *record) setKey(subject, scope, name string) {
	n := len(subject) + len(scope) + len(name)
	if name != "" {
		n++
	}
	key := r.key[:0]
	if n > len(r.key) {
		key = slices.Grow([]byte(nil), n) // has the capacity that the allocator gives
	}
	key = append(append(append(key, subject...), scope...), name...)
	if n > len(r.key) {
		r.size = longKey
		r.rest = &rest{key: key, split: len(subject), name: len(subject) + len(scope)}
		return
	}
	r.size, r.split = uint8(n), uint8(len(subject))
	if name != "" {
		r.key[n-1] = uint8(len(name))
		r.size |= named
	}
}

// fullKey returns subject, scope and name, and where the latter two start.
func (r *record) fullKey() (key []byte, split, name int) {
	if r.size == longKey {
		return r.rest.key, r.rest.split, r.rest.name
	}
	n := int(r.size &^ named)
	if r.size&named == 0 {
		return r.key[:n], int(r.split), n
	}
	n--
	return r.key[:n], int(r.split), n - int(r.key[n])
}

func (r *record) hasKey(subject, scope, name string) bool {
	if scope == "" && name == "" && r.size == r.split {
		return int(r.size) == len(subject) && string(r.key[:r.size]) == subject
	}
	key, s, n := r.fullKey()
	return s == len(subject) && n == s+len(scope) && len(key) == n+len(name) &&
		string(key[:s]) == subject && string(key[s:n]) == scope && string(key[n:]) == name
}

// subject is whose record it is.
func (r *record) subject() string {
	key, split, _ := r.fullKey()
	return string(key[:split])
}

// scope is where the record counts.
func (r *record) scope() string {
	key, split, name := r.fullKey()
	return string(key[split:name])
}

// isOf reports whether a record is of a subject, in any scope. A free record has no subject.
func (r *record) isOf(subject string) bool {
	key, split, _ := r.fullKey()
	return string(key[:split]) == subject
}

// sameSubject reports whether two records are of one subject.
func (r *record) sameSubject(other *record) bool {
	a, i, _ := r.fullKey()
	b, k, _ := other.fullKey()
	return bytes.Equal(a[:i], b[:k])
}

// hash is that of the record's key. See withScope.
func (r *record) hash(seed maphash.Seed) uint64 {
	key, split, name := r.fullKey()
	h := maphash.Bytes(seed, key[:split])
	if split < name {
		h ^= spread(maphash.Bytes(seed, key[split:name]))
	}
	if name < len(key) {
		h ^= spread(spread(maphash.Bytes(seed, key[name:])))
	}
	return h
}

// withScope is the hash of a subject, scope and name, given that of the subject, which alone
// decides the shard.
func withScope(seed maphash.Seed, subject uint64, scope, name string) uint64 {
	if scope != "" {
		subject ^= spread(maphash.String(seed, scope))
	}
	if name != "" {
		subject ^= spread(spread(maphash.String(seed, name)))
	}
	return subject
}

func spread(h uint64) uint64 { return h * 0x9e3779b97f4a7c15 }

// stepBack follows a clock that stepped back to now.
func (r *record) stepBack(now int64) {
	back := r.last - now
	r.count.StepBack(back, now)
	if r.rest != nil {
		for i := range r.rest.counts {
			r.rest.counts[i].StepBack(back, now)
		}
	}
	r.last = now
}

// countAt returns the count at an index: the record's own, then those in rest.
func (r *record) countAt(index int) *algorithm.Count {
	if index == 0 {
		return &r.count
	}
	return &r.rest.counts[index-1]
}

// more returns the record's rest, a new one if it had none.
func (r *record) more() *rest {
	if r.rest == nil {
		r.rest = new(rest)
	}
	return r.rest
}

// bytes is what the record holds.
func (r *record) bytes() int { return recordBytes + r.count.Bytes() + r.rest.bytes() }

func (r *rest) bytes() int {
	if r == nil {
		return 0
	}
	n := int(allocated(unsafe.Sizeof(*r))) + cap(r.key) +
		cap(r.counts)*int(unsafe.Sizeof(algorithm.Count{})) +
		cap(r.holders)*int(unsafe.Sizeof(held{})) +
		r.ids.bytes() + r.settled.bytes() + r.ban.bytes()
	for i := range r.counts {
		n += r.counts[i].Bytes()
	}
	for i := range r.holders {
		n += r.holders[i].Bytes()
	}
	return n
}

// allocated is what the allocator gives to a small value of some size.
func allocated(size uintptr) uintptr { return (size + 15) &^ 15 }

// banOf returns the ban in a record that may be nil.
func banOf(r *record) *ban {
	if r == nil || r.rest == nil {
		return nil
	}
	return r.rest.ban
}
