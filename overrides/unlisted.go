package overrides

import (
	"hash/maphash"
	"sync/atomic"
)

// unlisted caches which subjects have no overrides, so that most decisions need neither a lock nor
// the stored name of the subject, which may be a hash. Every change clears the cache.
type unlisted struct {
	seed  maphash.Seed
	turn  atomic.Uint64 // number of changes to the table
	marks [1 << 14]atomic.Uint64
}

// mark returns a hash of a subject and of the number of changes so far. The probability that two
// subjects have the same mark is 2^-64. Call mark before looking for the subject's overrides: if
// the table changes in between, the mark is outdated, and adding the mark has no effect.
func (u *unlisted) mark(subject string) uint64 {
	return maphash.String(u.seed, subject) + u.turn.Load()*0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
}

func (u *unlisted) has(mark uint64) bool { return u.slot(mark).Load() == mark }

func (u *unlisted) add(mark uint64) { u.slot(mark).Store(mark) }

func (u *unlisted) slot(mark uint64) *atomic.Uint64 { return &u.marks[mark%uint64(len(u.marks))] }

func (u *unlisted) clear() { u.turn.Add(1) }
