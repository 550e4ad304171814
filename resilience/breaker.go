package resilience

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// ErrBreakerOpen is the cause of the error of a call that a [Breaker] did not let through.
// It comes in a [*stint.StoreError] of [stint.KindRefused].
var ErrBreakerOpen = errors.New("the breaker is open: the store has been failing")

// BreakerState is what a [Breaker] does with calls.
type BreakerState uint8

const (
	// BreakerClosed lets every call through.
	BreakerClosed BreakerState = iota
	// BreakerHalfOpen lets one call through, to find out whether the store works again.
	BreakerHalfOpen
	// BreakerOpen refuses every call.
	BreakerOpen
)

var breakerStateNames = [...]string{"closed", "half-open", "open"}

// String returns a word for the state, for labels and logs.
func (s BreakerState) String() string {
	if int(s) < len(breakerStateNames) {
		return breakerStateNames[s]
	}
	return "unknown"
}

// Defaults of [BreakerConfig].
const (
	DefaultBreakerFailures = 5
	DefaultBreakerProbe    = 250 * time.Millisecond
	DefaultBreakerBlind    = 30 * time.Second
)

// BreakerConfig sets up a [Breaker]. Its zero value is ready for use.
type BreakerConfig struct {
	// Failures is how many in a row open the breaker. Zero means DefaultBreakerFailures.
	Failures int
	// Probe is how often an open breaker pings the store, give or take a fifth. Zero
	// means DefaultBreakerProbe.
	Probe time.Duration
	// Blind is after how long an open breaker lets a call through although no ping
	// said that the store is back: where the store is no [Pinger], or does not permit
	// pings. Zero means DefaultBreakerBlind.
	Blind time.Duration
	// Observer hears of every call to the store and every change of state. It may be nil.
	Observer Observer
	// Logger is told of failures. Nil means slog.Default().
	Logger *slog.Logger
}

// Breaker is a [stint.BatchStore] that stops asking the store it wraps when that keeps
// failing: calls are then refused at once, with [ErrBreakerOpen].
//
// It counts calls to the store, of which a batch is one, and not callers. A call has failed if it
// ended in a [*stint.StoreError], and a batch if it brought no decision at all. What callers got
// wrong or gave up themselves says nothing about the store and counts as nothing, nor does a
// slot of a Cluster that is being moved;
// running out of time is a failure. Failures are in a row if each is of a call that began
// after the one before was known: one lost packet is one failure, however many calls it holds up.
//
// While it is open it pings the store in the background. When a ping succeeds, the
// next call goes through, alone: if that succeeds too the breaker closes, else it goes on
// pinging.
//
// It is safe for concurrent use. While closed it takes no lock and has no goroutine. That
// is why it is our own: sony/gobreaker and failsafe-go lock for every call, and neither probes
// in the background.
type Breaker struct {
	inner  stint.BatchStore
	pinger Pinger // nil if the store is none
	config BreakerConfig

	gate     atomic.Uint64 // see gate
	failures atomic.Int64  // in a row

	// mu is held for every change that others can see, so that they are told of in
	// the order in which they happen.
	mu    sync.Mutex
	auth  bool      // that the store does not accept us has been said
	told  bool      // that the breaker opened has been said
	said  time.Time // when that was last said
	ended bool
	probe sync.WaitGroup
	life  context.Context // of the probing
	end   context.CancelFunc
}

var _ stint.BatchStore = (*Breaker)(nil)

