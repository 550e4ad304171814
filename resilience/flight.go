package resilience

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/stint-limiter/stint/driver"
)

const (
	// If fewer than eagerFlights are under way, requests do not wait to be sent together. So one
	// flight is under way while the answers of another are processed.
	eagerFlights = 2
	// maxFlights is the maximum number of flights, late ones included. Each uses a connection.
	maxFlights = 8
	// maxBatch is the maximum number of requests that are sent together.
	maxBatch = 1024
	// gatherTime is how long requests to a fast store wait before a further flight starts, if none
	// of the flights under way is answered in the meantime.
	gatherTime = 500 * time.Microsecond
	// lateTime is how long the answer to a flight is awaited after its callers' deadlines.
	lateTime = time.Second
)

// flight is one call to the store.
type flight struct {
	waiters []*waiter
	calls   []*driver.Call
	amends  []*driver.AmendCall
	begun   time.Time
	over    time.Time // when the flight becomes late, and counts as a failure of the store
	end     time.Time // when its answer is no longer awaited
	late    bool
	attempt *attempt
}

// send starts flights for the waiting requests while [batch.mayStart] allows another flight. b.mu
// must be held.
func (b *batch) send(now time.Time) {
	for len(b.waiting) > 0 && b.mayStart(now) {
		b.start()
	}
	switch {
	case len(b.waiting) > 0 && len(b.flights) < maxFlights:
		b.checkBy(b.since.Add(b.gather()))
	case len(b.waiting) > 0:
		b.crowded = true
	case len(b.flights) <= maxFlights/2:
		b.crowded = false
	}
}

// start starts a flight with waiting requests. b.mu must be held.
func (b *batch) start() {
	f := b.fill(&flight{})
	if f == nil {
		return
	}
	switch {
	case b.closed:
		b.work.Go(func() { b.fly(f) })
		return
	case b.resting > 0:
		b.resting--
	default:
		b.work.Go(func() { // the goroutine is reused: growing the stack of a new one takes 10 µs
			for f := range b.rest {
				b.fly(f)
			}
		})
	}
	b.rest <- f
}

// fill fills a flight with waiting requests, and leaves out those of callers that no longer wait.
// It returns nil if none are left. b.mu must be held.
func (b *batch) fill(f *flight) *flight {
	f.waiters, f.calls, f.amends = f.waiters[:0], f.calls[:0], f.amends[:0]
	now, number := time.Now(), b.ledger.nextCall()
	b.catchUp(now)
	f.begun, f.over = now, now.Add(b.budget) // a caller with a shorter budget proves nothing about the store
	n, most := 0, b.share()
	for _, w := range b.waiting {
		if len(f.waiters) == most {
			break
		}
		if n++; b.ended(w, now) {
			continue
		}
		w.sent, w.number, w.call.Deadline = true, number+uint64(len(f.waiters)), w.until
		w.holders.Add(1)
		f.waiters = append(f.waiters, w)
		f.over = later(f.over, w.until)
		if b.op == opAmend {
			f.amends = append(f.amends, &w.amend)
			continue
		}
		for _, o := range w.first {
			o.Call.Deadline, o.number = w.until, w.number
			f.calls = append(f.calls, &o.Call)
		}
		f.calls = append(f.calls, &w.call)
	}
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.since = now
	if len(f.waiters) == 0 {
		return nil
	}
	f.late, f.attempt, f.end = false, new(attempt), f.over.Add(lateTime)
	b.flights = append(b.flights, f)
	b.silentAt = now.Add(2 * b.budget) // one budget after the flight becomes late
	return f
}

// share returns the maximum number of requests to put in the next flight. If fewer than
// eagerFlights are under way, that is an equal share of the requests that wait or are under way: a
// larger flight would leave the store idle while this process handles the answers. b.mu must be
// held.
func (b *batch) share() int {
	flights, requests := b.inTime()
	if flights >= eagerFlights {
		return maxBatch
	}
	return min((requests+len(b.waiting)+eagerFlights-1)/eagerFlights, maxBatch)
}

