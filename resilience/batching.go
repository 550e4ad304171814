package resilience

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

const (
	// eagerCalls is how many calls to the store are in flight before requests wait to go together:
	// one on its way while the other is processed.
	eagerCalls = 2
	// maxInFlight is how many there are at most, with a slow store.
	maxInFlight = 64
	// maxBatch is how many requests go together at most.
	maxBatch = 1024
	// tick is how often waiting requests are checked: it bounds how long they wait for a slow
	// store, and by how much a budget can be exceeded.
	tick = 500 * time.Microsecond
	// idleTick is how often to check while no request waits, and quietTime after how long without
	// any request checking ends.
	idleTick  = 10 * time.Millisecond
	quietTime = 50 * time.Millisecond
	// lateTime is how long after its callers' deadlines a call is still followed. maxLate is how
	// many requests are followed at most, and maxLateBatches in how many calls.
	lateTime       = time.Second
	maxLate        = 65_536
	maxLateBatches = 256
	// quickCalls is how many calls in a row must have been answered within a quarter of the budget
	// for a caller to make a call itself, and ownTime how much time it may have for that at most.
	quickCalls = 16
	ownTime    = 100 * time.Millisecond
)

// batching is a layer that sends requests made at the same time to the store in one call. Answers
// stay exact: the store decides them one by one, in order of arrival.
//
// No request waits for others to join. While a few calls are in flight, requests gather; they leave
// with the next call that starts, because one came back, or because half a millisecond has passed.
// Every caller is answered by its context's deadline, and a request whose caller has given up is
// not sent any more: neither a canceled context nor a store that never answers delays others.
//
// A call whose callers have all given up is followed for another second, in addition to those in
// flight: what the store answers late still matters to the fallback. See lateAnswer.
//
// A caller that finds no call in flight makes one itself, and is answered in two thirds of the time
// that it takes to wake another goroutine and be woken by it. It cannot follow the call for longer
// than it waits, nor notice that its context is canceled: so it does this only while the store is
// quick.
type batching struct {
	inner      driver.BatchStore
	breaker    *breaker // the same, if it is one
	maxWaiting int
	budget     time.Duration
	ledger     *ledger      // learns of all answers; nil if there is none
	spare      sync.Pool    // waiters that were answered; a batch may still hold others
	late       atomic.Int64 // requests that were sent and given up, and may still be answered

	mu          sync.Mutex
	waiting     []*waiter
	earliest    time.Time // deadline of those waiting; zero if there is none
	since       time.Time // when the first of them came
	inFlight    int       // calls in flight, without those that are late,
	lateBatches int       // of which there are so many
	quick       int       // calls in a row that were answered quickly
	resting     int       // goroutines that wait for another batch to send, or nil to end
	next        chan *sentBatch
	sent        map[*sentBatch]struct{}
	watched     bool
	wake        time.Time // of the next check
	closed      bool
	work        sync.WaitGroup
	wakeUp      chan struct{} // starts a check now
}

// errTooMany is the cause of a refusal when too many callers wait.
var errTooMany = errors.New("too many callers are waiting for the store")

var errClosed = errors.New("closed")

// newBatching batches the takes of a store. A call to the store is given at least the budget,
// however little time its caller has: that is the caller's choice and says nothing about the store.
func newBatching(inner driver.BatchStore, c Config) *batching {
	breaker, _ := inner.(*breaker)
	return &batching{inner: inner, breaker: breaker, maxWaiting: c.MaxWaiting, budget: c.budget(),
		sent:   map[*sentBatch]struct{}{},
		next:   make(chan *sentBatch, eagerCalls),
		wakeUp: make(chan struct{}, 1)}
}

