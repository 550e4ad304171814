package memorystore

import (
	"slices"

	"github.com/stint-limiter/stint/internal/algorithm"
)

const (
	// enough is the share of each of its limits that is left at least to a record with room.
	enough = 0.5
	// evictAmong is how many records are compared to evict one, evictFurther how many if they are
	// all banned or hold places.
	evictAmong   = 16
	evictFurther = 512
	// evictMost is how many are evicted under one lock.
	evictMost = 64
)

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

// unfill evicts what the shard's index cannot name.
func (sh *shard) unfill(w *written) {
	for int(sh.count) > sh.store.perShard && (sh.evictOne(w, roomy) || sh.evictOne(w, near)) {
	}
}

// evictOne forgets the record with the most left of its limits among the next ones of a class.
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
		w.spare[i] = sh.record(n) // where remove moves it
	}
	sh.hand = n
	sh.remove(n)
	return true
}

// mostLeft returns the record with the most left among the next ones of a class, from the hand on
// and around. It notes which of them no longer have room. Among equal ones that are near a limit it
// is one of the subject that there has to be room for.
func (sh *shard) mostLeft(w *written, c class, now int64) (best uint32, found bool) {
	var own *record
	if c == near && w.held && len(w.spare) > 0 {
		own = w.spare[0]
	}
	bestLeft, seen, n := spared, 0, sh.hand
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
		} else if left == bestLeft && own != nil && r.sameSubject(own) {
			best, own = n, nil
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

// classify is the class that a record is of now.
func (sh *shard) classify(r *record, now int64) class {
	if sh.left(r, now) >= enough {
		return roomy
	}
	return near
}

// setClass notes of which class a record is. Charges do not: what has become near a limit since is
// noted when it is looked at to be evicted, what has room again when the sweeper passes.
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

// What is left to records that are evicted only if there is nothing else.
const (
	spared = -3.0
	isBan  = -2.0
	isHeld = -1.0
)

// left is the smallest share that is left of any of the record's limits.
func (sh *shard) left(r *record, now int64) float64 {
	least := 1.0
	if b := banOf(r); b != nil {
		if b.end(now) > now {
			return isBan
		}
		least = share(b.struck(now), b.counts.Cap)
	}
	for i := range r.states(true) {
		if sh.alive(r, i, true, now) {
			return isHeld
		}
	}
	for i := range r.states(false) {
		if c := r.countAt(i); c.Owner != 0 {
			least = min(least, sh.countLeft(r, c, now))
		}
	}
	return least
}

// countLeft is the share that is left of the limit that a count of a record was last written under.
func (sh *shard) countLeft(r *record, c *algorithm.Count, now int64) float64 {
	var v algorithm.View
	p := sh.params(c.Owner)
	v.Open(c, p, now, max(r.last-now, 0))
	return share(v.Used(), p.Cap)
}

// share is what is left of a capacity, from 0 to 1.
func share(used, capacity int64) float64 {
	if used >= capacity {
		return 0
	}
	return 1 - float64(used)/float64(capacity)
}
