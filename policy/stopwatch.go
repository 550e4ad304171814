package policy

import (
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// Settlement is a correction of a request's charge after its response: a refund, or the true cost.
// A guard sends it to its observer if it was not applied completely, or if it settled a hold.
type Settlement struct {
	// Verdict is the verdict on the request. It is nil if the verdict is not available.
	Verdict *Verdict
	// Rule is the first rule that the correction applies to. It is nil if there is none.
	Rule *Rule
	// Refund reports whether everything was to be given back. Otherwise Cost is the true cost.
	Refund bool
	Cost   int64
	// Amended is the store's result: not Changed if the correction was not applied, and with
	// Charged below Cost if the rest would exceed the maximum debt.
	Amended stint.Amended
	// Err is the store's error if it failed. Err is nil if the store found nothing to correct: the
	// charge has left its windows, was reset or corrected before, or its request ID was repeated,
	// so that it is not given back.
	Err error
	// Hold is the hold of the request, and Delay the time from the charge to the settlement of its
	// hold. Both are 0 without a hold.
	Hold, Delay time.Duration
	// Estimated reports that the response did not tell its usage, as configured by [Usage], so that
	// an estimate is charged.
	Estimated bool
	// Expired reports that a heartbeat came too late to keep the hold. Nothing is settled then.
	Expired bool
}

// Event implements [stint.Event].
func (*Settlement) Event() {}

// The number of decisions that are timed per interval; see [Verdict.Took].
const (
	timedAtOnce = 32
	timedEvery  = 20 * time.Millisecond
)

// untimed is the beginning of a decision that is not timed.
const untimed = time.Duration(0)

// stopwatch times decisions. Its readings are relative to the time made. Once enough decisions of
// an interval are timed, the next ones only read a number that hardly changes, and no clock: a
// timer ends the interval. The timer runs only while there are decisions.
type stopwatch struct {
	made  time.Time
	left  atomic.Int64 // decisions that may still be timed in this interval
	timer *time.Timer
}

func newStopwatch() *stopwatch {
	w := &stopwatch{made: time.Now().Add(-1)} // so that nothing begins at 0, which means untimed
	w.left.Store(timedAtOnce)
	w.timer = time.AfterFunc(timedEvery, func() { w.left.Store(timedAtOnce) })
	return w
}

// begin returns when a decision began, or untimed.
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

// took returns how long a decision has taken that began then.
func (w *stopwatch) took(began time.Duration) time.Duration { return max(time.Since(w.made)-began, 1) }
