package policy

import (
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// Settlement is a correction of what a request was charged, once its response is known: a refund,
// or the true cost. A guard sends it to its observer if it was not applied, or a part of the cost
// is not charged.
type Settlement struct {
	// Verdict is that on the request. It is nil if that is not at hand.
	Verdict *Verdict
	// Rule is the first of the rules that the correction is for. It is nil if there is none.
	Rule *Rule
	// Refund says that everything was to be given back. Otherwise Cost is the true cost.
	Refund bool
	Cost   int64
	// Amended is what the store did: not Changed if it was not applied, and with less Charged than
	// Cost if the rest would have been too large a debt.
	Amended stint.Amended
	// Err is why the store could not apply it. It is nil if the store found nothing to correct: the
	// charge has left its windows, was reset or corrected before, or its request ID was repeated,
	// so that it is not given back.
	Err error
	// Hold is that of the request, and Delay how long after the charge its hold was settled, if it
	// had one.
	Hold, Delay time.Duration
	// Estimated says that the response did not say what was used, as [Usage] has it, so that an
	// estimate is charged.
	Estimated bool
	// Expired says that a heartbeat came too late to keep the hold. Nothing is settled then.
	Expired bool
}

// Event implements [stint.Event].
func (*Settlement) Event() {}

// How many decisions are timed: see [Verdict.Took].
const (
	timedAtOnce = 32
	timedEvery  = 20 * time.Millisecond
)

// untimed is when a decision began that is not timed.
const untimed = time.Duration(0)

// stopwatch times decisions. Its readings are since it was made. Who comes when enough are timed
// reads one number that hardly changes, and no clock: time passes by a timer, which runs while
// there are decisions.
type stopwatch struct {
	made  time.Time
	left  atomic.Int64 // that may be timed
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
