// Package logsample keeps logs small. When many events occur at once, it lets a few be logged and
// counts the others, so that the next record can report how many were left out.
//
// It is written by hand because packages that depend only on the standard library use it, and
// because rate.Sometimes of golang.org/x/time/rate does not count the events that it leaves out.
package logsample

import (
	"sync"
	"sync/atomic"
	"time"
)

// Few is how many events of one kind are usually logged per second. They show whether the events
// are alike.
const Few = 5

// clockEvery is the number of events that [Sampler.Sample] leaves out between two readings of the
// clock. Reading the clock costs more than everything else here.
const clockEvery = 16

// Sampler samples one kind of event. The zero value is ready to use. It is safe for concurrent use
// and never allocates.
type Sampler struct {
	left atomic.Int64 // number of events left out since the last logged one

	mu    sync.Mutex
	began time.Time // time of the interval's first event
	taken int       // number of events let through in the interval
}

// Allow lets at most the given number of events through per interval, which begins with its first
// event. It reports whether this event may be logged and, if so, how many were left out since the
// last logged one. For example, with 1 and a minute, the first of ten events in a second yields (0,
// true), the others yield false, and one that comes a minute later yields (9, true).
func (g *Sampler) Allow(most int, every time.Duration) (left int64, ok bool) {
	if !g.admit(most, every) {
		g.left.Add(1)
		return 0, false
	}
	return g.left.Swap(0), true
}

// Sample is [Sampler.Allow] for events that may come thousands of times a second, such as denials.
// Once it has left out more than sixteen events, it reads the clock only for one event in sixteen.
// So it may leave out the first few events after a flood, which Allow would let through. Do not use
// it for rare events.
func (g *Sampler) Sample(most int, every time.Duration) (left int64, ok bool) {
	if left := g.left.Load(); left > clockEvery && left%clockEvery != 0 {
		g.left.Add(1)
		return 0, false
	}
	return g.Allow(most, every)
}

// admit counts an event if fewer than most events were let through in its interval.
func (g *Sampler) admit(most int, every time.Duration) bool {
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
