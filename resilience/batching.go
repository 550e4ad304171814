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
)

// BatchingConfig sets up a [Batching]. Zero values mean the defaults.
type BatchingConfig struct {
	// MaxWaiting is how many callers may wait to be sent before more are refused. The
	// default is 10,000.
	MaxWaiting int
	// Budget is what a call to the store is given at least, however little time its caller
	// has: what is too little is the caller's choice, and says nothing about the store. The
	// default is DefaultBudget.
	Budget time.Duration
}

const (
	// eager is how many calls to the store are in flight before others wait to travel
	// together: one on its way while the other is at work.
	eager = 2
	// maxFlights is how many there are at most, behind a store that is slow.
	maxFlights = 64
	// maxBatch is how many requests travel together at most.
	maxBatch = 1024
	// tick is how often those who wait are looked after: it bounds how long anyone
	// waits for a store that is slow, and how far a budget can be exceeded.
	tick = 500 * time.Microsecond
	// idle is how often somebody looks while nobody waits, and lull after how much quiet
	// nobody does any more.
	idle = 10 * time.Millisecond
	lull = 50 * time.Millisecond
	// lateTime is how long after its callers' deadlines a call is still followed; maxLate is
	// how many requests are at most, and maxLateFlights in how many calls.
	lateTime       = time.Second
	maxLate        = 65_536
	maxLateFlights = 256
)

// Batching is a [stint.Store] that sends requests which are made at the same time to
// the store in one call. Answers stay exact: the store decides them one by one, in order
// of arrival.
//
// Nobody waits for company. While a few calls are in flight, requests gather; they leave with
// the next call that starts, because one came back, or because half a millisecond has passed.
// Every caller is answered by its context's deadline, and one that has given up is not sent
// any more: neither a cancelled context nor a store that never answers holds up anybody else.
//
// A call whose callers have all been let go is followed for another second, in addition to
// those in flight: what the store answers late still matters to [Fallback]. See [late].
type Batching struct {
	inner      stint.BatchStore
	breaker    *Breaker // inner, if it is one
	maxWaiting int
	budget     time.Duration
	spare      sync.Pool    // waiters that were answered; a flight may still hold others
	late       atomic.Int64 // requests that were sent and let go, and may still be answered

	mu       sync.Mutex
	waiting  []*waiter
	earliest time.Time // deadline of those who wait; zero if there is none
	since    time.Time // when the first of them came
	flights  int       // calls in flight, without those that are late,
	lates    int       // of which there are so many
	flying   map[*flight]struct{}
	watched  bool
	wake     time.Time // when somebody looks next
	closed   bool
	work     sync.WaitGroup
	nudge    chan struct{} // has somebody look now
}

var _ stint.Store = (*Batching)(nil)

// ErrTooMany is the cause of a refusal for want of room to wait.
var ErrTooMany = errors.New("too many callers are waiting for the store")

var errClosed = errors.New("closed")

// NewBatching batches the takes of a store.
func NewBatching(inner stint.BatchStore, c BatchingConfig) *Batching {
	if c.MaxWaiting <= 0 {
		c.MaxWaiting = 10_000
	}
	if c.Budget <= 0 {
		c.Budget = DefaultBudget
	}
	breaker, _ := inner.(*Breaker)
	return &Batching{inner: inner, breaker: breaker, maxWaiting: c.MaxWaiting, budget: c.Budget, flying: map[*flight]struct{}{},
		nudge: make(chan struct{}, 1)}
}

// waiter is a caller that waits for its answer.
type waiter struct {
	call  stint.Call
	first []*owedCall // to be charged first, in the same call
	state atomic.Uint32
	sent  atomic.Bool
	done  chan struct{}
	early func() // its call's Done
	late  late
}

// States of a waiter. Who changes it from waiting owns the answer.
const (
	waiting uint32 = iota
	answered
	early     // answered before others of its flight, which may still be looked at
	expired   // its deadline passed
	abandoned // its caller gave up
)

// flight is one call to the store.
type flight struct {
	waiters  []*waiter
	calls    []*stint.Call
	earliest time.Time // deadline; zero if there is none, or all that have one are expired
	over     time.Time // when the store has failed to answer it in time; zero is never
	overdue  bool      // it is over,
	late     bool      // and no longer counts as a flight
	attempt  *attempt
}

