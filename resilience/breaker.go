package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

// errBreakerOpen is in the error chain of a call that the breaker refused, along with the last
// failure of the store. The chain is in a [*stint.StoreError] of kind [stint.KindRefused].
var errBreakerOpen = errors.New("the breaker is open")

// breaker passes requests, amendments and commands to the store. When the store keeps failing, the
// breaker opens: it refuses calls at once, with errBreakerOpen.
//
// It counts calls to the store, not callers: a batch is one call. A call has failed if it ended in
// a [*stint.StoreError] or ran out of time. A batch has failed only if it brought no answer at all.
// Invalid requests, callers that give up, and a Cluster slot that is being moved do not count,
// because they prove nothing about the store. A failure counts as another one in a row only if its
// call began after the previous failure was known. So one lost packet counts as one failure, even
// if it delays many calls. While no further call can be made because none of those under way has
// been answered, each time budget that passes counts as a failure; see stillSilent.
//
// While the breaker is open, it pings the store in the background. When a ping succeeds, the
// breaker lets one call through. If that call succeeds too, the breaker closes. If the call fails,
// the breaker opens again. If the call proves nothing about the store, another call may try.
// Circuit-breaker libraries do not ping, so this package has its own breaker.
type breaker struct {
	store  driver.BatchStore
	pinger pinger // nil if the store has no Ping
	stack  *Stack

	open atomic.Bool // whether state is BreakerOpen; read without the lock

	mu       sync.Mutex
	state    BreakerState
	trying   bool              // whether the one call of a half-open breaker is under way
	changes  uint64            // number of times that state or trying has changed
	failures int               // number of failures in a row
	refusal  *stint.StoreError // the error of refused takes, made once for all of them

	announce sync.Mutex // held while the observer receives a change, to keep changes in order
}

// pinger is a store that can be pinged; see [New].
type pinger interface {
	Ping(ctx context.Context) error
}

// newBreaker returns a closed breaker for the store of a stack. Once the stack is closed, the
// breaker no longer pings the store. Calls go on as before, but an open breaker stays open.
func newBreaker(store driver.BatchStore, s *Stack) *breaker {
	b := &breaker{store: store, stack: s, state: BreakerClosed}
	b.pinger, _ = store.(pinger)
	return b
}

// attempt is a call to the store. It is counted once: when it has ended, or when it is overdue.
type attempt struct {
	op       string
	requests int
	begin    time.Time
	changes  uint64 // value of breaker.changes when the attempt began
	failures int    // value of breaker.failures when the attempt began
	trial    bool   // whether this is the one call of a half-open breaker
	counted  bool
}

// refused returns the error with which an open breaker refuses a call, or nil if the breaker is not
// open.
func (b *breaker) refused(op string) error {
	if !b.open.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refuse(op)
}

// refuse returns the error of a refused call. b.mu must be held.
func (b *breaker) refuse(op string) error {
	if op == opTake {
		return b.refusal
	}
	return &stint.StoreError{Op: op, Kind: stint.KindRefused, Err: b.refusal.Err}
}

// blame records a failure of the store as the reason for refusing calls. b.mu must be held.
func (b *breaker) blame(cause error) {
	b.refusal = &stint.StoreError{Op: opTake, Kind: stint.KindRefused, Err: fmt.Errorf("%w: %w", errBreakerOpen, cause)}
}

// enter begins a call, or returns the error if the breaker refuses it.
func (b *breaker) enter(a *attempt, op string, requests int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == BreakerOpen || b.trying {
		return b.refuse(op)
	}
	if a.trial = b.state == BreakerHalfOpen; a.trial {
		b.trying = true
		b.changes++
	}
	a.op, a.requests, a.changes, a.failures = op, requests, b.changes, b.failures
	if b.stack.config.Observer != nil {
		a.begin = time.Now()
	}
	return nil
}

// leave counts the outcome of a call, once. If concurrent calls fail, only one failure counts: on a
// connection that stalls for a moment, they all fail together.
func (b *breaker) leave(ctx context.Context, a *attempt, err error) {
	b.mu.Lock()
	if a.counted || a.op == "" {
		b.mu.Unlock()
		return
	}
	a.counted = true
	var to BreakerState
	switch bad := failed(err); {
	case b.changes != a.changes: // the breaker has changed since the call began
	case a.trial && bad:
		to = BreakerOpen
	case a.trial && err == nil:
		to = BreakerClosed
	case a.trial: // the outcome proves nothing about the store, so another call may try
		b.trying = false
		b.changes++
	case err == nil:
		b.failures = 0
	case bad && b.failures == a.failures:
		if b.failures++; b.failures == b.stack.config.BreakerFailures {
			to = BreakerOpen
		}
	}
	b.mu.Unlock()
	observeCall(ctx, b.stack.config.Observer, a.op, a.requests, a.begin, err)
	if to != "" {
		b.change(a.changes, to, err)
	}
}

// stillSilent counts another failure, unless the last call that was counted succeeded. a is a call
// under way that has not been answered. stillSilent is called when no further call can be made.
func (b *breaker) stillSilent(a *attempt, cause error) {
	b.mu.Lock()
	opens := false
	if b.state == BreakerClosed && a.op != "" && b.changes == a.changes && b.failures > 0 {
		b.failures++
		opens = b.failures == b.stack.config.BreakerFailures
	}
	b.mu.Unlock()
	if opens {
		b.change(a.changes, BreakerOpen, cause)
	}
}

