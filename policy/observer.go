package policy

import (
	"context"
	"sync/atomic"
	"time"
)

// Observer is told what a guard decides. It is called from many goroutines on the way of requests, and must
// neither block nor keep the verdict.
type Observer interface {
	// Judged follows every verdict, and every failure to come to one, with the context of the request. Took is how long
	// that was from the question on, or [Untimed].
	Judged(ctx context.Context, v *Verdict, took time.Duration, err error)
	// Unsettled follows every refund and every settlement after a response that was not applied.
	Unsettled(ctx context.Context, v *Verdict, s Settlement)
}

// Settlement is a correction of what a request was charged, once its response is known.
type Settlement struct {
	// Rule is the first of the rules that it is about.
	Rule *Rule
	// Refund says that everything was to be given back; else Cost is the true cost.
	Refund bool
	Cost   int64
	// Err is why the store could not apply it. It is nil if the store found nothing to correct: the charge is in no window
	// any more, was reset or corrected before, or its request id has been repeated, so that it is not given back.
	Err error
}

// Untimed is how long a decision took that nobody timed. To read the clock twice is a tenth of the work of deciding in
// memory, so of many decisions some are timed: the first 32 of every 20 ms.
const Untimed = time.Duration(-1)

// Observers returns an observer that tells each of those given that are not nil, in their order. It is nil if none is.
func Observers(each ...Observer) Observer {
	var all observers
	for _, o := range each {
		if o != nil {
			all = append(all, o)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

type observers []Observer

// Judged implements [Observer].
func (all observers) Judged(ctx context.Context, v *Verdict, took time.Duration, err error) {
	for _, o := range all {
		o.Judged(ctx, v, took, err)
	}
}

// Unsettled implements [Observer].
func (all observers) Unsettled(ctx context.Context, v *Verdict, s Settlement) {
	for _, o := range all {
		o.Unsettled(ctx, v, s)
	}
}

// How many decisions are timed: see [Untimed].
const (
	timedAtOnce = 32
	timedEvery  = 20 * time.Millisecond
)

// stopwatch times decisions. Its readings are since it was made. Who comes when enough are timed reads one number that
// hardly changes, and no clock: time passes by a timer, which runs while there are decisions.
type stopwatch struct {
	made  time.Time
	left  atomic.Int64 // that may be timed
	timer *time.Timer
}

func newStopwatch() *stopwatch {
	w := &stopwatch{made: time.Now()}
	w.left.Store(timedAtOnce)
	w.timer = time.AfterFunc(timedEvery, func() { w.left.Store(timedAtOnce) })
	return w
}

// begin returns when a decision began, or Untimed.
func (w *stopwatch) begin() time.Duration {
	if w.left.Load() <= 0 {
		return Untimed
	}
	switch left := w.left.Add(-1); {
	case left < 0:
		return Untimed
	case left == timedAtOnce-1:
		w.timer.Reset(timedEvery)
	}
	return time.Since(w.made)
}

// took returns how long a decision has taken that began then.
func (w *stopwatch) took(begun time.Duration) time.Duration {
	if begun == Untimed {
		return Untimed
	}
	return time.Since(w.made) - begun
}
