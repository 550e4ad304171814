package policy

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Observer is told what a guard decides. It is called from many goroutines on the way of requests, and must
// neither block nor keep the verdict.
type Observer interface {
	// Judged follows every verdict, and every failure to come to one, with the context of the request. Took is how long
	// that was from the question on, or [Untimed].
	Judged(ctx context.Context, v *Verdict, took time.Duration, err error)
}

// Untimed is how long a decision took that nobody timed. To read the clock twice is a tenth of the work of deciding in
// memory, so of many decisions some are timed: all up to ten thousand a second, and one in 16 when there are more.
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

// How a stopwatch chooses.
const (
	// timedInFull is up to how many decisions a second are all timed, and timedOneIn how many of more.
	timedInFull = 10_000
	timedOneIn  = 16
	// paceOf is after how many that were timed a stopwatch looks how fast they come, or after a second.
	paceOf = 128
)

// stopwatch times decisions: see [Untimed]. Its readings are since it was made.
type stopwatch struct {
	made time.Time
	// busy says that only some are timed. Begun is when timed began to count those that are.
	busy  atomic.Bool
	begun atomic.Int64
	timed atomic.Int64
}

// begin returns when a decision began, or Untimed.
func (w *stopwatch) begin() time.Duration {
	if w.busy.Load() && rand.Uint32()%timedOneIn != 0 {
		return Untimed
	}
	now := time.Since(w.made)
	w.pace(now)
	return now
}

// pace counts a decision that is timed, and sees now and then how many there are.
func (w *stopwatch) pace(now time.Duration) {
	timed, begun := w.timed.Add(1), w.begun.Load()
	passed := now - time.Duration(begun)
	if timed < paceOf && passed < time.Second || !w.begun.CompareAndSwap(begun, int64(now)) {
		return
	}
	w.timed.Add(-timed)
	if w.busy.Load() {
		timed *= timedOneIn
	}
	w.busy.Store(float64(timed) > timedInFull*passed.Seconds())
}

// took returns how long a decision has taken that began then.
func (w *stopwatch) took(begun time.Duration) time.Duration {
	if begun == Untimed {
		return Untimed
	}
	return time.Since(w.made) - begun
}