func failed(err error) bool {
	if errors.Is(err, context.Canceled) || errkind.Of(err) == stint.KindMigrating {
		return false // the caller canceled, or only one slot of the Cluster is unavailable
	}
	_, ok := errors.AsType[*stint.StoreError](err)
	return ok || errors.Is(err, context.DeadlineExceeded)
}

// change moves the breaker to another state and reports that to the observer. It does nothing if
// b.changes is no longer equal to since.
func (b *breaker) change(since uint64, to BreakerState, cause error) {
	b.announce.Lock()
	defer b.announce.Unlock()
	b.mu.Lock()
	if b.changes != since {
		b.mu.Unlock()
		return
	}
	from := b.state
	b.state, b.trying, b.failures = to, false, 0
	b.changes++
	if b.open.Store(to == BreakerOpen); to == BreakerOpen {
		b.blame(cause)
		now := b.changes
		b.stack.run(func() { b.probeUntilBack(now, time.Now()) })
	}
	b.mu.Unlock()
	b.stack.config.Logger.Debug("stint: breaker "+string(to), "cause", cause) // outageLog logs the outage itself
	if b.stack.config.Observer != nil {
		b.stack.config.Observer.Observe(b.stack.life, &BreakerChange{From: from, To: to})
	}
}

// pingTime is the time limit of a ping, and of the one call that a half-open breaker lets through.
const pingTime = time.Second

// probeUntilBack pings the store until it responds, and then makes the breaker half-open. If the
// store has no Ping method, or does not permit pings, it does so after BreakerRetry instead.
func (b *breaker) probeUntilBack(change uint64, since time.Time) {
	for {
		pause := b.stack.config.BreakerRetry
		if b.pinger != nil {
			// Many processes may have lost the store at the same moment: jitter spreads their
			// pings.
			pause = jitter(b.stack.config.BreakerProbe)
		}
		if sleep(b.stack.life, pause); b.stack.life.Err() != nil {
			return
		}
		err := b.ping()
		if err == nil || errkind.Of(err) == stint.KindAuth && time.Since(since) >= b.stack.config.BreakerRetry {
			b.change(change, BreakerHalfOpen, err)
			return
		}
		if failed(err) {
			b.mu.Lock()
			b.blame(err)
			b.mu.Unlock()
		}
	}
}

// ping checks whether the store responds. A store without Ping is assumed to respond.
func (b *breaker) ping() error {
	if b.pinger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.stack.life, pingTime)
	defer cancel()
	begin := time.Now()
	err := b.pinger.Ping(ctx)
	observeCall(ctx, b.stack.config.Observer, opPing, 0, begin, err)
	return err
}

// The operations of a store, as named in a [StoreCall].
const (
	opTake    = "take"
	opAmend   = "amend"
	opCommand = "command"
	opInspect = "inspect"
	opPing    = "ping"
)

// take sends a batch of calls to the store as one attempt, a. If the attempt takes too long, it is
// counted as failed before it ends.
func (b *breaker) take(ctx context.Context, batch []*driver.Call, a *attempt) {
	b.try(ctx, a, opTake, len(batch), func(i int) *error { return &batch[i].Err },
		func(ctx context.Context) { b.store.TakeBatch(ctx, batch) })
}

func (b *breaker) amend(ctx context.Context, batch []*driver.AmendCall, a *attempt) {
	b.try(ctx, a, opAmend, len(batch), func(i int) *error { return &batch[i].Err },
		func(ctx context.Context) { b.amendAll(ctx, batch) })
}

func (b *breaker) amendAll(ctx context.Context, batch []*driver.AmendCall) {
	if store, ok := b.store.(driver.BatchAmender); ok {
		store.AmendBatch(ctx, batch)
		return
	}
	var group sync.WaitGroup
	defer group.Wait()
	for _, c := range batch {
		group.Go(func() { c.Amended, c.Err = b.store.Amend(ctx, c.Charge, c.Amendment) })
	}
}

func (b *breaker) command(ctx context.Context, c stint.Command) (err error) {
	b.try(ctx, new(attempt), opCommand, 1, func(int) *error { return &err },
		func(ctx context.Context) { err = b.store.Command(ctx, c) })
	return err
}

// try makes a call with n requests to the store. If the breaker refuses the call, try sets the
// error of each request.
func (b *breaker) try(ctx context.Context, a *attempt, op string, n int, errOf func(int) *error,
	call func(context.Context)) {
	if err := b.enter(a, op, n); err != nil {
		for i := range n {
			*errOf(i) = err
		}
		return
	}
	if a.trial { // all other calls are refused until it ends
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, pingTime)
		defer cancel()
	}
	defer b.leave(ctx, a, context.Canceled) // in case the store panics
	call(ctx)
	b.leave(ctx, a, batchError(n, errOf))
}

// batchError returns the outcome by which a call is counted: nil if the call brought any answer;
// otherwise a failure of the store, if there was one; otherwise the error of the first request.
func batchError(n int, errOf func(int) *error) error {
	first := *errOf(0)
	for i := range n {
		err := *errOf(i)
		if err == nil {
			return nil
		}
		if failed(err) && !failed(first) {
			first = err
		}
	}
	return first
}
