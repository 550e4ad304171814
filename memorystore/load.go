package memorystore

import "sync/atomic"

// class is whether a record is noted as having room.
type class int

const (
	near  class = iota // one of its limits has less than half left
	roomy              // each has at least half left, or had when that was last looked at
	classes
)

// roomyShare is the part of the store that records with room keep, one record in so many. Until
// loads are compared again it may be one record per shard more.
const roomyShare = 32

// loads is how many records of each class a shard has. It is written under the shard's lock and
// read without.
type loads [classes]atomic.Int32

// heaviest returns the class to evict from, and the shard: a call's own, if it does not have much
// less of that class than the one that has the most, so that calls rarely meet.
//
// Loads are compared once in as many evictions as there are shards, and whenever the shard that had
// the most has none.
func (s *Store) heaviest(own uint32) (uint32, class) {
	c := class(s.evictable.Load())
	heavy := s.heavy[c].Load()
	if s.turns.Add(1)%uint32(len(s.shards)) == 1 || s.loads[heavy][c].Load() == 0 {
		c = s.compareLoads()
		heavy = s.heavy[c].Load()
	}
	most, mine := s.loads[heavy][c].Load(), s.loads[own][c].Load()
	if mine > 0 && mine >= most-most/4 {
		return own, c
	}
	return heavy, c
}

// compareLoads notes which shard has the most records of each class, and which class is to be
// evicted from.
func (s *Store) compareLoads() class {
	var most, total [classes]int64
	var heavy [classes]uint32
	for i := range s.loads {
		for c := range classes {
			n := int64(s.loads[i][c].Load())
			if total[c] += n; n > most[c] {
				most[c], heavy[c] = n, uint32(i)
			}
		}
	}
	c := near
	if total[near] == 0 || total[roomy] > (total[near]+total[roomy])/roomyShare {
		c = roomy
	}
	s.evictable.Store(uint32(c))
	for c := range classes {
		s.heavy[c].Store(heavy[c])
	}
	return c
}
