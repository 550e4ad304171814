package resilience

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

const (
	// lagTime is by how much a timer has to be late for this process to be taken to lag behind, and
	// maxLag by how much that puts off a deadline at most.
	lagTime = time.Millisecond
	maxLag  = 250 * time.Millisecond
)

// batch sends requests that are made at the same time to the store in one call, a flight; another
// batch does so with amendments. Answers stay exact: the store decides them one by one, in order of
// arrival.
//
// No request waits for others to join. While a few flights are under way, requests gather; they
// leave when one comes back, or, if the store is far away, so often that the flights there may be
// are spread over the time that one takes. Every caller is answered by its deadline, and a request
// whose caller has given up is not sent any more: neither a canceled context nor a store that never
// answers delays others.
//
// The time budget measures the store, and not this process: if that lags behind, because others
// take its CPU, or a quota does, deadlines are put off for as long as it did. So an answer that has
// come is taken over, whoever was to notice first.
//
// The answers of a flight are counted in the ledger in their order, before their callers go on. A
// flight whose callers have given up is followed for another second: what the store answers late
// still matters.
type batch struct {
	op     string // opTake or opAmend
	store  *breaker
	ledger *ledger
	budget time.Duration
	most   int       // callers that wait
	spare  sync.Pool // waiters

	mu      sync.Mutex
	waiting []*waiter     // to be sent
	since   time.Time     // when the first of them came, or a flight last left
	took    time.Duration // how long the last flight did
	flights []*flight
	check   *time.Timer
	checkAt time.Time    // zero if the timer is not set
	resting int          // goroutines that have nothing to do,
	rest    chan *flight // and get their next flight here
	closed  bool
	work    sync.WaitGroup
}

var (
	errTooMany = errors.New("too many callers are waiting for the store")
	errAllLate = errors.New("the store has not answered the calls before")
	errClosed  = errors.New("closed")
)

func newBatch(op string, store *breaker, l *ledger, c Config) *batch {
	b := &batch{op: op, store: store, ledger: l, budget: c.budget(), most: c.MaxWaiting,
		rest: make(chan *flight, maxFlights)}
	b.check = time.AfterFunc(time.Hour, b.look)
	b.check.Stop()
	return b
}

// waiter is a caller that waits for its answer. What is said to be under the lock changes until it
// is answered, or its caller has given up; the rest is the flight's while it is sent.
type waiter struct {
	call   driver.Call
	amend  driver.AmendCall // instead of the call, in a batch of amendments
	claims []stint.Claim    // of the call: the caller's may change once it has given up
	first  []*owedCall      // to be charged first, in the same call
	number uint64           // of its request in the flight, see nextCall
	until  time.Time        // when its time is up
	latest time.Time        // until when that can be put off

	// Under the lock:
	sent     bool
	answered bool
	early    bool                                // it was answered before its flight
	gaveUp   error                               // why its caller does not wait any longer
	follow   func(stint.Decision, error, uint64) // what to do with an answer that comes then

	done    chan struct{} // it is answered, or gave up, or both one after the other
	isDone  func()        // its call's Done
	holders atomic.Int32  // of caller and flight: the last one frees it
}

// ask has the store decide a request by a deadline, after charging what is owed in the same call.
// If the request was sent and not answered in time, that is an error with a waiter: whenAnswered
// tells what becomes of it.
func (b *batch) ask(ctx context.Context, q *question, owed []*owedCall, deadline time.Time) (*waiter, error) {
	w := b.newWaiter(deadline)
	w.claims = append(w.claims[:0], q.request.Claims...)
	w.call.Request, w.call.Done = q.request, w.isDone
	w.call.Request.Claims = w.claims
	w.first = owed
	if err := b.await(ctx, w); err != nil {
		if w.sent {
			b.counted(w)
			return w, err
		}
		giveUp(owed)
		return nil, err
	}
	q.decision = w.call.Decision
	err := w.call.Err
	b.free(w)
	return nil, err
}

// amended has the store amend a charge by a deadline. After an error that the store did not return,
// it may still do so, heartbeats apart.
func (b *batch) amended(ctx context.Context, c stint.Charge, a stint.Amendment, deadline time.Time) (
	done stint.Amended, err error) {
	w := b.newWaiter(deadline)
	w.amend = driver.AmendCall{Charge: c, Amendment: a, Deadline: deadline}
	if err = b.await(ctx, w); err == nil {
		done, err = w.amend.Amended, w.amend.Err
	} else if !w.sent {
		return done, err
	}
	b.free(w)
	return done, err
}

