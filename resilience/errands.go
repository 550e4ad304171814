package resilience

import (
	"context"
	"sync"
	"time"
)

// errands are calls to the store that nobody waits for: a few at a time, and so many
// waiting at most.
type errands struct {
	mu      sync.Mutex
	waiting []func(context.Context)
	running int
	dropped int64
}

const (
	maxErrands  = 65_536
	errandsOnce = 8
)

// add has a call made in the background. Each has a second.
func (e *errands) add(f *Fallback, call func(context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= maxErrands {
		e.dropped++
		return
	}
	e.waiting = append(e.waiting, call)
	if e.running < errandsOnce {
		e.running++
		f.run(func() { e.run(f.life) })
	}
}

func (e *errands) run(ctx context.Context) {
	for call := e.next(); call != nil; call = e.next() {
		call(ctx)
	}
}

// next returns the first that waits. If there is none, the goroutine that asked ends.
func (e *errands) next() func(context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == 0 {
		e.running--
		e.waiting = nil
		return nil
	}
	call := e.waiting[0]
	e.waiting[0] = nil
	e.waiting = e.waiting[1:]
	return call
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
