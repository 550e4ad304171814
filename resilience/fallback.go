package resilience

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
)

// fallback is a layer that decides when the store cannot; the package's documentation says how, and
// what that can cost. Requests for a lease, or with Fit, get the error.
type fallback struct {
	inner  layer
	config Config
	ledger *ledger
	sender sender
	// below says that the layers below tell the ledger of answers.
	below bool

	counted   atomic.Int64 // how many processes the store counted last, 0 if it never did
	warnAlone sync.Once    // that Instances is not set

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
	ledger, err := newLedger(&c)
	if err != nil {
		return nil, &stint.InvalidError{Err: err}
	}
	f := &fallback{inner: inner, config: c, ledger: ledger, outage: outageLog{logger: c.Logger}}
	f.sender = sender{fallback: f, store: batchStore}
	ledger.instances, ledger.later = f.sharing, &f.sender
	f.life, f.end = context.WithCancel(context.Background())
	return f, nil
}

// Close charges what is owed, for a second at most, ends the goroutines and waits for them, and
// forgets what is known locally: from then on failures of the store are returned.
func (f *fallback) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	f.sender.drain(ctx)
	f.mu.Lock()
	f.ended = true
	f.end()
	f.mu.Unlock()
	f.work.Wait()
	f.sender.logDropped()
	f.ledger.close()
}

// run starts a goroutine, unless the fallback has been closed.
func (f *fallback) run(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.work.Go(what)
	}
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
	to, ok := f.inner.(*deadlines)
	if !ok || to.batching == nil || q.request.Mode == stint.ModePeek || f.ledger.owing.Load() == 0 || f.sender.idle() {
		err = f.inner.ask(ctx, q)
	} else { // what the subjects owe is charged first
		err = to.askAfter(ctx, q, f.ledger.carry(&q.request))
	}
	switch {
	case err != nil:
		return f.without(ctx, q, err, e)
	case !f.below:
		f.ledger.synchronize(&q.decision, q.asked)
		f.ledger.answered(&q.request, &q.decision, f.ledger.calls.Add(1), false)
	}
	return nil
}