// Take implements [stint.Store].
func (b *Batching) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	deadline, _ := ctx.Deadline()
	return b.takeBy(ctx, r, nil, deadline)
}

// takeBy is Take with a deadline, of which zero is none, beside that of the context. What is
// owed is charged first, in the same call.
func (b *Batching) takeBy(ctx context.Context, r stint.Request, owed []*owedCall, deadline time.Time) (stint.Decision, error) {
	if err := ctx.Err(); err != nil {
		giveUp(owed)
		return stint.Decision{}, gaveUp("take", err)
	}
	b.mu.Lock()
	if b.closed || len(b.waiting) >= b.maxWaiting {
		err := ErrTooMany
		if b.closed {
			err = errClosed
		}
		b.mu.Unlock()
		giveUp(owed)
		return stint.Decision{}, &stint.StoreError{Op: "take", Kind: stint.KindRefused, Err: err}
	}
	w, ok := b.spare.Get().(*waiter)
	if !ok {
		w = &waiter{done: make(chan struct{}, 1)}
		w.early = func() {
			if w.state.CompareAndSwap(waiting, early) {
				w.done <- struct{}{}
			} else {
				b.come(w)
			}
		}
	}
	w.state.Store(waiting)
	w.sent.Store(false)
	w.first = owed
	w.call.Request, w.call.Deadline, w.call.Done = r, deadline, w.early
	b.enqueue(w)
	b.mu.Unlock()
	return b.wait(ctx, w)
}

// enqueue lets a caller wait, or starts the call that takes it along. The lock is held.
func (b *Batching) enqueue(w *waiter) {
	first := len(b.waiting) == 0
	if first {
		b.since = time.Now()
		b.earliest = time.Time{}
	}
	b.waiting = append(b.waiting, w)
	b.earliest = sooner(b.earliest, w.call.Deadline)
	if b.flights < eager {
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
			case b.nudge <- struct{}{}:
			default:
			}
		}
	}
}

// wait returns the answer, or an error if the deadline or the caller's cancellation
// comes first.
func (b *Batching) wait(ctx context.Context, w *waiter) (stint.Decision, error) {
	if cancelled := ctx.Done(); cancelled == nil {
		<-w.done
	} else {
		select {
		case <-w.done:
		case <-cancelled:
			if w.state.CompareAndSwap(waiting, abandoned) {
				b.mu.Lock() // it may just be being sent
				sent := w.sent.Load()
				b.mu.Unlock()
				return stint.Decision{}, b.letGo(w, sent, ctx.Err())
			}
			<-w.done
		}
	}
	if w.state.Load() == expired {
		return stint.Decision{}, b.letGo(w, w.sent.Load(), context.DeadlineExceeded) // who expires does so under the lock, as who is sent
	}
	d, err := w.call.Decision, w.call.Err
	if w.state.Load() == answered {
		w.call = stint.Call{}
		b.spare.Put(w)
	}
	return d, err
}

