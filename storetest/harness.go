// Package storetest tests the contract of [stint.Store]. It is for authors of stores:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Harness {
//			clock := &storetest.Clock{}
//			return storetest.Harness{Store: mystore.New(clock.Now), Clock: clock}
//		})
//	}
//
// [Run] runs a table of readable examples. [Model] drives a store and a slow, exact reference
// through the same random histories and requires equal answers at every step. [Linearizable] checks
// that concurrent decisions have a sequential order.
package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// Harness contains a store to test, and the properties of the store that tests depend on.
type Harness struct {
	// Store is the store under test. Each test uses its own subjects, so tests may share a store.
	Store stint.Store
	// Clock is the store's clock. If it is nil, the store uses the real time, and tests that must
	// move the clock are skipped.
	Clock *Clock
	// NeverOver means that the store never admits more than the rules do, but may deny more, deny
	// for longer, and report the remaining units inexactly, as stores with deny caches, leases or
	// fallbacks do. If it is not set, the store must answer exactly as the rules define, to the
	// microsecond.
	NeverOver bool
	// SplitSubjects means that a request's subjects may be on different servers: the store refuses
	// reservations over several subjects, and if one subject denies a request, the store gives back
	// the charges of the other subjects only a moment later.
	SplitSubjects bool
	// Disturbances are events that may happen to the store at any time and must not change an
	// answer, for example a flushed script cache or the expiry of due keys. Model causes them at
	// random. The key of an event is its name in the history that Model prints.
	Disturbances map[string]func(t testing.TB)
}

// Clock is a clock that moves only when a test moves it. The zero Clock is ready for use. A Clock
// is safe for concurrent use.
type Clock struct {
	// OnAdvance, if not nil, is called after the clock has moved by the given duration. If a
	// store's state expires by another clock, OnAdvance can age the state.
	OnAdvance func(time.Duration)

	mu    sync.Mutex
	moved time.Duration // time since epoch
}

// epoch is the start of every clock. It is not a round number in any unit, so that no window or
// slice begins there.
var epoch = time.Date(2026, time.March, 4, 5, 6, 7, 891_011_000, time.UTC)

// Now returns the clock's time, in whole microseconds.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return epoch.Add(c.moved)
}

// micros returns the clock's time in microseconds since the Unix epoch.
func (c *Clock) micros() int64 { return c.Now().UnixMicro() }

// Advance moves the clock forward by d, or back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.moved += d
	c.mu.Unlock()
	if c.OnAdvance != nil {
		c.OnAdvance(d)
	}
}

func (c *Clock) restart() {
	c.mu.Lock()
	moved := c.moved
	c.mu.Unlock()
	c.Advance(-moved)
}