// without decides on a request that the store failed, and says so in an event if there is one.
func (f *fallback) without(ctx context.Context, q *question, cause error, e *Decided) error {
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
			f.ledger.adopt(r, &q.decision)
			return nil
		}
	}
	mode := f.config.Failure.Mode
	if r.Failure != nil {
		mode = r.Failure.Mode
	}
	if r.Terms().Booked != 0 { // the caller has a booking, moved or not: it is not given back
		late, mode = nil, stint.FailError
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
		if r.Mode == stint.ModeReserve || anyPlace(r.Claims) { // nobody would give it back
			f.denied(late)
		}
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

// decideHere decides from memory.
func (f *fallback) decideHere(q *question, late *lateAnswer) (err error) {
	f.sharedBy()
	var owes *debt
	if q.decision, owes, err = f.ledger.decide(&q.request, late != nil); err != nil {
		return err
	}
	switch d := &q.decision; {
	case late != nil && owes != nil:
		late.whenKnown(func(d stint.Decision, err error, call uint64) {
			f.ledger.known(owes, &d, err, call)
			f.sender.start()
		})
	case !d.Allowed || d.Repeat || q.request.Mode == stint.ModePeek:
		f.denied(late)
	default:
		f.sender.start()
	}
	return nil
}

// denied refunds what the store turns out to have charged to a caller that was not admitted.
func (f *fallback) denied(l *lateAnswer) {
	if l == nil {
		return
	}
	l.whenKnown(func(d stint.Decision, err error, _ uint64) {
		if err == nil && d.Charge.Data().ID != 0 && !d.Repeat {
			f.sender.refund(d.Charge, true)
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

// anyPlace reports whether claims take a place under a concurrency limit.
func anyPlace(claims []stint.Claim) bool {
	for i := range claims {
		c := &claims[i]
		for k := range c.Limits {
			if c.Limits[k].Algorithm == stint.AlgorithmConcurrency && c.Cost > 0 {
				return true
			}
		}
	}
	return false
}

// Amend amends a charge, in the store if that made it. A settlement or a release that the store
// does not answer within the time budget is made later: no response waits for it.
func (f *fallback) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if err := a.Validate(&c); err != nil {
		return stint.Amended{}, err
	}
	if err := ctx.Err(); err != nil {
		return stint.Amended{}, gaveUp(opAmend, err)
	}
	switch {
	case c.Data().Fallback && c.Data().ID>>markShift != f.ledger.mark:
		return stint.Amended{}, nil
	case c.Data().Fallback:
		return f.amendOwn(ctx, c, a)
	}
	return f.amendStored(ctx, c, a)
}

// amendStored amends a charge of the store.
func (f *fallback) amendStored(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if a.Kind == stint.AmendExtend {
		done, err := f.inner.Amend(ctx, c, a)
		f.noteFailure(err, &c.Claims()[0])
		if f.ledger.extended(&c, err == nil && done.Changed); err != nil {
			f.unanswered(ctx, &c, err)
		}
		return done, err
	}
	amended := func(done stint.Amended) {
		if contract.FromStore(&c) {
			f.ledger.amended(&c, a, done.Charged)
		}
	}
	_, void := f.ledger.released(&c, a)
	return f.finish(ctx, c, a, void, amended, func() func(stint.Amended) {
		if a.Kind == stint.AmendSettle && a.Cost > c.Claims()[0].Cost && contract.FromStore(&c) {
			return f.ledger.raise(&c, a)
		}
		return amended
	})
}

// unanswered notes that a heartbeat was not answered, and may still arrive.
func (f *fallback) unanswered(ctx context.Context, c *stint.Charge, err error) {
	switch errkind.Of(err) {
	case errkind.Refused, errkind.Auth, errkind.Full, errkind.ReadOnly, errkind.Busy:
		return // it was not executed
	}
	left := amendTime
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	f.ledger.unanswered(c, left)
}

// finish settles or releases a charge of the store: within the time budget, or later, and not
// before the last heartbeat is void. Amended is called when it is done, or, if it is done later,
// what queued returns then.
func (f *fallback) finish(ctx context.Context, c stint.Charge, a stint.Amendment, void time.Duration,
	amended func(stint.Amended), queued func() func(stint.Amended)) (done stint.Amended, err error) {
	open := func(claim stint.Claim) bool { return !f.ledger.settled.Has(c.Data().ID, &claim) }
	if a.Kind == stint.AmendSettle && !slices.ContainsFunc(c.Claims(), open) {
		return done, nil // it is done, or will be
	}
	if void <= 0 {
		within := until(context.WithoutCancel(ctx), time.Now().Add(f.config.budget()))
		defer within.release()
		done, err = f.inner.Amend(within, c, a)
		f.noteFailure(err, &c.Claims()[0])
		if _, failed := errors.AsType[*stint.StoreError](err); !failed {
			if err == nil && done.Changed && amended != nil {
				amended(done)
			}
			return done, err
		}
	}
	if !f.sender.may() {
		return done, cmp.Or(err, error(&stint.StoreError{Op: opAmend, Kind: errkind.Refused, Err: errTooMany}))
	}
	f.sender.amend(c, a, void, queued())
	for i := range c.Claims() {
		if a.Kind == stint.AmendSettle {
			f.ledger.settled.Add(c.Data().ID, &c.Claims()[i])
		}
	}
	return stint.Amended{Changed: true, Charged: a.Cost}, nil
}

// amendOwn amends a local charge, here, and in the store if that has been charged with it.
func (f *fallback) amendOwn(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if a.Kind == stint.AmendExtend {
		return f.extendOwn(ctx, c, a)
	}
	held, void := f.ledger.released(&c, a)
	o := f.ledger.entries.get(c.Data().ID)
	var s settlement
	switch {
	case a.Kind == stint.AmendSettle:
		s = f.ledger.settle(o, &c, a)
		f.sender.finish(nil, s.backs)
		f.sender.start()
	case o != nil:
		s.done.Changed, s.stored = held, f.ledger.release(o, &c, a)
	default:
		s.done.Changed = held
	}
	if s.stored.Data().ID == 0 && o == nil && held { // the store may know of the place
		s.stored, a = stored(&c), stint.Amendment{Kind: stint.AmendRelease}
	}
	if s.stored.Data().ID != 0 {
		done, err := f.finish(ctx, s.stored, a, void, s.charged, func() func(stint.Amended) { return s.charged })
		if err != nil || o != nil {
			return done, err
		}
	}
	return s.done, nil
}

// stored is a local charge as the store knows its places.
func stored(c *stint.Charge) stint.Charge {
	store := *c
	store.Data().Fallback, store.Data().RequestID, store.Data().IDLife = false, "", 0
	return store
}

// extendOwn keeps a place that was taken without the store. A heartbeat that reaches the store
// makes its holder one there too.
func (f *fallback) extendOwn(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	store := stored(&c)
	if !f.ledger.extended(&c, false) {
		return stint.Amended{}, nil
	}
	if o := f.ledger.entries.get(c.Data().ID); o != nil {
		if known, late := f.ledger.storedOf(o); known.Data().ID != 0 {
			store = partOf(&known, &c)
		} else if late {
			return stint.Amended{Changed: true}, nil
		}
	}
	done, err := f.inner.Amend(ctx, store, a)
	if err != nil { // it is held here
		f.unanswered(ctx, &c, err)
		return stint.Amended{Changed: true}, nil
	}
	if done.Changed {
		f.ledger.extended(&c, true)
	}
	return done, nil
}

// Command implements [stint.Store]. It takes effect locally too, and there even if the store fails.
func (f *fallback) Command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Kind == stint.CommandReset {
		// What is being charged must not arrive after the reset.
		end := time.Now().Add(sendTime)
		for _, o := range f.ledger.forget(&c) {
			for f.ledger.isFlying(o) && time.Now().Before(end) && ctx.Err() == nil {
				sleep(ctx, time.Millisecond)
			}
		}
	}
	err := f.inner.Command(ctx, c)
	f.noteFailure(err, &stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits})
	f.ledger.commanded(&c, err == nil)
	return err
}

// noteFailure notes a failure that is returned to the caller, and what it was about; nil if it was
// about no subject.
func (f *fallback) noteFailure(err error, claim *stint.Claim) {
	if failure, ok := errors.AsType[*stint.StoreError](err); ok && !errors.Is(err, context.Canceled) {
		f.failed(failure, &f.outage.others, claim, "")
	}
}
