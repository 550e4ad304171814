// Package logsample keeps logs small. When many events occur at once, it allows a few to be logged
// and counts the others, so that the next record can report how many were left out.
//
// It does not use rate.Sometimes of golang.org/x/time/rate, which does not count the events that it
// leaves out. Also, some packages that use logsample may depend only on the standard library.
package logsample

import (
	"sync"
	"sync/atomic"
	"time"
)

// Few is the usual maximum number of events of one kind that are logged per second. It is large
// enough to show whether the events are alike.
const Few = 5

// In a flood, [Sampler.Sample] reads the clock for one event in clockEvery, because reading the
// clock takes longer than the rest of Sample.
const clockEvery = 16

// Sampler samples one kind of event. The zero value is ready to use. It is safe for concurrent use
// and never allocates.
type Sampler struct {
	left atomic.Int64 // number of events left out since the last logged one

	mu    sync.Mutex
	began time.Time // time of the interval's first event
	taken int       // number of events allowed in the interval
}

// Allow reports whether to log the current event. It allows the first events of each interval, up
// to the number `most`. An interval begins with an event, and has the length `every`. If ok is
// true, left is the number of events that were left out since the last logged one.
//
// For example, let `most` be 1 and `every` be a minute. If ten events occur in a second, Allow
// returns (0, true) for the first one and (0, false) for the others. If another event occurs a
// minute later, Allow returns (9, true).
func (g *Sampler) Allow(most int, every time.Duration) (left int64, ok bool) {
	if !g.admit(most, every) {
		g.left.Add(1)
		return 0, false
	}
	return g.left.Swap(0), true
}

// Sample is like [Sampler.Allow], but for events that may occur thousands of times a second, such
// as denials. Once it has left out more than sixteen events, it reads the clock only for one event
// in sixteen. So it may leave out the first few events after a flood, for which Allow would return
// true. Do not use it for rare events.
func (g *Sampler) Sample(most int, every time.Duration) (left int64, ok bool) {
	if left := g.left.Load(); left > clockEvery && left%clockEvery != 0 {
		g.left.Add(1)
		return 0, false
	}
	return g.Allow(most, every)
}

// admit reports whether the number of events allowed in the current interval is still below the
// maximum, and counts the event if so. It begins a new interval if the last one is over.
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