// await waits until a waiter is answered. It returns an error if its caller gives up, or cannot
// wait. A waiter that was not sent then never is, and is not freed: it may be in the queue.
func (b *batch) await(ctx context.Context, w *waiter) error {
	if err := b.enqueue(w); err != nil {
		return &stint.StoreError{Op: b.op, Kind: errkind.Refused, Err: err}
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		b.mu.Lock()
		if w.answered || w.gaveUp != nil {
			b.mu.Unlock()
			<-w.done
		} else {
			w.gaveUp = ctx.Err()
			b.mu.Unlock()
		}
	}
	switch {
	case w.gaveUp == nil:
		return nil
	case !w.sent && errors.Is(w.gaveUp, context.Canceled): // it certainly did nothing
		return &stint.StoreError{Op: b.op, Kind: errkind.Refused, Err: w.gaveUp}
	}
	return gaveUp(b.op, w.gaveUp)
}

// counted waits until an answer that has come is counted.
func (b *batch) counted(w *waiter) {
	b.mu.Lock()
	answered := w.answered
	b.mu.Unlock()
	if answered {
		<-w.done
	}
}

func (b *batch) newWaiter(deadline time.Time) *waiter {
	w, ok := b.spare.Get().(*waiter)
	if !ok {
		w = &waiter{done: make(chan struct{}, 2)}
		w.isDone = func() { b.landEarly(w) }
	}
	w.until, w.latest = deadline, deadline.Add(maxLag)
	w.holders.Store(1)
	return w
}

// free keeps a waiter for later, once nobody holds it.
func (b *batch) free(w *waiter) {
	if w.holders.Add(-1) > 0 {
		return
	}
	clear(w.claims)
	w.call, w.amend, w.first = driver.Call{}, driver.AmendCall{}, nil
	w.sent, w.answered, w.early, w.gaveUp, w.follow = false, false, false, nil, nil
	select {
	case <-w.done: // nobody waited for a late answer
	default:
	}
	b.spare.Put(w)
}

// enqueue lets a caller wait, or starts the flight that carries its request.
func (b *batch) enqueue(w *waiter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	busy := func(f *flight) bool { return !f.late || f.end.Before(w.until) }
	switch {
	case b.closed:
		return errClosed
	case len(b.waiting) >= b.most:
		return errTooMany
	case len(b.flights) == maxFlights && !slices.ContainsFunc(b.flights, busy):
		return errAllLate
	}
	if b.waiting = append(b.waiting, w); len(b.waiting) == 1 {
		b.since = time.Now()
	}
	b.send(b.since)
	b.checkBy(w.until)
	return nil
}

// checkBy sees to it that look runs at an instant, or before. The lock is held.
func (b *batch) checkBy(t time.Time) {
	if b.checkAt.IsZero() || t.Before(b.checkAt) {
		b.checkAt = t
		b.check.Reset(time.Until(t))
	}
}

// whenAnswered calls f with what becomes of a request whose caller gave up: at once if that is
// known.
func (b *batch) whenAnswered(w *waiter, f func(d stint.Decision, err error, call uint64)) {
	b.mu.Lock()
	answered := w.answered
	if !answered {
		w.follow = f
	}
	b.mu.Unlock()
	if answered {
		f(w.call.Decision, w.call.Err, w.number)
	}
	b.free(w)
}

// arrived returns the store's decision if it has come by now.
func (b *batch) arrived(w *waiter) (d stint.Decision, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.answered || w.call.Err != nil {
		return d, false
	}
	return w.call.Decision, true
}

// look ends the wait of callers whose time is up, and sends requests that have waited for long
// enough. It runs when the timer says so.
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
			overdue = append(overdue, f.attempt)
		}
	}
	b.send(now)
	b.mu.Unlock()
	for _, a := range overdue { // without the lock: observers are called
		b.store.overdue(a, b.op)
	}
}

// catchUp puts deadlines off if this process lags behind: the timer should have run before. The
// lock is held.
func (b *batch) catchUp(now time.Time) {
	lag := now.Sub(b.checkAt)
	if b.checkAt.IsZero() || lag < lagTime {
		return
	}
	b.checkAt = now
	until := now.Add(lag)
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

// ended reports whether a caller waits no longer. If its time is up, it does not. The lock is held.
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

// Close refuses further requests and waits for those that are in flight, late ones included.
func (b *batch) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.rest)
	}
	b.mu.Unlock()
	b.work.Wait()
}

// gaveUp is the failure of a store that did not answer in time.
func gaveUp(op string, err error) error {
	kind := errkind.Timeout
	if errors.Is(err, context.Canceled) {
		kind = errkind.Other
	}
	return &stint.StoreError{Op: op, Kind: kind, Err: err}
}
