package memorystore

import (
	"math/bits"
	"slices"

	"github.com/stint-limiter/stint/internal/algorithm"
)

const (
	// near is the share of a limit below which a subject is near that limit. A record with
	// more left of each of its limits has room.
	near = 0.5
	// evictAmong is how many records are compared to evict one, evictFurther how
	// many if they are all banned or hold places.
	evictAmong   = 32
	evictFurther = 512
	// evictMost is how many are evicted under one lock.
	evictMost = 64
)

// evict evicts from the shard while the store is too large: records that have room, or any. It reports false if there was
// nothing to evict.
func (sh *shard) evict(w *written, all bool) bool {
	now := max(w.now, sh.clock)
	for i := range evictMost {
		if !sh.store.over(w) {
			return true
		}
		if !sh.evictOne(w, all, now) {
			return i > 0
		}
	}
	return true
}

// unfill evicts what the shard's index cannot name.
func (sh *shard) unfill(w *written) {
	for int(sh.count) > sh.store.perShard && sh.evictOne(w, true, max(w.now, sh.clock)) {
	}
}

// evictOne forgets the record with the most left of its limits among the next ones.
func (sh *shard) evictOne(w *written, all bool, now int64) bool {
	n, found := sh.mostRoom(w, now)
	if !found && all {
		n, found = sh.mostLeft(w, now)
	}
	if !found {
		return false
	}
	if !sh.dead(sh.record(n), now) {
		sh.store.evicted.Add(1)
	}
	last := sh.record(sh.count - 1)
	if i := slices.Index(w.spare, last); i >= 0 {
		w.spare[i] = sh.record(n) // where remove moves it
	}
	sh.hand = n + 1
	sh.remove(n)
	return true
}

// mostRoom returns the record with the most left among the next that have room. It notes of which records
// that is no longer true.
func (sh *shard) mostRoom(w *written, now int64) (best uint32, found bool) {
	if sh.load().get().roomy() == 0 {
		return 0, false
	}
	bestLeft, seen := -1.0, 0
	ahead := ^uint32(0) << (sh.hand % pieceSize) // in the piece where the hand is
	for i := range len(sh.roomy) + 1 {
		k := int(sh.hand/pieceSize) + i
		if k >= len(sh.roomy) {
			k -= len(sh.roomy)
		}
		set := sh.roomy[k]
		switch i {
		case 0:
			set &= ahead
		case len(sh.roomy):
			set &^= ahead
		}
		for ; set != 0; set &= set - 1 {
			n := uint32(k*pieceSize + bits.TrailingZeros32(set))
			r := sh.record(n)
			if slices.Contains(w.spare, r) {
				continue
			}
			left := sh.left(r, now)
			if left < near {
				sh.setRoomy(n, false)
				continue
			}
			if left > bestLeft {
				best, bestLeft = n, left
			}
			if seen++; seen == evictAmong || left == 1 {
				return best, true
			}
		}
	}
	return best, seen > 0
}

// mostLeft returns the record with the most left among the next ones.
func (sh *shard) mostLeft(w *written, now int64) (best uint32, found bool) {
	bestLeft := spared
	for i := range min(sh.count, evictFurther) {
		if i >= evictAmong && bestLeft >= 0 {
			break
		}
		n := sh.hand + i
		if n >= sh.count {
			n -= sh.count
		}
		r := sh.record(n)
		if slices.Contains(w.spare, r) {
			continue
		}
		if left := sh.left(r, now); left > bestLeft {
			best, bestLeft = n, left
		}
	}
	return best, bestLeft > spared
}

func (sh *shard) isRoomy(n uint32) bool { return sh.roomy[n/pieceSize]>>(n%pieceSize)&1 != 0 }

// setRoomy notes whether a record may have room. It has, or it had less used when that was noted: what is used of a record
// is not followed with each charge.
func (sh *shard) setRoomy(n uint32, yes bool) {
	switch {
	case yes == sh.isRoomy(n):
	case yes:
		sh.roomy[n/pieceSize] |= 1 << (n % pieceSize)
		sh.load().add(oneRoomy)
	default:
		sh.roomy[n/pieceSize] &^= 1 << (n % pieceSize)
		sh.load().add(-oneRoomy)
	}
}

func (sh *shard) load() *gauge { return &sh.store.loads[sh.number] }

// What is left to records that are evicted only if there is nothing else.
const (
	spared  = -3.0
	isBan   = -2.0
	isPlace = -1.0
)

// left is the smallest share that is left of any of the record's limits.
func (sh *shard) left(r *record, now int64) float64 {
	least := 1.0
	if r.count.Tag != 0 {
		least = sh.countLeft(r, &r.count, now)
	}
	x := r.rest
	if x == nil {
		return least
	}
	if x.ban.end(now) > now {
		return isBan
	}
	for i := range x.holders {
		if x.holders[i].Tag != 0 && !x.holders[i].Dead(now) {
			return isPlace
		}
	}
	if x.ban != nil {
		least = min(least, share(x.ban.struck(now), x.ban.counts.Cap))
	}
	for i := range x.counts {
		if c := &x.counts[i]; c.Tag != 0 {
			least = min(least, sh.countLeft(r, c, now))
		}
	}
	return least
}

// countLeft is the share that is left of the limit that a count of a record was last written under.
func (sh *shard) countLeft(r *record, c *algorithm.Count, now int64) float64 {
	var v algorithm.View
	p := sh.params(c.Tag)
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