// waiter is a caller that waits for its answer.
type waiter struct {
	call  driver.Call
	own   []stint.Claim // of its call: the caller's may change once it has given up
	first []*owedCall   // to be charged first, in the same call
	state atomic.Uint32
	sent  atomic.Bool
	left  atomic.Int32 // how many are done with it, of caller and batch, if it was answered early
	done  chan struct{}
	early func() // its call's Done
	late  lateAnswer
	// number is that of the call to the store.
	number uint64
}

// States of a waiter. Whoever changes it from waiting owns the answer.
const (
	waiting uint32 = iota
	answered
	early     // answered before others of its batch, which may still be checked
	expired   // its deadline passed
	abandoned // its caller gave up
)

// sentBatch is one call to the store.
type sentBatch struct {
	waiters  []*waiter
	calls    []*driver.Call
	earliest time.Time // deadline; zero if there is none, or all that have one are expired
	over     time.Time // when the store has failed to answer it in time; zero is never
	overdue  bool      // it is over,
	late     bool      // and no longer counts as in flight
	attempt  *attempt
	begun    time.Time
}

func (b *batching) ask(ctx context.Context, q *question) error {
	deadline, _ := ctx.Deadline()
	return b.askBy(ctx, q, nil, deadline)
}

// askBy is ask with a deadline, of which zero is none, beside that of the context. What is owed is
// charged first, in the same call. The question is copied with its claims: its caller may give up
// before the store answers.
func (b *batching) askBy(ctx context.Context, q *question, owed []*owedCall, deadline time.Time) error {
	if err := ctx.Err(); err != nil {
		giveUp(owed)
		return gaveUp("take", err)
	}
	b.mu.Lock()
	if b.closed || len(b.waiting) >= b.maxWaiting {
		err := errTooMany
		if b.closed {
			err = errClosed
		}
		b.mu.Unlock()
		giveUp(owed)
		return &stint.StoreError{Op: "take", Kind: errkind.Refused, Err: err}
	}
	if len(owed) == 0 && b.mayAskItself(&q.request, deadline) {
		b.inFlight++
		b.work.Add(1)
		b.mu.Unlock()
		return b.askItself(q, deadline)
	}
	w, ok := b.spare.Get().(*waiter)
	if !ok {
		w = &waiter{done: make(chan struct{}, 1)}
		w.early = func() {
			if w.state.CompareAndSwap(waiting, early) {
				b.learn(&w.call, w.number, false)
				w.done <- struct{}{}
			} else {
				b.deliverLate(w)
			}
		}
	}
	w.state.Store(waiting)
	w.sent.Store(false)
	w.first = owed
	w.own = append(w.own[:0], q.request.Claims...)
	w.call.Request, w.call.Deadline, w.call.Done = q.request, deadline, w.early
	w.call.Request.Claims = w.own
	b.enqueue(w)
	b.mu.Unlock()
	return b.wait(ctx, w, &q.decision)
}

// mayAskItself reports whether a caller may make the call itself. If its answer comes late, a unit
// is charged once too often; but nobody would give back a place, a booking or a lease. The lock is
// held.
func (b *batching) mayAskItself(r *stint.Request, deadline time.Time) bool {
	if b.inFlight > 0 || len(b.waiting) > 0 || b.quick < quickCalls || deadline.IsZero() ||
		r.Mode == stint.ModeReserve || r.Terms().Booked != 0 || r.Terms().Lease > 0 || anyPlace(r.Claims) {
		return false
	}
	left := time.Until(deadline) // with much less than the budget, a failure says nothing about the store
	return left >= b.budget/4*3 && left <= ownTime
}

// askItself makes a call for one question, in the goroutine of its caller.
func (b *batching) askItself(q *question, deadline time.Time) (err error) {
	defer b.work.Done()
	ctx, ok := until(context.Background(), deadline), false
	defer func() { // also if the store panics
		ctx.release()
		b.mu.Lock()
		b.inFlight--
		b.noteCall(ok, q.asked)
		if len(b.waiting) > 0 && b.inFlight < eagerCalls {
			b.start()
		}
		b.mu.Unlock()
	}()
	q.decision, err = b.inner.Take(ctx, q.request)
	if ok = err == nil; ok && b.ledger != nil {
		b.ledger.synchronize(&q.decision, q.asked)
		b.ledger.answered(&q.request, &q.decision, b.ledger.calls.Add(1), false)
	}
	return err
}

