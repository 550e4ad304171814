package resilience

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// backgroundCalls are calls to the store that no caller waits for: a few at a time, and a bounded
// number waiting.
type backgroundCalls struct {
	mu      sync.Mutex
	waiting []backgroundCall
	running int
	dropped atomic.Int64
}

// backgroundCall is a call that reports whether to make it again.
type backgroundCall struct {
	call  func(context.Context) (again bool)
	until time.Time
}

const (
	maxBackground        = 65_536
	maxBackgroundRunning = 8
	// backgroundTime is how long a call is repeated.
	backgroundTime = time.Minute
)

// add has a call made in the background.
func (b *backgroundCalls) add(f *fallback, call func(context.Context) (again bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxBackground {
		b.dropped.Add(1)
		return
	}
	b.waiting = append(b.waiting, backgroundCall{call, time.Now().Add(backgroundTime)})
	if b.running < maxBackgroundRunning {
		b.running++
		f.run(func() { b.run(f.life) })
	}
}

// run makes calls for as long as there are any. One that is to be made again goes to the end.
func (b *backgroundCalls) run(ctx context.Context) {
	for {
		b.mu.Lock()
		if len(b.waiting) == 0 || ctx.Err() != nil {
			b.running--
			b.mu.Unlock()
			return
		}
		next := b.waiting[0]
		b.waiting[0] = backgroundCall{}
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		if !next.call(ctx) {
			continue
		}
		if time.Now().After(next.until) {
			b.dropped.Add(1)
			continue
		}
		b.mu.Lock()
		b.waiting = append(b.waiting, next)
		b.mu.Unlock()
		sleep(ctx, jitter(chargeEvery))
	}
}

// drain waits until all calls are made, or the context ends.
func (b *backgroundCalls) drain(ctx context.Context) {
	for ctx.Err() == nil {
		b.mu.Lock()
		busy := b.running > 0
		b.mu.Unlock()
		if !busy {
			return
		}
		sleep(ctx, time.Millisecond)
	}
}
