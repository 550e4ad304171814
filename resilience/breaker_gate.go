package resilience

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// gate is the state of a breaker in one word: the state in the lowest bits, above them how often it
// has changed. What becomes of a call that began under an earlier gate does not count.
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

// String is the state as others see it.
func (g gate) String() string {
	return [...]string{gateClosed: "closed", gateHalfOpen: "half-open", gateTrial: "half-open",
		gateOpen: "open"}[g.state()]
}

// admission is the state of the breaker when a call begins.
type admission struct {
	gate
	failures int64 // in a row
}

// enter returns the gate under which a call begins: closed or half-open if it may go through. Only
// one of the calls that come while the breaker is half-open gets that answer.
func (b *breaker) enter() admission {
	g, failures := gate(b.gate.Load()), b.failures.Load()
	if g.state() == gateHalfOpen && !b.gate.CompareAndSwap(uint64(g), uint64(g.next(gateTrial))) {
		g = g.next(gateTrial) // another call is trying
	}
	return admission{g, failures}
}

// try makes a call that entered at a gate, if it may go through.
func (b *breaker) try(ctx context.Context, g admission, op string, call func(context.Context) error) error {
	switch g.state() {
	case gateOpen, gateTrial:
		if op == opTake {
			return b.refusal.Load()
		}
		return b.refused(op)
	case gateHalfOpen:
		defer b.freeTrial(g) // whatever becomes of the call, a panic too
		// No other call gets through until this one ends: so it has to.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, pingTime)
		defer cancel()
	}
	var begin time.Time
	if b.config.Observer != nil {
		begin = time.Now()
	}
	err := call(ctx)
	observeCall(ctx, b.config.Observer, op, 1, begin, err)
	b.leave(g, err)
	return err
}

// freeTrial lets another call try, if this one was to try and its caller gave up.
func (b *breaker) freeTrial(g admission) {
	if g.state() == gateHalfOpen {
		trial := g.next(gateTrial)
		b.gate.CompareAndSwap(uint64(trial), uint64(trial.next(gateHalfOpen)))
	}
}

// leave counts the outcome of a call that entered at a gate. Of calls that were under way at the
// same time only one failure counts: on a connection that stalls for a moment they all fail
// together.
func (b *breaker) leave(g admission, err error) {
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
		g.failures+1 == int64(b.config.BreakerFailures):
		b.change(g.gate, gateOpen, err)
	}
}

// failed reports whether an error is a failure of the store.
func failed(err error) bool {
	if errors.Is(err, context.Canceled) || errkind.Of(err) == errkind.Migrating {
		return false // the caller's decision, or one slot of many
	}
	_, ok := errors.AsType[*stint.StoreError](err)
	return ok || errors.Is(err, context.DeadlineExceeded)
}

// change moves from a gate to a state, unless another call has, and logs it.
func (b *breaker) change(from, to gate, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gate.Load() != uint64(from) {
		return
	}
	b.failures.Store(0)
	if to == gateOpen {
		b.refuse(cause) // before anything is refused
	}
	b.gate.Store(uint64(from.next(to)))
	b.log(from, to, cause)
	if b.config.Observer != nil {
		b.config.Observer.Observe(b.life, &BreakerChange{From: from.String(), To: to.String()})
	}
	if to == gateOpen && !b.ended {
		b.probe.Add(1)
		go b.probeUntilBack(from.next(to), time.Now())
	}
}

// log logs what operators want to know. With a store that answers pings and fails calls, being full
// for instance, the breaker tries several times a second: that is not logged.
func (b *breaker) log(from, to gate, cause error) {
	switch {
	case to == gateOpen && errkind.Of(cause) == errkind.Auth && !b.auth:
		b.auth = true
		b.config.Logger.Error("stint: breaker open: the store does not accept us; check its user, password and permissions", "cause", cause)
	case to == gateOpen && from.state() == gateClosed:
		b.opened(cause)
	case to == gateClosed && (b.loggedOpen || b.auth):
		b.auth, b.loggedOpen = false, false
		b.config.Logger.Info("stint: breaker closed: the store works again")
	default:
		b.config.Logger.Debug("stint: breaker "+to.String(), "cause", cause)
	}
}

// openEvery is how often an opening is logged: a breaker that opens and closes many times a second
// does not flood the log.
const openEvery = time.Second

// opened logs that the breaker has opened: at once, or openEvery after the last such message if the
// breaker is still open by then.
func (b *breaker) opened(cause error) {
	if wait := openEvery - time.Since(b.loggedAt); wait > 0 {
		time.AfterFunc(wait, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if gate(b.gate.Load()).state() != gateClosed && !b.loggedOpen && !b.auth && !b.ended {
				b.opened(cause)
			}
		})
		return
	}
	b.loggedAt, b.loggedOpen = time.Now(), true
	b.config.Logger.Warn("stint: breaker open: the store is not asked until it answers again",
		"cause", cause, "kind", errkind.Of(cause), "failures", b.config.BreakerFailures)
}

// pingTime is how long a ping may take, and the call that follows it.
const pingTime = time.Second

// probeUntilBack runs while the breaker is open, until it is half-open.
func (b *breaker) probeUntilBack(g gate, since time.Time) {
	defer b.probe.Done()
	for {
		pause := b.config.BreakerRetry
		if b.pinger != nil {
			// Many processes lost the store at the same moment: jitter spreads their pings.
			pause = jitter(b.config.BreakerProbe)
		}
		if sleep(b.life, pause); b.life.Err() != nil {
			return
		}
		err := b.ping()
		if err == nil || errkind.Of(err) == errkind.Auth && time.Since(since) >= b.config.BreakerRetry {
			b.change(g, gateHalfOpen, err)
			return
		}
		if failed(err) {
			b.refuse(err)
		}
	}
}

// ping asks the store whether it is there. A store without Ping is taken to be: it has been left
// alone for long enough.
func (b *breaker) ping() error {
	if b.pinger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.life, pingTime)
	defer cancel()
	begin := time.Now()
	err := b.pinger.Ping(ctx)
	observeCall(ctx, b.config.Observer, opPing, 0, begin, err)
	return err
}
