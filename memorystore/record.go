package memorystore

import (
	"hash/maphash"
	"slices"
	"unsafe"

	"github.com/stint-limiter/stint/internal/algorithm"
)

// record is what docs/rules.md calls a state: the counts of one subject in one scope, under limits
// with one name or without a name. Most subjects have a short key and one limit without a name, so
// the field rest of their records is usually nil.
type record struct {
	count algorithm.Count // count of the first limit; in use if its Owner is not 0
	last  int64           // time of the last write of a count
	rest  *rest
	// generation is 0 until a count is written.
	generation uint32
	// The first size bytes of key are the subject, the scope and the name of the limits, one after
	// another. split is the offset of the scope, and name is the offset of the name. A free record
	// has no key.
	size, split, name uint8
	key               [17]byte
}

// longKey is the value of size for a record whose key is in rest.
const longKey = 255

// rest has the fields that few records need.
type rest struct {
	// key, split and name are used if the key is too long for the record. split and name are the
	// offsets of the scope and the name.
	key         []byte
	split, name int

	counts []algorithm.Count // counts of all limits except the first

	holds holds // open holds of charges in this record

	// Only records without a name have the fields below.
	ids     ids
	settled settledList
	ban     *ban // ban of the subject; only in its record with an empty scope
}

// recordBytes is the approximate number of bytes that a record takes, with its slot in the index
// and the spare room that a shard has for more of both. It is slightly too high for large shards,
// and slightly too low for small ones.
const recordBytes = int(unsafe.Sizeof(record{}))*9/8 + 6

func (r *record) setKey(subject, scope, name string) {
	split, end := len(subject), len(subject)+len(scope)
	key := r.key[:0]
	if n := end + len(name); n > len(r.key) {
		key = slices.Grow([]byte(nil), n) // uses the full capacity of the allocation
	}
	key = append(append(append(key, subject...), scope...), name...)
	if len(key) > len(r.key) {
		r.size = longKey
		r.rest = &rest{key: key, split: split, name: end}
		return
	}
	r.size, r.split, r.name = uint8(len(key)), uint8(split), uint8(end)
}

// fullKey returns subject, scope and name, one after another, and the offsets of scope and name.
func (r *record) fullKey() (key []byte, split, name int) {
	if r.size == longKey {
		return r.rest.key, r.rest.split, r.rest.name
	}
	return r.key[:r.size], int(r.split), int(r.name)
}

func (r *record) hasKey(subject, scope, name string) bool {
	if scope == "" && name == "" && r.size == r.split { // the usual case
		return string(r.key[:r.size]) == subject
	}
	key, s, n := r.fullKey()
	return s == len(subject) && n == s+len(scope) && len(key) == n+len(name) &&
		string(key[:s]) == subject && string(key[s:n]) == scope && string(key[n:]) == name
}

func (r *record) subject() string {
	key, split, _ := r.fullKey()
	return string(key[:split])
}

func (r *record) scope() string {
	key, split, name := r.fullKey()
	return string(key[split:name])
}

// isOf reports whether a record belongs to a subject, in any scope. A free record has no subject.
func (r *record) isOf(subject string) bool {
	key, split, _ := r.fullKey()
	return string(key[:split]) == subject
}

// hash returns the hash of the record's key. See withScope.
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

// withScope returns the hash of a subject, scope and name, given the hash of the subject. Only the
// subject determines the shard.
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

// stepBack moves the times of the states back after the clock stepped back to now.
func (r *record) stepBack(now int64) {
	back := r.last - now
	for i := range r.states() {
		r.state(i).StepBack(back, now)
	}
	r.last = now
}

// In the functions below, unlike in docs/rules.md, a state is the count of one limit. A record has
// a state for each limit. The first is in the record itself, and the others are in rest. The tag of
// a state, Count.Owner, identifies the limit under which the state was last written. That limit
// determines when the state expires. A free state has the tag 0.

// states returns the number of states of a record, including free ones. r may be nil.
func (r *record) states() int {
	switch {
	case r == nil:
		return 0
	case r.rest == nil:
		return 1
	}
	return 1 + len(r.rest.counts)
}

func (r *record) state(i int) *algorithm.Count {
	if i == 0 {
		return &r.count
	}
	return &r.rest.counts[i-1]
}

func (sh *shard) free(r *record, i int) {
	sh.untag(r.state(i).Owner)
	*r.state(i) = algorithm.Count{}
}

func (r *record) more() *rest {
	if r.rest == nil {
		r.rest = new(rest)
	}
	return r.rest
}

func (r *record) bytes() int { return recordBytes + r.count.Bytes() + r.rest.bytes() }

func (r *rest) bytes() int {
	if r == nil {
		return 0
	}
	n := int(allocated(unsafe.Sizeof(*r))) + cap(r.key) +
		cap(r.counts)*int(unsafe.Sizeof(algorithm.Count{})) +
		r.holds.bytes() + r.ids.bytes() + r.settled.bytes() + r.ban.bytes()
	for i := range r.counts {
		n += r.counts[i].Bytes()
	}
	return n
}

// allocated returns the memory that the allocator uses for a small value of the given size.
func allocated(size uintptr) uintptr { return (size + 15) &^ 15 }

// banOf returns the ban in a record, or nil. r may be nil.
func banOf(r *record) *ban {
	if r == nil || r.rest == nil {
		return nil
	}
	return r.rest.ban
}
