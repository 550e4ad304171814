package memorystore

import (
	"slices"
	"sync/atomic"

	"github.com/stint-limiter/stint/internal/algorithm"
)

const (
	// Records with room are not evicted while at most one record in roomyShare has room.
	// compareLoads checks this share only once in len(shards) evictions, so slightly more of them
	// may be evicted.
	roomyShare = 32
	// enough is the minimum unused share of every limit in a record with room.
	enough = 0.5
	// evictAmong is the number of records that are compared before one is evicted. If all of them
	// have a ban, a place or an open hold, up to evictFurther records are compared.
	evictAmong   = 16
	evictFurther = 512
	// evictMost is the maximum number of records evicted each time a shard is locked.
	evictMost = 64
)

// class describes whether a record had room when it was last examined.
type class int

const (
	near  class = iota // a limit had less than half left, or there was a ban, a place or an open hold
	roomy              // otherwise: each limit had at least half left
	classes
)

// loads counts a shard's records of each class. Writers hold the shard's lock; readers do not.
type loads [classes]atomic.Int32

type bounds struct{ subjects, bytes int64 }

// written describes the writes of one call, which the store has not counted yet.
type written struct {
	subject        string // subject of the call's first claim
	shard          uint32 // shard of that subject
	now            int64
	bytes, records int64
	spare          []*record // the call's records, which are evicted last
}

// add counts the writes w. If an increase would exceed the bounds, it counts nothing and returns
// false.
func (s *Store) add(w *written) bool {
	if !addWithin(&s.subjects, w.records, s.bounds.subjects) {
		return false
	}
	if !addWithin(&s.bytes, w.bytes, s.bounds.bytes) {
		s.subjects.Add(-w.records)
		return false
	}
	return true
}

func addWithin(counter *atomic.Int64, n, most int64) bool {
	for {
		old := counter.Load()
		if n > 0 && old > most-n {
			return false
		}
		if n == 0 || counter.CompareAndSwap(old, old+n) {
			return true
		}
	}
}

// over reports whether records must be evicted before the writes of a call fit into the store.
func (s *Store) over(w *written) bool {
	return s.bytes.Load() > s.bounds.bytes-w.bytes || s.subjects.Load() > s.bounds.subjects-w.records
}

// makeRoom counts the writes of a call, and first evicts records if the store would exceed its
// bounds. If no other records are left, it evicts those that the call has written. The caller holds
// no lock: makeRoom locks one shard at a time, so calls cannot deadlock.
func (s *Store) makeRoom(w *written) {
	for !s.add(w) {
		if s.evict(w) {
			continue
		}
		if w.spare == nil { // nothing is left to evict, so exceed the bounds
			s.bytes.Add(w.bytes)
			s.subjects.Add(w.records)
			return
		}
		w.spare = nil
	}
}

// evict evicts from the shard and the class that heaviest returns. If that shard has nothing to
// evict, evict tries the other shards, and then the other class. It reports false if there was
// nothing to evict at all.
func (s *Store) evict(w *written) bool {
	first, c := s.heaviest(w.shard)
	for _, c := range [...]class{c, roomy - c} {
		for i := range uint32(len(s.shards)) {
			n := (first + i) & uint32(len(s.shards)-1)
			if s.loads[n][c].Load() == 0 {
				continue
			}
			sh := &s.shards[n]
			sh.mu.Lock()
			evicted := sh.evict(w, c)
			sh.mu.Unlock()
			if evicted {
				return true
			}
		}
	}
	return false
}

// heaviest returns the shard and the class to evict from. The shard is the call's own shard, unless
// another has many more records of that class. So calls rarely contend for a shard.
//
// It calls compareLoads in one of len(s.shards) evictions, and whenever the shard that had the most
// records of the class has none left.
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

// compareLoads determines the shard with the most records of each class, and the class to evict
// from. It stores the results for heaviest, and returns the class.
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

