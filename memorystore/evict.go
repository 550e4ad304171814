package memorystore

import "github.com/stint-limiter/stint/internal/algorithm"

const (
	// evictAmong is how many records are compared to evict one, evictFurther how
	// many if they are all banned or hold places.
	evictAmong   = 32
	evictFurther = 512
	// evictMost is how many are evicted on behalf of one call.
	evictMost = 64
)

// trim evicts from the shard while the store is too large, sparing the records
// that the query has just written.
func (sh *shard) trim(q *query) {
	s := sh.store
	for range evictMost {
		if s.subjects.Load() <= s.maxSubjects && s.bytes.Load() <= s.maxBytes || !sh.evict(q) {
			return
		}
	}
}

// evict forgets the record with the most left of its limits among the next ones.
func (sh *shard) evict(q *query) bool {
	best, bestLeft := uint32(0), spared
	for i := range min(sh.count, evictFurther) {
		if i >= evictAmong && bestLeft >= 0 {
			break
		}
		n := sh.hand + i
		if n >= sh.count {
			n -= sh.count
		}
		r := sh.record(n)
		if r.size == 0 || q.uses(r) {
			continue
		}
		if left := sh.left(r, q.now); left > bestLeft {
			best, bestLeft = n, left
		}
	}
	if bestLeft == spared {
		return false
	}
	sh.hand = best + 1
	if sh.hand >= sh.count {
		sh.hand = 0
	}
	sh.remove(best)
	sh.store.evicted.Add(1)
	return true
}

func (q *query) uses(r *record) bool {
	for i := range q.parts {
		if q.parts[i].rec == r {
			return true
		}
	}
	return false
}

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
