package resilience

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
)

// gate is the state of a breaker in one word: the state in the lowest bits, above them how
// often it has changed. A call that began under another gate than the present
// one knows nothing about the store of today.
type gate uint64

const (
	gateClosed gate = iota
	gateHalfOpen
	gateTrial // half-open, and the one call is under way
	gateOpen
	gateBits = 2
)

func (g gate) state() gate          { return g & (1<<gateBits - 1) }
func (g gate) next(state gate) gate { return (g>>gateBits+1)<<gateBits | state }

func (g gate) public() BreakerState {
	switch g.state() {
	case gateClosed:
		return BreakerClosed
	case gateOpen:
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// entry is how a call finds the breaker when it begins.
type entry struct {
	gate
	failures int64 // in a row
}

// enter returns the gate under which a call begins: closed or half-open if it may go
// through. Of the calls that find the breaker half-open one gets that answer.
func (b *Breaker) enter() entry {
	g, failures := gate(b.gate.Load()), b.failures.Load()
	if g.state() == gateHalfOpen && !b.gate.CompareAndSwap(uint64(g), uint64(g.next(gateTrial))) {
		g = g.next(gateTrial) // somebody else is trying
	}
	return entry{g, failures}
}

// try makes a call that entered at a gate, if it may go through.
func (b *Breaker) try(ctx context.Context, g entry, op string, call func(context.Context) error) error {
	switch g.state() {
	case gateOpen, gateTrial:
		return refused(op)
	case gateHalfOpen:
		defer b.freeTrial(g) // whatever becomes of the call, a panic too
		// Nobody else gets through until this call ends: so it has to.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, pingTime)
		defer cancel()
	}
	var begin time.Time
	if b.config.Observer != nil {
		begin = time.Now()
	}
	err := call(ctx)
	if b.config.Observer != nil {
		b.config.Observer.StoreCalled(op, 1, time.Since(begin), err)
	}
	b.leave(g, err)
	return err
}

// freeTrial lets another call try, if this one was to and nothing came of it: its caller gave up.
func (b *Breaker) freeTrial(g entry) {
	if g.state() == gateHalfOpen {
		trial := g.next(gateTrial)
		b.gate.CompareAndSwap(uint64(trial), uint64(trial.next(gateHalfOpen)))
	}
}

// leave counts what became of a call that entered at a gate. Of calls that were under way
// at the same time one failure counts: on a connection that is held up for a moment they all
// fail together.
func (b *Breaker) leave(g entry, err error) {
	trial := g.state() == gateHalfOpen
	switch {
	case err == nil && trial:
		b.change(g.next(gateTrial), gateClosed, nil)
	case err == nil:
		if b.failures.Load() != 0 { // writing what is there already would slow down others
			b.failures.Store(0)
		}
	case !failed(err):
	case trial:
		b.change(g.next(gateTrial), gateOpen, err)
	case b.gate.Load() == uint64(g.gate) && b.failures.CompareAndSwap(g.failures, g.failures+1) &&
		g.failures+1 == int64(b.config.Failures):
		b.change(g.gate, gateOpen, err)
	}
}

// failed reports whether an error is a failure of the store.
func failed(err error) bool {
	if errors.Is(err, context.Canceled) || stint.KindOf(err) == stint.KindMigrating {
		return false // the caller's decision, or one slot of many
	}
	_, ok := errors.AsType[*stint.StoreError](err)
	return ok || errors.Is(err, context.DeadlineExceeded)
}

// change moves from a gate to a state, unless somebody else has, and tells of it.
func (b *Breaker) change(from, to gate, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gate.Load() != uint64(from) {
		return
	}
	b.failures.Store(0)
	b.gate.Store(uint64(from.next(to)))
	b.log(from, to, cause)
	if b.config.Observer != nil {
		b.config.Observer.BreakerChanged(from.public(), to.public())
	}
	if to == gateOpen && !b.ended {
		b.probe.Add(1)
		go b.probeUntilBack(from.next(to), time.Now())
	}
}

// log says what operators want to know. A store that answers pings and fails calls, being
// full for instance, has the breaker try several times a second: that is not news.
func (b *Breaker) log(from, to gate, cause error) {
	switch {
	case to == gateOpen && stint.KindOf(cause) == stint.KindAuth && !b.auth:
		b.auth = true
		b.config.Logger.Error("stint: breaker open: the store does not accept us; check its user, password and permissions", "cause", cause)
	case to == gateOpen && from.state() == gateClosed:
		b.opened(cause)
	case to == gateClosed && (b.told || b.auth):
		b.auth, b.told = false, false
		b.config.Logger.Info("stint: breaker closed: the store works again")
	default:
		b.config.Logger.Debug("stint: breaker "+to.public().String(), "cause", cause)
	}
}

// openEvery is how often it is said that the breaker has opened: one that opens and closes many times a second does
// not flood the log.
const openEvery = time.Second

// opened says that the breaker has opened, now or, if it was said less than openEvery ago, then, if it is still so.
func (b *Breaker) opened(cause error) {
	if wait := openEvery - time.Since(b.said); wait > 0 {
		time.AfterFunc(wait, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if gate(b.gate.Load()).state() != gateClosed && !b.told && !b.auth && !b.ended {
				b.opened(cause)
			}
		})
		return
	}
	b.said, b.told = time.Now(), true
	b.config.Logger.Warn("stint: breaker open: the store is not asked until it answers again",
		"cause", cause, "kind", stint.KindOf(cause).String(), "failures", b.config.Failures)
}

// pingTime is how long a ping may take, and the call that follows it.
const pingTime = time.Second

// probeUntilBack runs while the breaker is open, until it is half-open.
func (b *Breaker) probeUntilBack(g gate, since time.Time) {
	defer b.probe.Done()
	for {
		pause := b.config.Blind
		if b.pinger != nil {
			// Many processes lost the store at the same moment: their pings are spread.
			pause = jitter(b.config.Probe)
		}
		if sleep(b.life, pause); b.life.Err() != nil {
			return
		}
		err := b.ping()
		if err == nil || stint.KindOf(err) == stint.KindAuth && time.Since(since) >= b.config.Blind {
			b.change(g, gateHalfOpen, err)
			return
		}
	}
}

// ping asks the store whether it is there. One that cannot be asked is taken to be: it
// has been left alone for long enough.
func (b *Breaker) ping() error {
	if b.pinger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.life, pingTime)
	defer cancel()
	begin := time.Now()
	err := b.pinger.Ping(ctx)
	if b.config.Observer != nil {
		b.config.Observer.StoreCalled(opPing, 0, time.Since(begin), err)
	}
	return err
}