// NewBreaker returns a closed breaker over a store. If that is a [Pinger] it is
// pinged while the breaker is open.
func NewBreaker(inner stint.BatchStore, c BreakerConfig) *Breaker {
	if c.Failures <= 0 {
		c.Failures = DefaultBreakerFailures
	}
	if c.Probe <= 0 {
		c.Probe = DefaultBreakerProbe
	}
	if c.Blind <= 0 {
		c.Blind = DefaultBreakerBlind
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	b := &Breaker{inner: inner, config: c}
	b.pinger, _ = inner.(Pinger)
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// State returns what the breaker does with calls at the moment.
func (b *Breaker) State() BreakerState { return gate(b.gate.Load()).public() }

// Close ends the probing, and waits for it. Calls go on as before, but a breaker that is
// open stays so. It never fails.
func (b *Breaker) Close() error {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.end()
	b.probe.Wait()
	return nil
}

// Take implements [stint.Store].
func (b *Breaker) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
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
	b.config.Observer.StoreCalled(opTake, 1, time.Since(begin), err)
	b.leave(g, err)
	return d, err
}

// tryTake is Take when the breaker is not closed.
func (b *Breaker) tryTake(ctx context.Context, r stint.Request, g entry) (d stint.Decision, err error) {
	err = b.try(ctx, g, opTake, func(ctx context.Context) error {
		d, err = b.inner.Take(ctx, r)
		return err
	})
	return d, err
}

// TakeBatch implements [stint.BatchStore].
func (b *Breaker) TakeBatch(ctx context.Context, batch []*stint.Call) {
	if len(batch) > 0 {
		b.attempt(ctx, batch, &attempt{})
	}
}

// attempt is a batch on its way to the store. It counts once, as answered or as overdue.
type attempt struct {
	entry
	requests int
	begin    time.Time
	begun    atomic.Bool // the fields above are set
	counted  atomic.Bool
}

// overdue counts an attempt that was not answered in time as a failure. What the store
// answers later does not count.
func (b *Breaker) overdue(a *attempt) {
	if a.begun.Load() && a.counted.CompareAndSwap(false, true) {
		b.count(a, gaveUp(opTake, context.DeadlineExceeded))
	}
}

func (b *Breaker) count(a *attempt, err error) {
	if b.config.Observer != nil {
		b.config.Observer.StoreCalled(opTake, a.requests, time.Since(a.begin), err)
	}
	b.leave(a.entry, err)
}

// attempt is TakeBatch for a batch that may become overdue.
func (b *Breaker) attempt(ctx context.Context, batch []*stint.Call, a *attempt) {
	g := b.enter()
	if g.state() == gateOpen || g.state() == gateTrial {
		for _, c := range batch {
			c.Err = refusedTake
		}
		return
	}
	defer b.freeTrial(g)
	if g.state() == gateHalfOpen {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, pingTime)
		defer cancel()
	}
	a.entry, a.requests = g, len(batch)
	if b.config.Observer != nil {
		a.begin = time.Now()
	}
	a.begun.Store(true)
	b.inner.TakeBatch(ctx, batch)
	if a.counted.CompareAndSwap(false, true) {
		b.count(a, batchError(batch))
	}
}

// batchError is what a batch says about the store: nil if there was any decision, else a
// failure of the store if there was one, else what became of the first call.
func batchError(batch []*stint.Call) error {
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

// Amend implements [stint.Store].
func (b *Breaker) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (changed bool, err error) {
	err = b.try(ctx, b.enter(), opAmend, func(ctx context.Context) error {
		changed, err = b.inner.Amend(ctx, c, a)
		return err
	})
	return changed, err
}

// Command implements [stint.Store].
func (b *Breaker) Command(ctx context.Context, c stint.Command) error {
	return b.try(ctx, b.enter(), opCommand, func(ctx context.Context) error { return b.inner.Command(ctx, c) })
}

// What is asked of a store, as an [Observer] hears of it.
const (
	opTake    = "take"
	opAmend   = "amend"
	opCommand = "command"
	opInspect = "inspect"
	opBans    = "bans"
	opPing    = "ping"
)

// The errors of calls that are refused are made once, where there may be many of them.
var (
	refusedTake    = &stint.StoreError{Op: opTake, Kind: stint.KindRefused, Err: ErrBreakerOpen}
	refusedAmend   = &stint.StoreError{Op: opAmend, Kind: stint.KindRefused, Err: ErrBreakerOpen}
	refusedCommand = &stint.StoreError{Op: opCommand, Kind: stint.KindRefused, Err: ErrBreakerOpen}
)

func refused(op string) error {
	switch op {
	case opTake:
		return refusedTake
	case opAmend:
		return refusedAmend
	case opCommand:
		return refusedCommand
	}
	return &stint.StoreError{Op: op, Kind: stint.KindRefused, Err: ErrBreakerOpen}
}
