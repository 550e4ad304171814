package overrides

import (
	"hash/maphash"
	"sync/atomic"
)

// unlisted remembers of some subjects that they have no override, so that most decisions need no
// lock and no name of the store, which may be a hash. It forgets all of them with every change.
type unlisted struct {
	seed  maphash.Seed
	turn  *atomic.Uint64 // how many changes there were
	marks *[unlistedSize]atomic.Uint64
}

const unlistedSize = 1 << 14

func newUnlisted() unlisted {
	return unlisted{maphash.MakeSeed(), new(atomic.Uint64), new([unlistedSize]atomic.Uint64)}
}

// mark stands for a subject as of now: a hash, which is the same for two of them once in 2^64. Make
// it before you look for their overrides.
func (u *unlisted) mark(subject string) uint64 {
	return maphash.String(u.seed, subject) + u.turn.Load()*0x9e3779b97f4a7c15 // 2^64 by the golden ratio
}

func (u *unlisted) has(mark uint64) bool { return u.marks[mark%unlistedSize].Load() == mark }

func (u *unlisted) add(mark uint64) { u.marks[mark%unlistedSize].Store(mark) }

func (u *unlisted) clear() { u.turn.Add(1) }