// letGo returns the error of a caller that is not waited for. If its request was sent, the
// error leads to the answer that may still come. It takes no lock: many are let go at the
// same moment, and would wait for each other.
func (b *Batching) letGo(w *waiter, sent bool, cause error) error {
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

// come hands on an answer whose caller was let go.
func (b *Batching) come(w *waiter) {
	if w.late.come(w.call.Decision, w.call.Err) {
		b.late.Add(-1)
	}
}

// start sends those who wait. The lock is held.
func (b *Batching) start() {
	if f := b.board(&flight{}); f != nil {
		b.flights++
		b.work.Go(func() { b.fly(f) })
	}
}

// board fills a flight with those who wait and still want an answer, and returns nil
// if there is nobody. The lock is held.
func (b *Batching) board(f *flight) *flight {
	f.waiters, f.calls, f.earliest = f.waiters[:0], f.calls[:0], time.Time{}
	now := time.Now()
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
		f.waiters = append(f.waiters, w)
		for _, o := range w.first {
			o.Call.Deadline = w.call.Deadline
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
	f.overdue, f.attempt = false, new(attempt)
	b.flying[f] = struct{}{}
	return f
}

// latest is the latest deadline; zero if there is a call without one.
func (f *flight) latest() (latest time.Time) {
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

// fly makes calls to the store for as long as somebody waits.
func (b *Batching) fly(f *flight) {
	for f != nil {
		b.call(f)
		b.mu.Lock()
		late := f.late
		if late {
			b.lates--
		}
		delete(b.flying, f) // those who are answered may be somebody else's next
		b.mu.Unlock()
		for _, w := range f.waiters {
			for _, o := range w.first { // before the answer to who came with it
				o.end()
			}
			if w.state.CompareAndSwap(waiting, answered) {
				w.done <- struct{}{}
			} else if state := w.state.Load(); state == expired || state == abandoned {
				b.come(w)
			}
		}
		if late {
			return
		}
		runtime.Gosched() // who was answered may have something to ask again
		b.mu.Lock()
		if b.flights > eager || len(b.waiting) == 0 {
			f = nil
		} else {
			f = b.board(f)
		}
		if f == nil {
			b.flights--
		}
		b.mu.Unlock()
	}
}

// call makes one call to the store. It is followed for some time after its callers were let go.
func (b *Batching) call(f *flight) {
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

// watch looks after those who wait until there has been nobody for a while.
func (b *Batching) watch() {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	quiet := time.Now()
	var overdue []*attempt
	for {
		select {
		case <-timer.C:
		case <-b.nudge:
		}
		b.mu.Lock()
		now := time.Now()
		overdue = b.look(now, overdue[:0])
		if len(b.waiting)+len(b.flying) > 0 {
			quiet = now
		}
		if now.Sub(quiet) > lull || b.closed && quiet != now {
			b.watched = false
			b.mu.Unlock()
			return
		}
		b.wake = b.nextLook(now)
		timer.Reset(b.wake.Sub(now))
		b.mu.Unlock()
		for _, a := range overdue { // observers hear of it
			if b.breaker != nil {
				b.breaker.overdue(a)
			}
		}
	}
}

// look lets go of those whose time is up, and sends those who have waited for long enough.
// It appends the calls that the store has failed to answer in time. The lock is held.
func (b *Batching) look(now time.Time, overdue []*attempt) []*attempt {
	if due(b.earliest, now) {
		b.earliest = letGo(b.waiting, now)
		b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool { return w.state.Load() != waiting })
	}
	for f := range b.flying {
		if due(f.earliest, now) {
			f.earliest = letGo(f.waiters, now)
		}
		if !due(f.over, now) {
			continue
		}
		if !f.overdue {
			f.overdue = true
			overdue = append(overdue, f.attempt)
		}
		if b.lates < maxLateFlights {
			f.late = true
			b.lates++
			b.flights--
			delete(b.flying, f)
		}
	}
	if len(b.waiting) > 0 && now.Sub(b.since) >= tick && b.flights < maxFlights {
		b.start()
	}
	return overdue
}

// nextLook is when somebody has to look again. The lock is held.
func (b *Batching) nextLook(now time.Time) time.Time {
	if len(b.waiting) > 0 {
		return now.Add(tick)
	}
	next := now.Add(idle)
	for f := range b.flying {
		next = sooner(sooner(next, f.earliest), f.over)
	}
	if soonest := now.Add(tick); next.Before(soonest) {
		return soonest
	}
	return next
}

// letGo expires those whose time is up, and returns the earliest deadline of the others.
func letGo(ws []*waiter, now time.Time) (earliest time.Time) {
	for _, w := range ws {
		if !w.expire(now) && w.state.Load() == waiting {
			earliest = sooner(earliest, w.call.Deadline)
		}
	}
	return earliest
}

// expire reports whether the caller was let go because its time is up.
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

// Amend implements [stint.Store].
func (b *Batching) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	return b.inner.Amend(ctx, c, a)
}

// Command implements [stint.Store].
func (b *Batching) Command(ctx context.Context, c stint.Command) error {
	return b.inner.Command(ctx, c)
}

// Close refuses further requests and waits for those that are in flight, late ones included.
func (b *Batching) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.work.Wait()
	return nil
}

// gaveUp is a store failure for want of an answer.
func gaveUp(op string, err error) error {
	kind := stint.KindTimeout
	if errors.Is(err, context.Canceled) {
		kind = stint.KindOther
	}
	return &stint.StoreError{Op: op, Kind: kind, Err: err}
}
