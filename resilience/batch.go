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
)

const (
	// If a timer fires at least lagTime late, this process is assumed to lag. maxLag is the longest
	// time by which lag postpones a deadline.
	lagTime = time.Millisecond
	maxLag  = 250 * time.Millisecond
)

// batch sends concurrent requests to the store together, in one call: a flight. A second batch does
// the same with amendments. Answers stay exact: the store decides the requests one by one, in order
// of arrival.
//
// A request is sent at once, unless a few flights are already under way. Then it waits, together
// with other requests, until one of these flights is answered, but only for a short time (see
// gather) unless maxFlights are under way.
//
// Every caller is answered by its deadline, and a request whose caller has given up is not sent. So
// neither a canceled context nor a store that never answers delays other requests.
//
// The time budget measures the store, not this process: if this process lags, because other
// processes or a quota take its CPU time, deadlines are postponed by that lag. So an answer that
// has arrived is used, even if the deadline has passed.
//
// The ledger counts each answer of a flight before the answer's caller continues. The answer to a
// flight whose callers have given up is awaited for another second, because it shows whether the
// store has charged their requests.
type batch struct {
	op     string // opTake or opAmend
	store  *breaker
	ledger *ledger
	budget time.Duration
	most   int       // the maximum number of waiters in the waiting list
	spare  sync.Pool // waiters to reuse

	mu      sync.Mutex
	waiting []*waiter     // waiters to send in the next flights
	since   time.Time     // when the first waiter came or the last flight was filled, whichever is later
	took    time.Duration // the duration of the last flight, at most the budget
	crowded bool          // whether requests recently waited although maxFlights were under way
	flights []*flight
	// silentAt is the time at which a further failure is counted, if maxFlights are under way then
	// and none of their requests has been answered.
	silentAt time.Time
	check    *time.Timer
	checkAt  time.Time    // when check fires; zero if it is not set
	resting  int          // number of idle goroutines
	rest     chan *flight // idle goroutines receive their next flight here
	closed   bool
	work     sync.WaitGroup
}

var (
	errTooMany = errors.New("too many callers are waiting for the store")
	errAllLate = errors.New("the store has not answered earlier calls")
	errClosed  = errors.New("the stack is closed")
)

func newBatch(op string, store *breaker, l *ledger, c Config) *batch {
	b := &batch{op: op, store: store, ledger: l, budget: c.Failure.Budget, most: c.MaxWaiting,
		rest: make(chan *flight, maxFlights)}
	b.check = time.AfterFunc(time.Hour, b.look)
	b.check.Stop()
	return b
}

// waiter is a caller that waits for its answer. The flight owns the fields call, amend and first
// from the time when the waiter is sent until the answer is delivered.
type waiter struct {
	call   driver.Call
	amend  driver.AmendCall // used instead of call in a batch of amendments
	claims []stint.Claim    // the claims of call: a copy, because the caller may change its own after giving up
	first  []*owedCall      // debts to be charged first, in the same call
	number uint64           // the number of the request; see nextCall
	until  time.Time        // the caller's deadline
	latest time.Time        // the latest time to which the deadline can be postponed

	// Guarded by batch.mu:
	sent     bool
	answered bool
	early    bool                                // whether the answer came before the rest of the flight's answers
	gaveUp   error                               // why the caller stopped waiting; nil if it did not
	follow   func(stint.Decision, error, uint64) // receives an answer that comes after the caller gave up

	done    chan struct{} // signaled on an answer, on a timeout, or on both in turn
	isDone  func()        // the Done function of call
	holders atomic.Int32  // the number of users (caller and flight); the last one frees the waiter
}

// ask has the store decide a request by a deadline. In the same call, the store first charges the
// debts in owed. If the request was sent but the wait ended before its answer, ask returns an error
// and the waiter. Pass the waiter to whenAnswered to get the outcome.
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

// amended has the store amend a charge by a deadline. If the wait ends before the answer, the store
// may still make the amendment, unless it is a heartbeat and the deadline has passed.
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

// await waits until a waiter is answered. It returns an error if the wait ends earlier or the
// waiter cannot be queued. After an error, a waiter that was not sent is never sent, but must not
// be freed, because it may still be in the queue.
func (b *batch) await(ctx context.Context, w *waiter) error {
	if err := b.enqueue(w); err != nil {
		return &stint.StoreError{Op: b.op, Kind: stint.KindRefused, Err: err}
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
	case !w.sent && errors.Is(w.gaveUp, context.Canceled): // the store certainly did nothing
		return &stint.StoreError{Op: b.op, Kind: stint.KindRefused, Err: w.gaveUp}
	}
	return gaveUp(b.op, w.gaveUp)
}

// counted waits until the ledger has counted the waiter's answer, if one has arrived.
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

// free releases a waiter on behalf of its caller or its flight. Once both have released it, the
// waiter is kept for reuse.
func (b *batch) free(w *waiter) {
	if w.holders.Add(-1) > 0 {
		return
	}
	clear(w.claims)
	w.call, w.amend, w.first = driver.Call{}, driver.AmendCall{}, nil
	w.sent, w.answered, w.early, w.gaveUp, w.follow = false, false, false, nil, nil
	select {
	case <-w.done: // a late answer that no caller waited for
	default:
	}
	b.spare.Put(w)
}

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

// whenAnswered calls f with the outcome of a request whose caller gave up. If the outcome is known,
// it calls f at once.
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

// arrived returns the store's decision, or false if none has arrived.
func (b *batch) arrived(w *waiter) (d stint.Decision, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.answered || w.call.Err != nil {
		return d, false
	}
	return w.call.Decision, true
}

// Close refuses new requests and waits for flights that are under way, including late ones.
func (b *batch) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.rest)
	}
	b.mu.Unlock()
	b.work.Wait()
}

// gaveUp returns the error of a call that ended with err before the store answered.
func gaveUp(op string, err error) error {
	kind := stint.KindTimeout
	if errors.Is(err, context.Canceled) {
		kind = stint.KindOther
	}
	return &stint.StoreError{Op: op, Kind: kind, Err: err}
}
