package resilience

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// fallback is a layer that decides when the store cannot; the package's documentation says how, and
// what that can cost.
//
// What was granted without the store is owed to it. What is owed goes along with the next request
// for the subject, or in batches of its own. Requests for a lease, or with Fit, get the error.
type fallback struct {
	inner  layer
	config Config
	local  *local
	start  time.Time

	batchStore driver.BatchStore // charges what is owed

	counted   atomic.Int64 // how many processes the store counted last, 0 if it never did
	warnAlone sync.Once    // that Instances is not set

	charging    atomic.Bool  // the goroutine that charges what is owed runs
	dropped     atomic.Int64 // decisions that will not be charged
	nextDropped int64        // when these may be logged again; of that goroutine
	background  backgroundCalls

	outage outageLog

	life  context.Context // of the goroutines
	end   context.CancelFunc
	mu    sync.Mutex // of ended
	ended bool
	work  sync.WaitGroup
}

// newFallback returns a fallback over a store, and over one that charges what is owed to it. Close
// it to end its goroutines.
func newFallback(inner layer, batchStore driver.BatchStore, c Config) (*fallback, error) {
	local, err := newLocal(c.LocalBytes, c.now)
	if err != nil {
		return nil, &stint.InvalidError{Err: err}
	}
	f := &fallback{
		inner: inner, batchStore: batchStore, config: c, local: local,
		outage: outageLog{logger: c.Logger}, start: time.Now(),
	}
	local.settle, local.command = f.settleCharged, f.giveBack
	if c.now != nil {
		f.start = c.now()
	}
	f.life, f.end = context.WithCancel(context.Background())
	return f, nil
}

// Close charges what is owed, for a second at most, ends the goroutines and waits for them, and
// forgets what is known locally: from then on failures of the store are returned.
func (f *fallback) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), chargeTime)
	defer cancel()
	f.drain(ctx)
	f.background.drain(ctx)
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.end()
	f.work.Wait()
	f.local.close()
}

// run starts a goroutine, unless the fallback has been closed.
func (f *fallback) run(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.work.Go(what)
	}
}

// now is the time since the start, in nanoseconds.
func (f *fallback) now() int64 {
	if f.config.now != nil {
		return int64(f.config.now().Sub(f.start))
	}
	return int64(time.Since(f.start))
}

func (f *fallback) ask(ctx context.Context, q *question) error {
	if f.config.Observer == nil || q.request.Terms().Lease > 0 { // a renewal is nobody's decision
		return f.decide(ctx, q, nil)
	}
	e := decidedPool.Get().(*Decided)
	e.Source = sourceStore
	err := f.decide(ctx, q, e)
	e.Took = time.Since(q.asked)
	observeDecided(ctx, f.config.Observer, e, q, err)
	return err
}

// decide is ask with an event to fill in, if it is not nil.
func (f *fallback) decide(ctx context.Context, q *question, e *Decided) (err error) {
	a := asking{step: f.local.step.Load()}
	if f.local.owing.Load() == 0 {
		err = f.inner.ask(ctx, q)
	} else {
		err = f.askOwing(ctx, q, &a)
	}
	if err != nil {
		return f.without(ctx, q, &a, err, e)
	}
	f.with(q, &a)
	return nil
}

// askOwing asks when something is owed: what the subject owes is charged first.
func (f *fallback) askOwing(ctx context.Context, q *question, a *asking) error {
	to, ok := f.inner.(*deadlines)
	if !ok || to.batching == nil || q.request.Mode == stint.ModePeek {
		return f.inner.ask(ctx, q)
	}
	a.carried = f.local.carry(&q.request, f.now())
	return to.askAfter(ctx, q, a.carried)
}

// with decides as the store did, unless this process was granted so much without the store that the
// decision exceeds a limit.
func (f *fallback) with(q *question, a *asking) {
	if ok, retry := f.local.learn(&q.request, &q.decision, a, f.now(), int64(f.instances())); !ok {
		q.decision = f.overrule(&q.request, &q.decision, retry)
	}
}

// overrule denies what the store has charged, and refunds it.
func (f *fallback) overrule(r *stint.Request, d *stint.Decision, retry time.Duration) stint.Decision {
	f.refund(d.Charge)
	denied := flat(r, false)
	denied.Degraded, denied.Unavailable, denied.RetryAfter, denied.Denier = true, false, retry, 1
	for i, u := range d.Usages() {
		u.RetryAfter = retry
		denied.Usages()[i] = u
	}
	return denied
}

// outageRetry is after how long to try again if only the store can allow it.
const outageRetry = time.Second