// noteCall notes how a call ended that began at an instant. The lock is held.
func (b *batching) noteCall(ok bool, begun time.Time) {
	if ok && time.Since(begun) < b.budget/4 {
		b.quick++
	} else {
		b.quick = 0
	}
}

// enqueue lets a caller wait, or starts the call that carries its request. The lock is held.
func (b *batching) enqueue(w *waiter) {
	first := len(b.waiting) == 0
	if first {
		b.since = time.Now()
		b.earliest = time.Time{}
	}
	b.waiting = append(b.waiting, w)
	b.earliest = sooner(b.earliest, w.call.Deadline)
	if b.inFlight < eagerCalls {
		b.start()
	}
	if !b.watched {
		b.watched, b.wake = true, time.Time{}
		b.work.Go(b.watch)
	} else if first {
		look := w.call.Deadline
		if len(b.waiting) > 0 {
			look = b.since.Add(tick)
		}
		if !look.IsZero() && look.Before(b.wake) {
			b.wake = look
			select {
			case b.wakeUp <- struct{}{}:
			default:
			}
		}
	}
}

// wait fills in the answer, or returns an error if the deadline or the caller's cancellation comes
// first.
func (b *batching) wait(ctx context.Context, w *waiter, d *stint.Decision) error {
	if canceled := ctx.Done(); canceled == nil {
		<-w.done
	} else {
		select {
		case <-w.done:
		case <-canceled:
			if w.state.CompareAndSwap(waiting, abandoned) {
				b.mu.Lock() // it may just be being sent
				sent := w.sent.Load()
				b.mu.Unlock()
				return b.abandon(w, sent, ctx.Err())
			}
			<-w.done
		}
	}
	if w.state.Load() == expired {
		// both states change under the lock
		return b.abandon(w, w.sent.Load(), context.DeadlineExceeded)
	}
	*d = w.call.Decision
	err := w.call.Err
	if w.state.Load() == answered {
		b.free(w)
	} else {
		b.leave(w)
	}
	return err
}

// leave notes that the caller or the batch of a waiter that was answered early is done with it.
func (b *batching) leave(w *waiter) {
	if w.left.Add(1) == 2 {
		w.left.Store(0)
		b.free(w)
	}
}

// free keeps a waiter for later. Nobody else holds it.
func (b *batching) free(w *waiter) {
	w.call = driver.Call{}
	clear(w.own)
	b.spare.Put(w)
}

// abandon returns the error of a caller that does not wait any longer. If its request was sent, the
// error leads to the answer that may still come. It takes no lock: many give up at the same moment,
// and would wait for each other.
func (b *batching) abandon(w *waiter, sent bool, cause error) error {
	if !sent { // and never will be
		giveUp(w.first)
		return gaveUp("take", cause)
	}
	if b.late.Load() >= maxLate {
		return gaveUp("take", cause)
	}
	if w.late.expect(cause) {
		b.late.Add(1)
	}
	return gaveUp("take", &w.late)
}

// deliverLate passes on an answer whose caller has given up.
func (b *batching) deliverLate(w *waiter) {
	if w.late.arrive(w.call.Decision, w.call.Err, w.number) {
		b.late.Add(-1)
	}
	b.learn(&w.call, w.number, true)
}

// learn tells the ledger of an answer.
func (b *batching) learn(c *driver.Call, number uint64, late bool) {
	if b.ledger != nil && c.Err == nil {
		b.ledger.answered(&c.Request, &c.Decision, number, late)
	}
}