// silent reports whether no request of the flight has been answered without an error. batch.mu must
// be held.
func (f *flight) silent() bool {
	return !slices.ContainsFunc(f.waiters, func(w *waiter) bool { return w.answered && w.call.Err == nil })
}

// inTime returns the number of flights that are not late, and the number of their requests. b.mu
// must be held.
func (b *batch) inTime() (flights, requests int) {
	for _, f := range b.flights {
		if !f.late {
			flights++
			requests += len(f.waiters)
		}
	}
	return flights, requests
}

// fly sends a flight, and then further flights as long as requests wait.
func (b *batch) fly(f *flight) {
	for f != nil {
		ctx, cancel := context.WithDeadline(context.Background(), f.end)
		if b.op == opAmend {
			b.store.amend(ctx, f.amends, f.attempt)
		} else {
			b.store.take(ctx, f.calls, f.attempt)
		}
		cancel()
		b.land(f)
		runtime.Gosched() // callers that were answered may make another request
		f = b.next(f)
	}
}

// land processes the answers of a flight, in the order of its calls.
func (b *batch) land(f *flight) {
	b.mu.Lock()
	for _, w := range f.waiters {
		w.early = !w.hasAnswer()
	}
	b.mu.Unlock()
	if c := &f.waiters[0].call; c.Err == nil && b.op == opTake {
		b.ledger.synchronize(&c.Decision, f.begun)
	}
	now := b.ledger.now()
	for _, w := range f.waiters {
		// Record the debts before the answer to the request that carried them.
		for _, o := range w.first {
			o.end()
		}
		if !w.early {
			b.deliver(w, now)
		}
	}
}

// next ends a flight. It returns the next flight to send, or nil if there is none.
func (b *batch) next(f *flight) *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flights = slices.DeleteFunc(b.flights, func(g *flight) bool { return g == f })
	now := time.Now()
	b.took = min(now.Sub(f.begun), b.budget)
	for _, w := range f.waiters {
		b.free(w)
	}
	clear(f.waiters)
	clear(f.calls)
	clear(f.amends)
	if len(b.waiting) > 0 && b.mayStart(now) {
		f = b.fill(f)
	} else {
		f = nil
	}
	if f == nil {
		b.resting++
	}
	b.send(now)
	return f
}

// gather returns how long requests wait before a further flight starts, if none of the flights
// under way is answered in the meantime. While there are more requests than flights for them,
// flights start at equal intervals. Otherwise, requests to a slow store wait for at most half of the
// time that the last flight left of the budget, so that they do not become late.
func (b *batch) gather() time.Duration {
	interval, left := max(gatherTime, b.took/maxFlights), b.budget-b.took
	if b.crowded || left <= 0 {
		return interval
	}
	return min(interval, left/2)
}

// mayStart reports whether another flight may start. b.mu must be held.
func (b *batch) mayStart(now time.Time) bool {
	flights, _ := b.inTime()
	return len(b.flights) < maxFlights && (flights < eagerFlights || now.Sub(b.since) >= b.gather())
}

// hasAnswer marks the waiter as answered, and reports whether it was unmarked before. batch.mu must
// be held, so that a goroutine that sees the mark sees the whole answer.
func (w *waiter) hasAnswer() (first bool) {
	first, w.answered = !w.answered, true
	return first
}

// landEarly processes an answer that came before the rest of its flight.
func (b *batch) landEarly(w *waiter) {
	b.mu.Lock()
	first := w.hasAnswer()
	b.mu.Unlock()
	if first {
		b.deliver(w, b.ledger.now())
	}
}

// deliver counts an answer that came at the given time, and lets its caller continue. If the caller
// has given up and passed a function to whenAnswered, deliver first calls that function.
func (b *batch) deliver(w *waiter, now int64) {
	late := w.gaveUp != nil // gaveUp no longer changes
	// Call follow first, so that the ledger knows that the answer counts the debt.
	if w.follow != nil {
		w.follow(w.call.Decision, w.call.Err, w.number)
	}
	if w.call.Err == nil && b.op == opTake {
		b.ledger.answered(&w.call.Request, &w.call.Decision, w.number, now, late)
	}
	w.done <- struct{}{}
}
