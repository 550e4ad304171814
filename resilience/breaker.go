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

// errBreakerOpen is in the chain of the error of a call that the breaker did not let through, with
// the last failure of the store. They come in a [*stint.StoreError] of [errkind.Refused].
var errBreakerOpen = errors.New("the breaker is open")

// breaker is a [driver.BatchStore] that stops asking the store it wraps when that keeps failing:
// calls are then refused at once, with errBreakerOpen.
//
// It counts calls to the store, of which a batch is one, and not callers. A call has failed if it
// ended in a [*stint.StoreError], and a batch if it brought no decision at all. Callers' mistakes
// and callers who give up say nothing about the store and do not count, nor does a slot of a
// Cluster that is being moved. Running out of time is a failure. Failures are in a row if each is
// of a call that began after the one before was known: one lost packet is one failure, however many
// calls it delays.
//
// While it is open it pings the store in the background. When a ping succeeds, the next call goes
// through, alone: if that succeeds too the breaker closes, else it goes on pinging.
//
// It is safe for concurrent use. While closed it takes no lock and has no goroutine. That is why it
// is written here: sony/gobreaker and failsafe-go lock for every call, and neither probes in the
// background.
type breaker struct {
	inner  driver.BatchStore
	pinger pinger // nil if the store is none
	config Config

	gate     atomic.Uint64 // see gate
	failures atomic.Int64  // in a row
	// refusal is the error of a Take that is refused. It is made when the breaker opens and when a
	// ping fails, and not for every call: there may be many of them.
	refusal atomic.Pointer[stint.StoreError]

	// mu is held for every change of state, so that observers and the log get them in order.
	mu         sync.Mutex
	auth       bool      // it was logged that the store does not accept us
	loggedOpen bool      // it was logged that the breaker opened,
	loggedAt   time.Time // the last time then
	ended      bool
	probe      sync.WaitGroup
	life       context.Context // of the probing
	end        context.CancelFunc
}

// newBreaker returns a closed breaker over a store.
func newBreaker(inner driver.BatchStore, c Config) *breaker {
	b := &breaker{inner: inner, config: c}
	b.pinger, _ = inner.(pinger)
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// state is what the breaker does with calls; see [Stack.Breaker].
func (b *breaker) state() string { return gate(b.gate.Load()).String() }

// Close ends the probing, and waits for it. Calls go on as before, but a breaker that is open stays
// so.
func (b *breaker) Close() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.end()
	b.probe.Wait()
}

func (b *breaker) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	g := b.enter()
	if g.state() != gateClosed {
		return b.tryTake(ctx, r, g)
	}
	if b.config.Observer == nil {
		d, err := b.inner.Take(ctx, r)
		b.leave(g, err)
		return d, err
	}
	begin := time.Now()
	d, err := b.inner.Take(ctx, r)
	observeCall(ctx, b.config.Observer, opTake, 1, begin, err)
	b.leave(g, err)
	return d, err
}

// tryTake is Take when the breaker is not closed.
func (b *breaker) tryTake(ctx context.Context, r stint.Request, g admission) (d stint.Decision, err error) {
	err = b.try(ctx, g, opTake, func(ctx context.Context) error {
		d, err = b.inner.Take(ctx, r)
		return err
	})
	return d, err
}

func (b *breaker) TakeBatch(ctx context.Context, batch []*driver.Call) {
	if len(batch) > 0 {
		b.attempt(ctx, batch, &attempt{})
	}
}

// attempt is a batch on its way to the store. It counts once, as answered or as overdue.
type attempt struct {
	admission
	requests int
	begin    time.Time
	begun    atomic.Bool // the fields above are set
	counted  atomic.Bool
}

// overdue counts an attempt that was not answered in time as a failure. What the store answers
// later does not count.
func (b *breaker) overdue(a *attempt) {
	if a.begun.Load() && a.counted.CompareAndSwap(false, true) {
		b.count(a, gaveUp(opTake, context.DeadlineExceeded))
	}
}

func (b *breaker) count(a *attempt, err error) {
	observeCall(context.Background(), b.config.Observer, opTake, a.requests, a.begin, err)
	b.leave(a.admission, err)
}

// attempt is TakeBatch for a batch that may become overdue.
func (b *breaker) attempt(ctx context.Context, batch []*driver.Call, a *attempt) {
	g := b.enter()
	if g.state() == gateOpen || g.state() == gateTrial {
		for _, c := range batch {
			c.Err = b.refusal.Load()
		}
		return
	}
	defer b.freeTrial(g)
	if g.state() == gateHalfOpen {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, pingTime)
		defer cancel()
	}
	a.admission, a.requests = g, len(batch)
	if b.config.Observer != nil {
		a.begin = time.Now()
	}
	a.begun.Store(true)
	b.inner.TakeBatch(ctx, batch)
	if a.counted.CompareAndSwap(false, true) {
		b.count(a, batchError(batch))
	}
}

// batchError is what a batch says about the store: nil if there was any decision, else a failure of
// the store if there was one, else what became of the first call.
func batchError(batch []*driver.Call) error {
	var failure error
	for _, c := range batch {
		if c.Err == nil {
			return nil
		}
		if failure == nil && failed(c.Err) {
			failure = c.Err
		}
	}
	if failure != nil {
		return failure
	}
	return batch[0].Err
}

func (b *breaker) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (done stint.Amended, err error) {
	err = b.try(ctx, b.enter(), opAmend, func(ctx context.Context) error {
		done, err = b.inner.Amend(ctx, c, a)
		return err
	})
	return done, err
}

func (b *breaker) Command(ctx context.Context, c stint.Command) error {
	return b.try(ctx, b.enter(), opCommand, func(ctx context.Context) error { return b.inner.Command(ctx, c) })
}

// What is asked of a store, as a [StoreCall] names it.
const (
	opTake    = "take"
	opAmend   = "amend"
	opCommand = "command"
	opInspect = "inspect"
	opBans    = "bans"
	opPing    = "ping"
)

// refuse keeps a failure of the store as the reason for refusing calls.
func (b *breaker) refuse(cause error) {
	err := fmt.Errorf("%w: %w", errBreakerOpen, cause)
	b.refusal.Store(&stint.StoreError{Op: opTake, Kind: errkind.Refused, Err: err})
}

// refused is the error of a call other than Take that is refused.
func (b *breaker) refused(op string) error {
	return &stint.StoreError{Op: op, Kind: errkind.Refused, Err: b.refusal.Load().Err}
}