// start sends the waiting requests. The lock is held.
func (b *batching) start() {
	f := b.fill(&sentBatch{})
	if f == nil {
		return
	}
	b.inFlight++
	if b.resting > 0 {
		b.resting--
		b.next <- f
	} else {
		b.work.Go(func() { b.serve(f) })
	}
}

// serve runs batches. In a new goroutine for each, the stack would have to grow, which takes 10 µs.
func (b *batching) serve(f *sentBatch) {
	for f != nil {
		b.run(f)
		b.mu.Lock()
		rest := b.watched && !b.closed && b.resting < eagerCalls // watch ends it
		if rest {
			b.resting++
		}
		b.mu.Unlock()
		if !rest {
			return
		}
		f = <-b.next
	}
}

// endResting ends the goroutines that wait for another batch. The lock is held.
func (b *batching) endResting() {
	for ; b.resting > 0; b.resting-- {
		b.next <- nil
	}
}

// fill fills a batch with the waiting requests whose callers still want an answer, and returns nil
// if there are none. The lock is held.
func (b *batching) fill(f *sentBatch) *sentBatch {
	f.waiters, f.calls, f.earliest = f.waiters[:0], f.calls[:0], time.Time{}
	now, number := time.Now(), uint64(0)
	if b.ledger != nil {
		number = b.ledger.calls.Add(1)
	}
	n := 0
	for _, w := range b.waiting {
		if len(f.waiters) == maxBatch {
			break
		}
		n++
		if w.expire(now) || w.state.Load() != waiting {
			continue
		}
		w.sent.Store(true)
		w.number = number
		f.waiters = append(f.waiters, w)
		for _, o := range w.first {
			o.Call.Deadline, o.number = w.call.Deadline, number
			f.calls = append(f.calls, &o.Call)
		}
		f.calls = append(f.calls, &w.call)
		f.earliest = sooner(f.earliest, w.call.Deadline)
	}
	left := copy(b.waiting, b.waiting[n:])
	clear(b.waiting[left:])
	b.waiting, b.since = b.waiting[:left], now
	if len(f.waiters) == 0 {
		return nil
	}
	f.over = time.Time{}
	if latest := f.latest(); !latest.IsZero() {
		// A caller with less time than the budget has chosen so: that says nothing about the store.
		if f.over = now.Add(b.budget); latest.After(f.over) {
			f.over = latest
		}
	}
	f.overdue, f.attempt, f.begun = false, new(attempt), now
	b.sent[f] = struct{}{}
	return f
}

// latest is the latest deadline; zero if there is a call without one.
func (f *sentBatch) latest() (latest time.Time) {
	for _, c := range f.calls {
		if c.Deadline.IsZero() {
			return time.Time{}
		}
		if c.Deadline.After(latest) {
			latest = c.Deadline
		}
	}
	return latest
}

// run makes calls to the store for as long as requests wait.
func (b *batching) run(f *sentBatch) {
	for f != nil {
		b.call(f)
		b.mu.Lock()
		late := f.late
		if late {
			b.lateBatches--
		}
		delete(b.sent, f) // waiters that are answered may be reused
		b.noteCall(batchError(f.calls) == nil, f.begun)
		b.mu.Unlock()
		if c := &f.waiters[0].call; b.ledger != nil && c.Err == nil && f.waiters[0].state.Load() == waiting {
			b.ledger.synchronize(&c.Decision, f.begun)
		}
		for _, w := range f.waiters {
			for _, o := range w.first { // before the answer to the request they came with
				o.end()
			}
			if w.state.CompareAndSwap(waiting, answered) {
				b.learn(&w.call, w.number, false)
				w.done <- struct{}{}
			} else if w.state.Load() == early {
				b.leave(w)
			} else {
				b.deliverLate(w)
			}
		}
		if late {
			return
		}
		runtime.Gosched() // callers that were answered may ask again
		b.mu.Lock()
		if b.inFlight > eagerCalls || len(b.waiting) == 0 {
			f = nil
		} else {
			f = b.fill(f)
		}
		if f == nil {
			b.inFlight--
		}
		b.mu.Unlock()
	}
}

