// Package storetest is for authors of stores: the contract of [stint.Store] as tests that any store
// can run:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Harness {
//			clock := &storetest.Clock{}
//			return storetest.Harness{Store: mystore.New(clock.Now), Clock: clock}
//		})
//	}
//
// [Run] is a table of readable examples. [Model] drives a store and a slow exact reference through
// the same random histories and wants equal answers at every step. [Linearizable] holds concurrent
// decisions to a sequential order.
package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// Harness is a store to test and what the tests may do to it.
type Harness struct {
	// Store is under test. Tests use subjects of their own, so it may be shared.
	Store stint.Store
	// Clock is the store's clock, nil if it is the real one. Tests that need to move time by more
	// than moments are skipped without it.
	Clock *Clock
	// NeverOver says that the store may deny more than the rules say, or for longer, and may know
	// less of what is left: deny caches, leases, fallbacks. It never admits more. Other stores
	// answer as the rules say, to the microsecond.
	NeverOver bool
	// SplitSubjects says that a request's subjects may live apart: reservations over several
	// subjects are refused, and what one subject was charged for a request that another one denied
	// is given back only a moment later.
	SplitSubjects bool
	// Disturbances are things that may happen to the store at any time and must not change an
	// answer: a flushed script cache, expiry of what is due. Model inflicts them at random. They
	// are named for the history it prints.
	Disturbances map[string]func(t testing.TB)
}

// Clock is a clock that tests move by hand. Its zero value stands still and is ready for use. It is
// safe for concurrent use.
type Clock struct {
	// OnAdvance is called when the clock has moved: a store whose state expires by another clock
	// than this one lets it age there. It may be nil.
	OnAdvance func(time.Duration)

	mu    sync.Mutex
	moved time.Duration // since the epoch
}

// epoch is where every clock starts: no round number in any unit, so that windows and slices do not
// happen to begin there.
var epoch = time.Date(2026, time.March, 4, 5, 6, 7, 891_011_000, time.UTC)

// Now returns the clock's time: whole microseconds.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return epoch.Add(c.moved)
}

// micros returns the clock's time in microseconds since the Unix epoch.
func (c *Clock) micros() int64 { return c.Now().UnixMicro() }

// Advance moves the clock, back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.moved += d
	c.mu.Unlock()
	if c.OnAdvance != nil {
		c.OnAdvance(d)
	}
}

// restart sets the clock to where it started.
func (c *Clock) restart() {
	c.mu.Lock()
	moved := c.moved
	c.mu.Unlock()
	c.Advance(-moved)
}
