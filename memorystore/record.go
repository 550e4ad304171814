package memorystore

import (
	"hash/maphash"
	"unsafe"

	"github.com/stint-limiter/stint/internal/algorithm"
)

// record is what is known of one subject in one scope. Most subjects have a
// short key and one sliding or fixed limit: that is all in here.
type record struct {
	log   algorithm.Log // of the first such limit; in use if it has a tag
	rest  *rest
	size  uint8 // of the key, or longKey; 0 in a free record
	split uint8 // where in the key the scope starts
	key   [22]byte
}

// longKey is the size of a key that is in rest.
const longKey = 255

// rest is what is known of some subjects.
type rest struct {
	key   string // if too long for the record
	split int

	// Of the limits that are not in the record. One without a tag is free.
	logs    []algorithm.Log
	buckets []algorithm.Bucket
	holders []algorithm.Concurrency

	ids     ids
	settled settled
	ban     *ban // of the subject; in its record with an empty scope
}

// recordBytes is what a record takes, its place in the index included.
const recordBytes = int(unsafe.Sizeof(record{})) + 6

func (r *record) setKey(subject, scope string) {
	if n := len(subject) + len(scope); n <= len(r.key) {
		r.size, r.split = uint8(n), uint8(len(subject))
		copy(r.key[:], subject)
		copy(r.key[len(subject):], scope)
		return
	}
	r.size = longKey
	r.rest = &rest{key: subject + scope, split: len(subject)}
	if scope == "" {
		r.rest.key = string([]byte(subject)) // not a piece of something larger
	}
}

func (r *record) hasKey(subject, scope string) bool {
	if scope == "" && r.size == r.split {
		return int(r.size) == len(subject) && string(r.key[:r.size]) == subject
	}
	if r.size == longKey {
		k := r.rest.key
		return len(k) == len(subject)+len(scope) && r.rest.split == len(subject) &&
			k[:len(subject)] == subject && k[len(subject):] == scope
	}
	return int(r.size) == len(subject)+len(scope) && int(r.split) == len(subject) &&
		string(r.key[:r.split]) == subject && string(r.key[r.split:r.size]) == scope
}

// hash is that of the record's key. See hashOf.
func (r *record) hash(seed maphash.Seed) uint64 {
	if r.size == longKey {
		return withScope(seed, maphash.String(seed, r.rest.key[:r.rest.split]), r.rest.key[r.rest.split:])
	}
	h := maphash.Bytes(seed, r.key[:r.split])
	if r.split == r.size {
		return h
	}
	return h ^ spread(maphash.Bytes(seed, r.key[r.split:r.size]))
}

// withScope is the hash of a subject and scope, given that of the subject, which
// alone decides the shard.
func withScope(seed maphash.Seed, subject uint64, scope string) uint64 {
	if scope == "" {
		return subject
	}
	return subject ^ spread(maphash.String(seed, scope))
}

func spread(h uint64) uint64 { return h * 0x9e3779b97f4a7c15 }

// more returns the record's rest, a new one if it had none.
func (r *record) more() *rest {
	if r.rest == nil {
		r.rest = new(rest)
	}
	return r.rest
}

// bytes is what the record holds.
func (r *record) bytes() int { return recordBytes + r.log.Bytes() + r.rest.bytes() }

func (r *rest) bytes() int {
	if r == nil {
		return 0
	}
	n := int(unsafe.Sizeof(rest{})) + len(r.key) +
		cap(r.logs)*int(unsafe.Sizeof(algorithm.Log{})) +
		cap(r.buckets)*int(unsafe.Sizeof(algorithm.Bucket{})) +
		cap(r.holders)*int(unsafe.Sizeof(algorithm.Concurrency{})) +
		r.ids.bytes() + r.settled.bytes() + r.ban.bytes()
	for i := range r.logs {
		n += r.logs[i].Bytes()
	}
	for i := range r.buckets {
		n += r.buckets[i].Bytes()
	}
	for i := range r.holders {
		n += r.holders[i].Bytes()
	}
	return n
}

// banOf returns the ban in a record that may be nil.
func banOf(r *record) *ban {
	if r == nil || r.rest == nil {
		return nil
	}
	return r.rest.ban
}
