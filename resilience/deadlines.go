package resilience

import (
	"context"
	"slices"
	"time"
)

// checkBy ensures that [batch.look] runs no later than t. b.mu must be held.
func (b *batch) checkBy(t time.Time) {
	if b.checkAt.IsZero() || t.Before(b.checkAt) {
		b.checkAt = t
		b.check.Reset(time.Until(t))
	}
}

// look ends the wait of callers whose time is up, sends requests that have waited long enough, and
// counts overdue flights as failed. It runs when the timer fires.
func (b *batch) look() {
	var overdue []*attempt
	b.mu.Lock()
	now := time.Now()
	b.catchUp(now)
	b.checkAt = time.Time{}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool { return b.ended(w, now) })
	for _, f := range b.flights {
		for _, w := range f.waiters {
			b.ended(w, now)
		}
		switch {
		case f.late:
		case now.Before(f.over):
			b.checkBy(f.over)
		default:
			f.late = true
			if f.silent() { // otherwise, the flight's outcome counts when the flight ends
				overdue = append(overdue, f.attempt)
			}
		}
	}
	// While maxFlights are under way, no other flight can show that the store is still silent. So
	// each further time budget that passes without an answer counts as a failure, too.
	var silent *attempt
	if len(b.flights) == maxFlights {
		if !now.Before(b.silentAt) {
			b.silentAt = now.Add(b.budget)
			if !slices.ContainsFunc(b.flights, func(f *flight) bool { return !f.silent() }) {
				silent = b.flights[maxFlights-1].attempt
			}
		}
		b.checkBy(b.silentAt)
	}
	b.send(now)
	b.mu.Unlock()
	// Call leave without the lock, because it calls the observer. Later answers no longer count.
	for _, a := range overdue {
		b.store.leave(context.Background(), a, gaveUp(b.op, context.DeadlineExceeded))
	}
	if silent != nil {
		b.store.stillSilent(silent, gaveUp(b.op, context.DeadlineExceeded))
	}
}

// catchUp postpones deadlines if the timer is late, which shows that this process lags. b.mu must
// be held.
func (b *batch) catchUp(now time.Time) {
	lag := now.Sub(b.checkAt)
	if b.checkAt.IsZero() || lag < lagTime {
		return
	}
	b.checkAt = now
	until := now.Add(lag)
	if lag >= b.budget { // if every small lag postponed silentAt, it might never be reached
		b.silentAt = later(b.silentAt, until)
	}
	for _, w := range b.waiting {
		w.putOff(until)
	}
	for _, f := range b.flights {
		for _, w := range f.waiters {
			w.putOff(until)
			f.over = later(f.over, w.until)
		}
	}
}

func (w *waiter) putOff(until time.Time) {
	if until.After(w.latest) {
		until = w.latest
	}
	w.until = later(w.until, until)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// ended reports whether a caller no longer waits. It ends the wait if the caller's time is up. b.mu
// must be held.
func (b *batch) ended(w *waiter, now time.Time) bool {
	switch {
	case w.answered || w.gaveUp != nil:
		return true
	case now.Before(w.until):
		b.checkBy(w.until)
		return false
	}
	w.gaveUp = context.DeadlineExceeded
	w.done <- struct{}{}
	return true
}
