package contract

import (
	"sync"

	"github.com/stint-limiter/stint"
)

// slabSize is how many usages are allocated at a time. More cost memory: every shard of a memory
// store keeps what is left of a slab.
const slabSize = 32

// Slab is a supply of usages for decisions, so that most decisions allocate nothing. The zero Slab
// is empty and ready. It must not be used by several goroutines at once.
type Slab struct{ free []stint.Usage }

// Cut returns n zero usages that nothing else refers to.
func (s *Slab) Cut(n int) []stint.Usage {
	if n > len(s.free) {
		s.free = make([]stint.Usage, max(n, slabSize))
	}
	usages := s.free[:n:n]
	s.free = s.free[n:]
	return usages
}

var slabs = sync.Pool{New: func() any { return new(Slab) }}

// Usages returns n zero usages from a slab that the goroutines of a processor share.
func Usages(n int) []stint.Usage {
	s := slabs.Get().(*Slab)
	usages := s.Cut(n)
	slabs.Put(s)
	return usages
}
