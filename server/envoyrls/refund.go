package envoyrls

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// giveBackHits gives back what a descriptor with negative hits says, in a sliding window.
//
// That is a log in which every charge has its time, and units can be taken out only at a time at which some were charged:
// those that this process remembers, newest first. What another process charged stays until it leaves its window.
//
// What there is no time for can still be given back by a later request.
func (s *Service) giveBackHits(ctx context.Context, deadline time.Time, it *item) {
	for left := it.hits; left > 0 && time.Now().Before(deadline); {
		at, units := s.ledger.take(it, left)
		if units == 0 {
			return
		}
		_, _ = s.adjust(ctx, deadline, it.claim(Sliding), at, -units) // it may have left its window
		left -= units
	}
}

// A ledger remembers so many charges of so many counters. Of more counters some are forgotten, and of more
// charges the oldest.
const (
	ledgerShards   = 64
	ledgerCounters = 512 // in each shard
	ledgerCharges  = 16  // of each counter
)

// ledger remembers what was charged when, so that it can be given back. It never grows.
type ledger struct {
	seed   maphash.Seed
	shards [ledgerShards]ledgerShard
}

type ledgerShard struct {
	mu       sync.Mutex
	counters []ledgerCounter // nil until there is one
}

// ledgerCounter is a ring of charges.
type ledgerCounter struct {
	key     uint64
	newest  int
	charges [ledgerCharges]ledgerCharge
}

type ledgerCharge struct{ at, units int64 }

func newLedger() *ledger { return &ledger{seed: maphash.MakeSeed()} }

// at returns the shard and the key of an item's counter. That two counters have one key does no harm: a store
// gives nothing back at an instant at which nothing was charged.
func (l *ledger) at(it *item) (*ledgerShard, uint64) {
	key := maphash.String(l.seed, it.subject) ^ uint64(it.window())
	return &l.shards[key%ledgerShards], key
}

// counter returns where a counter is remembered.
func (s *ledgerShard) counter(key uint64) *ledgerCounter {
	if s.counters == nil {
		s.counters = make([]ledgerCounter, ledgerCounters)
	}
	return &s.counters[key/ledgerShards%ledgerCounters]
}

// note remembers what an item was charged.
func (l *ledger) note(it *item) {
	shard, key := l.at(it)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	c := shard.counter(key)
	if c.key != key {
		*c = ledgerCounter{key: key}
	}
	if newest := &c.charges[c.newest]; newest.units > 0 && sameEntry(&it.rule.limits[Sliding][0], newest.at, it.at) {
		newest.units = min(newest.units+it.charged, stint.MaxUnits)
		return
	}
	c.newest = (c.newest + 1) % ledgerCharges
	c.charges[c.newest] = ledgerCharge{it.at, it.charged}
}

// take forgets up to so many units of the newest charge to an item's counter, and returns how many and when that was; no
// units if there is none.
func (l *ledger) take(it *item, most int64) (at, units int64) {
	shard, key := l.at(it)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	c := shard.counter(key)
	if c.key != key {
		return 0, 0
	}
	for k := range ledgerCharges {
		charge := &c.charges[(c.newest+ledgerCharges-k)%ledgerCharges]
		if charge.units > 0 {
			units = min(charge.units, most)
			charge.units -= units
			return charge.at, units
		}
	}
	return 0, 0
}

// sameEntry reports whether a limit counts two instants as one: those of a slice of its window, if it is too large to
// remember each. See [stint.Resolution].
func sameEntry(l *stint.Limit, a, b int64) bool {
	if l.Max <= stint.Resolution {
		return a == b
	}
	slice := (l.Window.Microseconds() + stint.Resolution - 1) / stint.Resolution
	return a/slice == b/slice
}
