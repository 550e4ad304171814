package memorystore

import "sync/atomic"

// load is how many records a shard has, in the lower half, and how many of them may have room, in the
// upper one: of two loads the greater is that with more records to evict, as long as there are any in either.
type load int64

const (
	oneRecord load = 1
	oneRoomy  load = 1 << 32
)

func (l load) records() int64 { return int64(l & (oneRoomy - 1)) }
func (l load) roomy() int64   { return int64(l >> 32) }

// gauge is a shard's load. It is written under the shard's lock and read without.
type gauge struct{ n atomic.Int64 }

func (g *gauge) get() load  { return load(g.n.Load()) }
func (g *gauge) add(l load) { g.n.Add(int64(l)) }

// heaviest returns the shard to evict from: a call's own, if its load is not much less than the greatest, so that
// calls rarely meet, else that with the greatest.
//
// The greatest load is looked for once in as many evictions as there are shards, and whenever the one that
// was found last has no record left that may have room.
func (s *Store) heaviest(own uint32) uint32 {
	heavy := s.heavy.Load()
	if s.turns.Add(1)%uint32(len(s.shards)) == 1 || s.loads[heavy].get().roomy() == 0 {
		heavy = s.findHeaviest()
		s.heavy.Store(heavy)
	}
	most, mine := s.loads[heavy].get(), s.loads[own].get()
	a, b := most.roomy(), mine.roomy()
	if a == 0 {
		a, b = most.records(), mine.records()
	}
	if b > 0 && b >= a-a/4 {
		return own
	}
	return heavy
}

func (s *Store) findHeaviest() uint32 {
	heavy, most := 0, load(-1)
	for i := range s.loads {
		if l := s.loads[i].get(); l > most {
			heavy, most = i, l
		}
	}
	return uint32(heavy)
}