// call makes one call to the store. It is followed for some time after its callers have given up.
func (b *batching) call(f *sentBatch) {
	ctx := context.Background()
	if !f.over.IsZero() {
		limited := until(ctx, f.over.Add(lateTime))
		defer limited.release()
		ctx = limited
	}
	if b.breaker != nil {
		b.breaker.attempt(ctx, f.calls, f.attempt)
	} else {
		b.inner.TakeBatch(ctx, f.calls)
	}
}

// watch checks waiting requests until there have been none for a while.
func (b *batching) watch() {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	quiet := time.Now()
	var overdue []*attempt
	for {
		select {
		case <-timer.C:
		case <-b.wakeUp:
		}
		b.mu.Lock()
		now := time.Now()
		overdue = b.check(now, overdue[:0])
		if len(b.waiting)+len(b.sent) > 0 {
			quiet = now
		}
		if now.Sub(quiet) > quietTime || b.closed && quiet != now {
			b.watched = false
			b.endResting()
			b.mu.Unlock()
			return
		}
		b.wake = b.nextCheck(now)
		timer.Reset(b.wake.Sub(now))
		b.mu.Unlock()
		for _, a := range overdue { // without the lock: observers are called
			if b.breaker != nil {
				b.breaker.overdue(a)
			}
		}
	}
}

// check expires requests whose time is up, and sends those that have waited long enough. It appends
// the calls that the store has failed to answer in time. The lock is held.
func (b *batching) check(now time.Time, overdue []*attempt) []*attempt {
	if due(b.earliest, now) {
		b.earliest = expireDue(b.waiting, now)
		b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool { return w.state.Load() != waiting })
	}
	for f := range b.sent {
		if due(f.earliest, now) {
			f.earliest = expireDue(f.waiters, now)
		}
		if !due(f.over, now) {
			continue
		}
		if !f.overdue {
			f.overdue, b.quick = true, 0
			overdue = append(overdue, f.attempt)
		}
		if b.lateBatches < maxLateBatches {
			f.late = true
			b.lateBatches++
			b.inFlight--
			delete(b.sent, f)
		}
	}
	if len(b.waiting) > 0 && now.Sub(b.since) >= tick && b.inFlight < maxInFlight {
		b.start()
	}
	return overdue
}

// nextCheck is when to check again. The lock is held.
func (b *batching) nextCheck(now time.Time) time.Time {
	if len(b.waiting) > 0 {
		return now.Add(tick)
	}
	next := now.Add(idleTick)
	for f := range b.sent {
		next = sooner(sooner(next, f.earliest), f.over)
	}
	if soonest := now.Add(tick); next.Before(soonest) {
		return soonest
	}
	return next
}

// expireDue expires requests whose time is up, and returns the earliest deadline of the others.
func expireDue(ws []*waiter, now time.Time) (earliest time.Time) {
	for _, w := range ws {
		if !w.expire(now) && w.state.Load() == waiting {
			earliest = sooner(earliest, w.call.Deadline)
		}
	}
	return earliest
}

// expire ends the wait of a caller if its time is up, and reports whether it did.
func (w *waiter) expire(now time.Time) bool {
	if !due(w.call.Deadline, now) || !w.state.CompareAndSwap(waiting, expired) {
		return false
	}
	w.done <- struct{}{}
	return true
}

func due(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

// sooner is the earlier of two deadlines, of which zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (b *batching) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	return b.inner.Amend(ctx, c, a)
}

func (b *batching) Command(ctx context.Context, c stint.Command) error {
	return b.inner.Command(ctx, c)
}

// Close refuses further requests and waits for those that are in flight, late ones included.
func (b *batching) Close() {
	b.mu.Lock()
	b.closed = true
	b.endResting()
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