// without decides on a request that the store failed, and says so in an event if there is one.
func (f *fallback) without(ctx context.Context, q *question, a *asking, cause error, e *Decided) error {
	r := &q.request
	late, _ := errors.AsType[*lateAnswer](cause)
	failure, ok := errors.AsType[*stint.StoreError](cause)
	if !ok || ctx.Err() != nil && errors.Is(cause, context.Canceled) {
		if r.Terms().Booked == 0 {
			f.denied(late)
		}
		return cause // the caller's mistake, or its context has ended
	}
	if late != nil {
		var ok bool
		if q.decision, ok = late.answer(); ok { // just after the time was up
			f.with(q, a)
			return nil
		}
	}
	mode := f.config.Failure.Mode
	if r.Failure != nil {
		mode = r.Failure.Mode
	}
	if r.Terms().Booked != 0 { // the caller has a booking, moved or not: it is not given back
		late = nil
		if mode == stint.FailLocal || mode == stint.FailAllow {
			mode = stint.FailDeny
		}
	}
	if mode == stint.FailError || r.Terms().Fit || r.Terms().Lease > 0 {
		f.denied(late)
		f.failed(failure, &f.outage.others, &r.Claims[0], stint.FailError.String())
		return cause
	}
	if anyLeased(r) {
		mode = stint.FailDeny
	}
	f.failed(failure, &f.outage.decisions, &r.Claims[0], mode.String())
	switch mode {
	case stint.FailLocal:
		if err := f.decideHere(q, late); err != nil {
			f.denied(late)
			return cause // closed
		}
	case stint.FailAllow:
		q.decision = flat(r, true)
	default:
		q.decision = flat(r, false)
		f.denied(late)
	}
	q.decision.Degraded = true
	if e != nil {
		e.Source, e.Mode, e.Cause = sourceFallback, mode, cause
	}
	return nil
}

// denied refunds what the store turns out to have charged to a caller that was not admitted.
func (f *fallback) denied(l *lateAnswer) {
	if l == nil {
		return
	}
	l.whenKnown(func(d stint.Decision, err error) {
		if err == nil && d.Charge.Data().ID != 0 && !d.Repeat {
			f.refund(d.Charge)
		}
	})
}

// flat is a decision that does not depend on usage. One that allows has no usages: zeros would
// claim that all is left. One that denies says for every limit when to retry.
func flat(r *stint.Request, allowed bool) stint.Decision {
	d := stint.Decision{Allowed: allowed, Unavailable: !allowed, Charge: contract.ChargeOf(r)}
	if allowed {
		return d
	}
	d.RetryAfter = outageRetry
	usages := d.MakeUsages(contract.CountLimits(r))
	for i := range usages {
		usages[i].RetryAfter = outageRetry
	}
	return d
}

// anyLeased reports whether a limit of the request is leased.
func anyLeased(r *stint.Request) bool {
	for i := range r.Claims {
		c := &r.Claims[i]
		for k := range c.Limits {
			if c.Limits[k].Leased {
				return true
			}
		}
	}
	return false
}

// decideHere decides from memory.
func (f *fallback) decideHere(q *question, l *lateAnswer) (err error) {
	now := f.now()
	r, d := &q.request, &q.decision
	if *d, err = f.local.decide(r, now, f.sharedBy()); err != nil {
		return err
	}
	f.name(r, d)
	if d.Charge.Data().ID == 0 || d.Repeat || r.Mode == stint.ModePeek {
		f.denied(l)
		return nil
	}
	f.follow(r, d.Charge, now+int64(d.RetryAfter), l)
	return nil
}

// name turns a charge of the local store into one of the fallback.
func (f *fallback) name(r *stint.Request, d *stint.Decision) {
	c := &d.Charge
	if !c.IsZero() {
		c.Data().ID = f.local.marked(c.Data().ID)
	}
	if !d.Repeat { // else it has the costs of the first request
		c.SetClaims(r.Claims)
	}
	c.Data().Fallback = true
}

// follow has the store charged with what was granted without it, as of an instant.
func (f *fallback) follow(r *stint.Request, c stint.Charge, at int64, l *lateAnswer) {
	if l == nil && r.ID == "" && r.Mode != stint.ModeReserve {
		if !f.local.oweRequest(r, at) {
			f.dropped.Add(1)
		}
		f.startCharging()
		return
	}
	g := f.local.grant(r, c.Data().ID, at)
	if l == nil {
		f.oweGranted(g)
		return
	}
	f.local.counterparts.expect(c.Data().ID)
	l.whenKnown(func(d stint.Decision, err error) { f.followed(g, d, err) })
}

// followed settles a request whose caller was admitted before the store answered.
func (f *fallback) followed(g *granted, d stint.Decision, err error) {
	charged := err == nil && d.Allowed && (d.Charge.Data().ID != 0 || d.Repeat)
	adopted := stint.Charge{}
	if charged && !d.Repeat {
		adopted = d.Charge
	}
	settlements := f.local.counterparts.known(g.charge, adopted)
	if !charged {
		f.oweGranted(g)
		for _, s := range settlements {
			f.settleOwed(s)
		}
		return
	}
	f.local.counted(g, f.now())
	f.local.changePlaces(g.claims, -1, f.now())
	for _, s := range settlements {
		f.settleCharged(&d.Charge, s)
	}
}

// oweGranted has the store charged with what was granted.
func (f *fallback) oweGranted(g *granted) {
	if !f.local.owe(g, f.now()) {
		f.dropped.Add(1)
	}
	f.startCharging()
}

// wall is the time in microseconds, as local charges have it.
func (f *fallback) wall() int64 {
	if f.config.now != nil {
		return f.config.now().UnixMicro()
	}
	return f.start.UnixMicro() + time.Since(f.start).Microseconds()
}

// noteFailure notes a failure that is returned to the caller, and what it was about; nil if it was
// about no subject.
func (f *fallback) noteFailure(err error, claim *stint.Claim) {
	if failure, ok := errors.AsType[*stint.StoreError](err); ok && !errors.Is(err, context.Canceled) {
		f.failed(failure, &f.outage.others, claim, "")
	}
}
