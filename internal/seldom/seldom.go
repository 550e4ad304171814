// Package seldom keeps logs small: of events that may come in floods it lets a few through, and counts the others so
// that the next record can tell how many it stands for.
package seldom

import (
	"sync"
	"sync/atomic"
	"time"
)

// clockEvery is how many events [Gate.Sample] leaves out between two looks at the clock, which costs more than all else
// here.
const clockEvery = 16

// Gate is what one kind of event has to pass. The zero value is open. It is safe for concurrent use and never allocates.
type Gate struct {
	left atomic.Int64 // out, since the last event that was let through

	mu    sync.Mutex
	began time.Time // when the interval's first event came
	taken int       // of the interval
}

// Take lets through as many events as most in every interval, which begins with the first of them. It reports whether
// this event is one of those and, if so, how many were left out since the last one that was: with 1 and a minute, the
// first of ten events in a second yields (0, true), the others false, and one that comes a minute later (9, true).
func (g *Gate) Take(most int, every time.Duration) (left int64, ok bool) {
	if !g.admit(most, every) {
		g.left.Add(1)
		return 0, false
	}
	return g.left.Swap(0), true
}

// Sample is [Gate.Take] for what may come thousands of times a second, such as denials: once sixteen events were left out
// it looks at the clock for one in sixteen. The first few after a flood may thus be left out although they would be let
// through by Take, which is why it is not for what is always rare.
func (g *Gate) Sample(most int, every time.Duration) (left int64, ok bool) {
	if left := g.left.Load(); left > clockEvery && left%clockEvery != 0 {
		g.left.Add(1)
		return 0, false
	}
	return g.Take(most, every)
}

// admit counts an event if there is room for it in its interval.
func (g *Gate) admit(most int, every time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.Sub(g.began) >= every {
		g.began, g.taken = now, 0
	}
	if g.taken >= most {
		return false
	}
	g.taken++
	return true
}
