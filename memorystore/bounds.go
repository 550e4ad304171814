package memorystore

import "sync/atomic"

// bounds are how much the store may hold.
type bounds struct{ subjects, bytes int64 }

// written is what a call has written and what is not counted yet.
type written struct {
	shard          uint32 // the first that it has written to
	now            int64
	bytes, records int64
	spare          []*record // not to be evicted on its behalf
	held           bool      // the lock of the shard is, from before the writing
}

// makeRoom counts what a call has written, after evicting what has to go for it. The caller holds
// no lock: makeRoom locks one shard at a time, so that calls cannot wait for each other in a
// circle.
//
// Within a tenth of the bounds it does not wait for locks: it leaves the rest to later calls if the
// shard that it would evict from is in use. If nothing else is left, what was written goes.
func (s *Store) makeRoom(w *written) {
	for {
		for s.over(w) && s.evict(w, false) {
		}
		if s.add(w.bytes, w.records, s.most) {
			return
		}
		if s.evict(w, true) {
			continue
		}
		if w.spare == nil { // only what other calls have not counted yet is left
			s.bytes.Add(w.bytes)
			s.subjects.Add(w.records)
			return
		}
		w.spare = nil
	}
}

// evictIfHeavy evicts from a shard that is locked anyway, if it is the one to evict from. Records
// move: the call must be done with them.
func (sh *shard) evictIfHeavy(w *written) {
	if n, c := sh.store.heaviest(sh.number); n == sh.number {
		w.held = true
		sh.evict(w, c)
		w.held = false
	}
}

// over reports whether something has to go for what was written.
func (s *Store) over(w *written) bool {
	return s.bytes.Load() > s.bounds.bytes-w.bytes || s.subjects.Load() > s.bounds.subjects-w.records
}

// add counts bytes and records, unless that would exceed some bounds. What is not positive never
// does.
func (s *Store) add(bytes, records int64, within bounds) bool {
	if !addWithin(&s.subjects, records, within.subjects) {
		return false
	}
	if !addWithin(&s.bytes, bytes, within.bytes) {
		s.subjects.Add(-records)
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

// evict evicts from the shard with the greatest load, or, if there is nothing to evict, from
// another, and from the other class only if there is nothing of the first in any shard. It reports
// false if there was nothing to evict at all, or if it is not to wait and the shards with about the
// greatest load are all in use.
func (s *Store) evict(w *written, wait bool) bool {
	first, c := s.heaviest(w.shard)
	for _, c := range [...]class{c, roomy - c} {
		least, busy := s.loads[first][c].Load(), false
		least -= least / 4
		for i := range uint32(len(s.shards)) {
			n := (first + i) & uint32(len(s.shards)-1)
			if s.loads[n][c].Load() == 0 || busy && s.loads[n][c].Load() < least {
				continue
			}
			sh := &s.shards[n]
			if wait {
				sh.mu.Lock()
			} else if !sh.mu.TryLock() {
				busy = true
				continue
			}
			evicted := sh.evict(w, c)
			sh.mu.Unlock()
			if evicted {
				return true
			}
		}
		if busy {
			return false
		}
	}
	return false
}
