package resilience

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// errands are calls to the store that nobody waits for: a few at a time, and so many
// waiting at most.
type errands struct {
	mu      sync.Mutex
	waiting []errand
	running int
	dropped atomic.Int64
}

// errand is a call that reports whether it is to be made again.
type errand struct {
	call  func(context.Context) (again bool)
	until time.Time
}

const (
	maxErrands  = 65_536
	errandsOnce = 8
	// errandTime is for how long a call is made again.
	errandTime = time.Minute
)

// add has a call made in the background.
func (e *errands) add(f *Fallback, call func(context.Context) (again bool)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= maxErrands {
		e.dropped.Add(1)
		return
	}
	e.waiting = append(e.waiting, errand{call, time.Now().Add(errandTime)})
	if e.running < errandsOnce {
		e.running++
		f.run(func() { e.run(f.life) })
	}
}

// run makes calls for as long as there are any. One that is to be made again goes to the end.
func (e *errands) run(ctx context.Context) {
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 || ctx.Err() != nil {
			e.running--
			e.mu.Unlock()
			return
		}
		next := e.waiting[0]
		e.waiting[0] = errand{}
		e.waiting = e.waiting[1:]
		e.mu.Unlock()
		if !next.call(ctx) {
			continue
		}
		if time.Now().After(next.until) {
			e.dropped.Add(1)
			continue
		}
		e.mu.Lock()
		e.waiting = append(e.waiting, next)
		e.mu.Unlock()
		sleep(ctx, jitter(chargeEvery))
	}
}

// drain waits until all are done, or the context ends.
func (e *errands) drain(ctx context.Context) {
	for ctx.Err() == nil {
		e.mu.Lock()
		busy := e.running > 0
		e.mu.Unlock()
		if !busy {
			return
		}
		sleep(ctx, time.Millisecond)
	}
}