// evict evicts records of a class from the shard while the store is too large. It reports false if
// there was nothing to evict.
func (sh *shard) evict(w *written, c class) bool {
	for i := range evictMost {
		if !sh.store.over(w) {
			return true
		}
		if !sh.evictOne(w, c) {
			return i > 0
		}
	}
	return true
}

// evictOne evicts the record that mostLeft returns. It reports false if there is none.
func (sh *shard) evictOne(w *written, c class) bool {
	now := max(w.now, sh.clock)
	n, found := sh.mostLeft(w, c, now)
	if !found {
		return false
	}
	if !sh.dead(sh.record(n), now) {
		sh.store.evicted.Add(1)
	}
	if i := slices.Index(w.spare, sh.record(sh.count-1)); i >= 0 {
		w.spare[i] = sh.record(n) // the call to remove below moves the last record there
	}
	sh.hand = n
	sh.remove(n)
	return true
}

// mostLeft returns the number of the record for which [shard.left] is largest, among the next
// records of a class. It starts after sh.hand and wraps around at the end of the shard. It skips
// the records in w.spare, and reclassifies records that no longer have room. Among equally full
// records near a limit, it prefers one of w.subject.
func (sh *shard) mostLeft(w *written, c class, now int64) (best uint32, found bool) {
	bestLeft, seen, n, own := spared, 0, sh.hand, false
	for range sh.count {
		if n++; n >= sh.count {
			n = 0
		}
		r := sh.record(n)
		if sh.classOf(n) != c || slices.Contains(w.spare, r) {
			continue
		}
		left := sh.left(r, now)
		if c == roomy && left < enough {
			sh.setClass(n, near)
			continue
		}
		if left > bestLeft {
			best, bestLeft = n, left
			own = false
		} else if left == bestLeft && !own && c == near && r.isOf(w.subject) {
			best, own = n, true
		}
		if seen++; seen >= evictAmong && bestLeft >= 0 || seen == evictFurther || left == 1 {
			break
		}
	}
	return best, seen > 0
}

func (sh *shard) classOf(n uint32) class {
	return class(sh.roomy[n/pieceSize] >> (n % pieceSize) & 1)
}

// classify returns the class that a record should have now.
func (sh *shard) classify(r *record, now int64) class {
	if sh.left(r, now) >= enough {
		return roomy
	}
	return near
}

// setClass sets the class of a record. A charge does not update the class of an existing record:
// mostLeft does so when the record no longer has room, and the sweeper when it has room again.
func (sh *shard) setClass(n uint32, c class) {
	old := sh.classOf(n)
	if c == old {
		return
	}
	sh.roomy[n/pieceSize] ^= 1 << (n % pieceSize)
	sh.loads()[old].Add(-1)
	sh.loads()[c].Add(1)
}

func (sh *shard) loads() *loads { return &sh.store.loads[sh.number] }

// isBan and isHeld are results of [shard.left] for records that are evicted only if mostLeft finds
// no others. spared is lower than every result.
const (
	spared = -3.0
	isBan  = -2.0
	isHeld = -1.0
)

// left returns the smallest unused share of the record's limits and of the strikes that lead to a
// ban. It returns isBan for a banned subject, and isHeld for a record with a place or an open hold.
func (sh *shard) left(r *record, now int64) float64 {
	least := 1.0
	if b := banOf(r); b != nil {
		if b.end(now) > now {
			return isBan
		}
		least = share(b.struck(now), b.counts.Cap)
	}
	if r.rest != nil && !r.rest.holds.dead(now) {
		return isHeld
	}
	for i := range r.states() {
		c := r.state(i)
		if c.Owner == 0 {
			continue
		}
		p := sh.params(c.Owner)
		if !p.Places {
			var v algorithm.View
			v.Open(c, p, now, max(r.last-now, 0))
			least = min(least, share(v.Used(), p.Cap))
		} else if !c.Dead(p, now) {
			return isHeld
		}
	}
	return least
}

// share returns the unused share of a capacity, from 0 to 1.
func share(used, capacity int64) float64 {
	if used >= capacity {
		return 0
	}
	return 1 - float64(used)/float64(capacity)
}
