package policy

import (
	"sync/atomic"
	"time"
)

// A guard times the first timedAtOnce decisions in each interval of length timedEvery; see
// [Verdict.Took].
const (
	timedAtOnce = 32
	timedEvery  = 20 * time.Millisecond
)

// untimed is the result of begin for a decision that is not timed.
const untimed = time.Duration(0)

// stopwatch times decisions. Its times are relative to stopwatch.made. The first decision in an
// interval starts a timer that ends the interval. Once enough decisions in an interval have been
// timed, begin reads only a counter that rarely changes, not the clock.
type stopwatch struct {
	made  time.Time
	left  atomic.Int64 // decisions that may still be timed in this interval
	timer *time.Timer
}

func newStopwatch() *stopwatch {
	w := &stopwatch{made: time.Now().Add(-1)} // 1 ns ago, so that begin cannot return 0 for a timed decision
	w.left.Store(timedAtOnce)
	w.timer = time.AfterFunc(timedEvery, func() { w.left.Store(timedAtOnce) })
	return w
}

// begin returns the time at which a decision begins, or untimed.
func (w *stopwatch) begin() time.Duration {
	if w.left.Load() <= 0 {
		return untimed
	}
	switch left := w.left.Add(-1); {
	case left < 0:
		return untimed
	case left == timedAtOnce-1:
		w.timer.Reset(timedEvery)
	}
	return time.Since(w.made)
}

// took returns the time since a decision began, which is at least 1 ns.
func (w *stopwatch) took(began time.Duration) time.Duration { return max(time.Since(w.made)-began, 1) }
