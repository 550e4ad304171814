package resilience

import (
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// Observer is told what happens in a stack. Its methods are called from many
// goroutines, on the way of decisions, and must neither block nor call back into the stack.
// What they are given must not be changed, nor kept after they return.
type Observer interface {
	// Decided follows every decision, with how long it took.
	Decided(r *stint.Request, d *stint.Decision, err error, took time.Duration)
	// StoreCalled follows every call to the store: what was asked ("take", "amend",
	// "command", "inspect", "ping"), and how many requests it carried.
	StoreCalled(op string, requests int, took time.Duration, err error)
	// BreakerChanged follows a change of the breaker's state.
	BreakerChanged(from, to BreakerState)
	// FellBack follows a decision that was made without the store, and why.
	FellBack(r *stint.Request, mode stint.FailureMode, cause error)
	// Saved follows a decision that needed no call to the store.
	Saved(r *stint.Request, by Saver)
}

// Saver is a part that answers from memory.
type Saver uint8

const (
	// ByDenyCache is a denial that is still in force.
	ByDenyCache Saver = iota
	// ByLease is a unit that was leased before.
	ByLease
)

// lent are requests for observers to look at: if the address of a caller's own were given
// away, every decision would have to allocate it.
var lent = sync.Pool{New: func() any { return new(stint.Request) }}

// saved tells an observer of a decision that needed no call to the store.
func saved(o Observer, r stint.Request, by Saver) {
	p := lent.Get().(*stint.Request)
	*p = r
	o.Saved(p, by)
	*p = stint.Request{}
	lent.Put(p)
}

// Silent is an Observer that does nothing, to be embedded by those who want to hear
// of some things only.
type Silent struct{}

// Decided implements [Observer].
func (Silent) Decided(*stint.Request, *stint.Decision, error, time.Duration) {}

// StoreCalled implements [Observer].
func (Silent) StoreCalled(string, int, time.Duration, error) {}

// BreakerChanged implements [Observer].
func (Silent) BreakerChanged(BreakerState, BreakerState) {}

// FellBack implements [Observer].
func (Silent) FellBack(*stint.Request, stint.FailureMode, error) {}

// Saved implements [Observer].
func (Silent) Saved(*stint.Request, Saver) {}
