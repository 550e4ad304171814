package memorystore

import (
	"time"

	"github.com/stint-limiter/stint/internal/algorithm"
)

const (
	// The sweeper takes a turn every sweepEvery. In sweepTurns turns, which take a minute, it
	// covers all records.
	sweepEvery = 100 * time.Millisecond
	sweepTurns = 600
	// sweepPiece is the maximum number of records that the sweeper examines before it releases a
	// lock.
	sweepPiece = 128
	// grace is the time in microseconds for which expired states are kept, so that they still exist
	// if the clock steps back by less than that.
	grace = int64(time.Second / time.Microsecond)
)

func (s *Store) sweepUntilStopped() {
	defer close(s.done)
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	next := 0
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			next = s.sweepSome(next)
		}
	}
}

// sweepSome examines one turn's share of the records. next is the index of the shard to start with.
// sweepSome returns the index of the shard to continue with. To bound the number of shards in a
// turn, it counts at least sweepPiece/8 records for each.
func (s *Store) sweepSome(next int) int {
	left := int(s.subjects.Load())/sweepTurns + sweepPiece
	for range s.shards {
		seen, whole := s.shards[next].sweep()
		if whole {
			next = (next + 1) % len(s.shards)
		}
		if left -= max(seen, sweepPiece/8); left <= 0 {
			break
		}
	}
	s.compareLoads()
	return next
}

// sweep examines the shard's next records, forgets expired ones and reclassifies those that have
// room again. It returns how many it examined, and whether they were the shard's last.
func (sh *shard) sweep() (seen int, whole bool) {
	now := sh.store.read()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.follow(now)
	for ; seen < sweepPiece && sh.sweepAt < sh.count; seen++ {
		n := sh.sweepAt
		r := sh.record(n)
		if sh.dead(r, now-grace) {
			sh.remove(n) // the last record takes its number
			continue
		}
		if sh.classOf(n) == near {
			sh.setClass(n, sh.classify(r, now))
		}
		sh.sweepAt++
	}
	if sh.sweepAt >= sh.count {
		sh.sweepAt = 0
		return seen, true
	}
	return seen, false
}

// dead reports whether a record can be forgotten without changing any later answer.
func (sh *shard) dead(r *record, now int64) bool {
	for i := range r.states() {
		if sh.alive(r, i, now) {
			return false
		}
	}
	x := r.rest
	return x == nil || x.holds.dead(now) && x.ids.dead(now) && x.settled.dead(now) && x.ban.dead(now)
}

// counts reports whether a record has usage of a limit, as opposed to only ids, settled charges or
// a ban.
func (sh *shard) counts(r *record, now int64) bool {
	for i := range r.states() {
		c := r.state(i)
		if sh.alive(r, i, now) && !(sh.params(c.Owner).Places && c.Vacant(now)) {
			return true
		}
	}
	return false
}

// alive reports whether the state with index i in a record is still needed.
func (sh *shard) alive(r *record, i int, now int64) bool {
	c := r.state(i)
	return c.Owner != 0 && (now < r.last || !c.Dead(sh.params(c.Owner), now))
}

func (sh *shard) params(tag uint32) *algorithm.Params { return &sh.variants[tag].params }
