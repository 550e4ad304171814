package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// DefaultLocalBytes is how much memory a process takes to decide without the store.
const DefaultLocalBytes = 64 << 20

// FallbackConfig sets up a [Fallback]. Its zero value is ready for use by a process that has
// the store for itself.
type FallbackConfig struct {
	// Policy is for requests that have none. Only its Mode matters here.
	Policy stint.FailurePolicy
	// Instances is how many processes share the store, for when the roster does not say.
	// Zero is unknown: then one is assumed, with a warning when it first matters.
	Instances int
	// Roster counts the processes that share the store, this one among them. It is
	// asked every second in the background; its last answer stands while it fails. It may
	// be nil.
	Roster Roster
	// LocalBytes is how much memory is used to remember what this process was granted and
	// what others had used. Zero means DefaultLocalBytes. When it is full, those subjects are
	// forgotten first that have the most left of their limits.
	LocalBytes int64
	// Observer hears of every decision that was made without the store. It may be nil.
	Observer Observer
	// Logger is told when the store is lost and when it is back. Nil means slog.Default().
	Logger *slog.Logger

	batch stint.BatchStore // charges what is owed; nil means that the store does, one by one
	now   func() time.Time // for tests
}

// Fallback is a [stint.Store] that decides when the store it wraps cannot, as the
// request's [stint.FailurePolicy] says. Such decisions are marked as Degraded.
//
// Under [stint.FailLocal] a process goes on from what it knows: it counts every unit that the
// store granted to it, and remembers what others had used. A process that has the store for
// itself so applies the same limits with the store and without. Among I instances each may
// take its part of what is left, rounded up: of 1,000 per day, 200 of which this process has
// used, among 10 instances 80.
//
// What was granted without the store is charged to it afterwards, above capacity if need
// be. A request that was sent and not answered in time is followed for another second. If it
// turns out that the store charged it, that is the charge, or it is refunded if its caller
// was denied; else it is owed. What is owed goes along with the next request for the subject.
//
// The promise, in any window: the algorithm's own bound; plus, per fallback episode,
// nothing with one process, else at most instances × ceil(capacity / instances); plus one
// capacity per loss of the store's state, per process that starts without the store, and per
// subject that had to be forgotten locally; plus what is owed and not charged yet, which only
// other processes see. Nothing more under [stint.FailDeny].
//
// The usage of a local decision is told in terms of the limit that the caller knows, such
// that Remaining is what this process has left: of 100 among 4 instances, a
// fresh subject has used 76 and has 24 left after its first request.
//
// Limits that are leased promise more, and deny: a request with a limit that is [stint.Limit.Leased]
// is denied, whatever its policy, unless that wants the error. Requests for a lease, or with Fit,
// get the error.
//
// A local decision can be amended in the process that made it, as long as it
// lives. An amendment of a decision of the store's fails when the store does.
type Fallback struct {
	inner  stint.Store
	config FallbackConfig
	local  *local
	start  time.Time

	present atomic.Int64 // how many processes the roster counted last, 0 if it never did
	alone   sync.Once    // says that Instances is not set

	charging atomic.Bool  // the goroutine that charges what is owed runs
	dropped  atomic.Int64 // decisions that will not be charged
	errands  errands

	news reports

	life       context.Context // of the goroutines
	end        context.CancelFunc
	mu         sync.Mutex // of ended
	ended      bool
	background sync.WaitGroup
}

var _ stint.Store = (*Fallback)(nil)

// NewFallback returns a fallback over a store. Close it to end its goroutines.
func NewFallback(inner stint.Store, c FallbackConfig) (*Fallback, error) {
	var errs []error
	if inner == nil {
		errs = append(errs, errors.New("no store"))
	}
	if err := c.Policy.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Instances < 0 || c.LocalBytes < 0 {
		errs = append(errs, fmt.Errorf("Instances is %d, LocalBytes %d; want 0 or more", c.Instances, c.LocalBytes))
	}
	if len(errs) > 0 {
		return nil, &stint.InvalidError{Err: errors.Join(errs...)}
	}
	if c.LocalBytes == 0 {
		c.LocalBytes = DefaultLocalBytes
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	local, err := newLocal(c.LocalBytes, c.now)
	if err != nil {
		return nil, &stint.InvalidError{Err: err}
	}
	f := &Fallback{
		inner: inner, config: c, local: local,
		news: reports{logger: c.Logger}, start: time.Now(),
	}
	local.settle, local.command = f.settleCharged, f.giveBack
	if c.now != nil {
		f.start = c.now()
	}
	f.life, f.end = context.WithCancel(context.Background())
	if c.Roster != nil {
		f.run(f.beat)
	}
	return f, nil
}

// Close charges what is owed, for a second at most, ends the goroutines and waits for them,
// and forgets what is known locally: from then on failures of the store are returned. It
// never fails.
func (f *Fallback) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), chargeTime)
	defer cancel()
	f.drain(ctx)
	f.errands.drain(ctx)
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.end()
	f.background.Wait()
	f.local.close()
	return nil
}

// run starts a goroutine, unless the fallback has been closed.
func (f *Fallback) run(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.background.Go(what)
	}
}

// now is the time since the start, in nanoseconds.
func (f *Fallback) now() int64 {
	if f.config.now != nil {
		return int64(f.config.now().Sub(f.start))
	}
	return int64(time.Since(f.start))
}

// Take implements [stint.Store].
func (f *Fallback) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	var d stint.Decision
	var err error
	q := question{asked: f.local.step.Load()}
	if f.local.owing.Load() == 0 {
		d, err = f.inner.Take(ctx, r)
	} else {
		d, err = f.takeOwing(ctx, r, &q)
	}
	if err != nil {
		return f.without(ctx, r, q, err)
	}
	return f.with(r, d, q), nil
}

// takeOwing is Take when something is owed: what the subject owes is charged first.
func (f *Fallback) takeOwing(ctx context.Context, r stint.Request, q *question) (stint.Decision, error) {
	to, ok := f.inner.(*Deadline)
	if !ok || to.timely == nil || r.Mode == stint.Peek {
		return f.inner.Take(ctx, r)
	}
	q.carried = f.local.carry(&r, f.now())
	return to.takeAfter(ctx, r, q.carried)
}

// with returns a decision of the store's, unless this process was granted so much
// without the store that it must not be told.
func (f *Fallback) with(r stint.Request, d stint.Decision, q question) stint.Decision {
	if ok, retry := f.local.heard(&r, &d, &q, f.now(), int64(f.Instances())); !ok {
		return f.overrule(r, d, retry)
	}
	return d
}

// overrule denies what the store has charged, and gives that back.
func (f *Fallback) overrule(r stint.Request, d stint.Decision, retry time.Duration) stint.Decision {
	f.refund(d.Charge)
	denied := flat(&r, false)
	denied.Degraded, denied.Unavailable, denied.RetryAfter = true, false, retry
	for i, u := range d.Usages() {
		u.RetryAfter = retry
		denied.Usages()[i] = u
	}
	return denied
}

// outageRetry is after how long to try again what only a store that is back can allow.
const outageRetry = time.Second

// without decides on a request that the store failed.
func (f *Fallback) without(ctx context.Context, r stint.Request, q question, cause error) (stint.Decision, error) {
	late, _ := errors.AsType[*late](cause)
	failure, ok := errors.AsType[*stint.StoreError](cause)
	if !ok || ctx.Err() != nil && errors.Is(cause, context.Canceled) {
		if r.Booked == 0 {
			f.denied(late)
		}
		return stint.Decision{}, cause // the caller's mistake, or decision
	}
	if late != nil {
		if d, ok := late.answer(); ok { // just after the time was up
			return f.with(r, d, q), nil
		}
	}
	mode := f.config.Policy.Mode
	if r.Failure != nil {
		mode = r.Failure.Mode
	}
	if r.Booked != 0 { // a place that the caller has, wherever it is by now: it is not given back
		late = nil
		if mode == stint.FailLocal || mode == stint.FailAllow {
			mode = stint.FailDeny
		}
	}
	if mode == stint.FailError || r.Fit || r.Lease > 0 {
		f.denied(late)
		f.failed(failure, &f.news.others)
		return stint.Decision{}, cause
	}
	if anyLeased(&r) {
		mode = stint.FailDeny
	}
	f.failed(failure, &f.news.decisions)
	var d stint.Decision
	switch mode {
	case stint.FailLocal:
		var err error
		if d, err = f.decide(r, late); err != nil {
			f.denied(late)
			return stint.Decision{}, cause // closed
		}
	case stint.FailAllow:
		d = flat(&r, true)
	default:
		d = flat(&r, false)
		f.denied(late)
	}
	d.Degraded = true
	if f.config.Observer != nil {
		f.tell(r, mode, cause)
	}
	return d, nil
}

// denied refunds what the store turns out to have charged to a caller that was not admitted.
func (f *Fallback) denied(l *late) {
	if l == nil {
		return
	}
	l.then(func(d stint.Decision, err error) {
		if err == nil && d.Charge.ID != 0 && !d.Repeat {
			f.refund(d.Charge)
		}
	})
}

// tell tells the observer. It has a copy of the request: the address of the
// other one, given away, would make every decision allocate.
func (f *Fallback) tell(r stint.Request, mode stint.FailureMode, cause error) {
	f.config.Observer.FellBack(&r, mode, cause)
}

// flat is a decision that looks at nothing. One that allows has no usages: zeros would claim that all is left. One
// that denies says of every limit when to come back.
func flat(r *stint.Request, allowed bool) stint.Decision {
	d := stint.Decision{Allowed: allowed, Unavailable: !allowed, Charge: stint.ChargeOf(r)}
	if allowed {
		return d
	}
	d.RetryAfter = outageRetry
	usages := d.Grow(limitsOf(r))
	for i := range usages {
		usages[i].RetryAfter = outageRetry
	}
	return d
}

// anyLeased reports whether a limit of the request is leased.
func anyLeased(r *stint.Request) bool {
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		for k := range c.Limits {
			if c.Limits[k].Leased {
				return true
			}
		}
	}
	return false
}

// decide decides from memory.
func (f *Fallback) decide(r stint.Request, l *late) (stint.Decision, error) {
	now := f.now()
	d, err := f.local.decide(&r, now, f.shared())
	if err != nil {
		return d, err
	}
	c := &d.Charge
	if c.ID == 0 || d.Repeat || r.Mode == stint.Peek {
		f.denied(l)
		f.name(&r, c)
		return d, nil
	}
	f.name(&r, c)
	f.follow(&r, d.Charge, now+int64(d.RetryAfter), l)
	return d, nil
}

// name makes a charge of own that of a fallback.
func (f *Fallback) name(r *stint.Request, c *stint.Charge) {
	if c.ID != 0 {
		c.ID = f.local.marked(c.ID)
	}
	rest := c.Rest
	c.Claim, c.Rest = r.Claim, fromFallback
	if rest != nil {
		c.Rest = &stint.Rest{Origin: stint.FromFallback, RequestID: rest.RequestID, IDLife: rest.IDLife, Generations: rest.Generations, And: r.And}
	}
}

// follow sees to it that the store is charged with what was granted without it, for an
// instant.
func (f *Fallback) follow(r *stint.Request, c stint.Charge, at int64, l *late) {
	if l == nil && r.ID == "" && r.Mode != stint.Reserve {
		if !f.local.oweRequest(r, at) {
			f.dropped.Add(1)
		}
		f.startCharging()
		return
	}
	g := f.local.grant(r, c.ID, at)
	if l == nil {
		f.owe(g)
		return
	}
	f.local.twins.expect(c.ID)
	l.then(func(d stint.Decision, err error) { f.followed(g, d, err) })
}

// followed is told what became of a request whose caller was admitted without its answer.
func (f *Fallback) followed(g *granted, d stint.Decision, err error) {
	charged := err == nil && d.Allowed && (d.Charge.ID != 0 || d.Repeat)
	adopted := stint.Charge{}
	if charged && !d.Repeat {
		adopted = d.Charge
	}
	settlements := f.local.twins.came(g.charge, adopted)
	if !charged {
		f.owe(g)
		for _, s := range settlements {
			f.settleOwed(&s.charge, s.cost)
		}
		return
	}
	f.local.counted(g, f.now())
	f.local.placed(&stint.Charge{Claim: g.claims[0], Rest: &stint.Rest{And: g.claims[1:]}}, -1, f.now())
	for _, s := range settlements {
		f.settleCharged(&d.Charge, s)
	}
}

// settleCharged settles what the store charged, in the background.
func (f *Fallback) settleCharged(c *stint.Charge, s settlement) {
	if part := partOf(c, &s.charge); part.ID != 0 {
		f.amendLater(part, stint.Amendment{Kind: stint.Settle, Cost: s.cost})
	}
}

// owe has the store charged with what was granted.
func (f *Fallback) owe(g *granted) {
	if !f.local.owe(g, f.now()) {
		f.dropped.Add(1)
	}
	f.startCharging()
}

// fromFallback is what there is to say of most local charges. It is never changed.
var fromFallback = &stint.Rest{Origin: stint.FromFallback}

// Amend implements [stint.Store].
func (f *Fallback) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	if c.Origin() != stint.FromFallback {
		changed, err := f.inner.Amend(ctx, c, a)
		f.hear(err)
		if changed && err == nil && c.Origin() == stint.FromStore {
			f.local.amended(&c, a)
		}
		return changed, err
	}
	if err := errors.Join(c.Validate(), a.Validate()); err != nil {
		return false, err
	}
	if c.ID>>markShift != f.local.mark {
		return false, nil
	}
	return f.amendOwn(ctx, c, a)
}

// amendOwn amends a local decision, here and in the store if that has charged it.
func (f *Fallback) amendOwn(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	own := c
	own.ID &= 1<<markShift - 1
	own.Rest = &stint.Rest{RequestID: c.RequestID(), IDLife: c.IDLife(), Generations: c.Rest.Generations, And: c.And()}
	changed, err := f.local.own.Amend(ctx, own, a)
	if !changed || err != nil {
		return changed, err
	}
	tw := f.local.twins.settle(&c, a)
	f.local.amendSince(&c, &tw.since, a, f.wall())
	switch held := anyPlace(&c.Claim, c.And()); {
	case tw.store.ID != 0:
		part := partOf(&tw.store, &c)
		changed, err := f.inner.Amend(ctx, part, a)
		if err != nil && a.Kind == stint.Settle { // own has it already
			f.amendLater(part, a)
			return true, nil
		}
		return changed, err
	case held && tw.late:
		if a.Kind == stint.Extend {
			f.local.placed(&c, 0, f.now())
		} else if a.Kind == stint.Release || a.Cost == 0 {
			f.local.placed(&c, -1, f.now())
		}
	case held:
		if held, err := f.amendPlace(ctx, &c, a, tw.held); !held || err != nil || a.Kind != stint.Settle {
			return held, err
		}
		f.settleOwed(&c, a.Cost)
	case !tw.late && a.Kind == stint.Settle: // else it is done when the answer comes
		f.settleOwed(&c, a.Cost)
	}
	return true, nil
}

// amendPlace amends a place that was given without the store. A heartbeat that reaches the store
// takes a place there too.
func (f *Fallback) amendPlace(ctx context.Context, c *stint.Charge, a stint.Amendment, known bool) (bool, error) {
	store := *c
	store.Rest = &stint.Rest{And: c.And(), Generations: c.Rest.Generations}
	switch {
	case a.Kind == stint.Settle && a.Cost > 0:
	case a.Kind == stint.Extend:
		f.local.placed(c, 0, f.now())
		held, err := f.inner.Amend(ctx, store, a)
		if err != nil { // it is held here
			return true, nil
		}
		if held && !known {
			f.local.twins.add(c.ID, twin{held: true})
			f.local.placed(c, -1, f.now())
		}
		return held, nil
	case known:
		f.amendLater(store, stint.Amendment{Kind: stint.Release})
	default:
		f.local.placed(c, -1, f.now())
	}
	return true, nil
}

// settleOwed changes what is owed for a local charge to its true cost.
func (f *Fallback) settleOwed(c *stint.Charge, cost int64) {
	f.local.settleOwed(c, cost, f.now(), f.wall())
	f.startCharging()
}

// wall is the time in microseconds, as local charges have it.
func (f *Fallback) wall() int64 {
	if f.config.now != nil {
		return f.config.now().UnixMicro()
	}
	return f.start.UnixMicro() + time.Since(f.start).Microseconds()
}

// giveBack gives units back to the store, in the background. It is tried again only if the
// store was surely not asked: else they might be given back twice.
func (f *Fallback) giveBack(c stint.Command) {
	f.errands.add(f, func(ctx context.Context) (again bool) {
		return stint.KindOf(f.inner.Command(ctx, c)) == stint.KindRefused
	})
}

// refund gives a charge back to the store, in the background.
func (f *Fallback) refund(c stint.Charge) { f.amendLater(c, stint.Amendment{Kind: stint.Settle}) }

// amendLater amends a charge of the store's in the background, which applies once however
// often it is tried.
func (f *Fallback) amendLater(c stint.Charge, a stint.Amendment) {
	f.errands.add(f, func(ctx context.Context) (again bool) {
		_, err := f.inner.Amend(ctx, c, a)
		_, failed := errors.AsType[*stint.StoreError](err)
		return failed
	})
}

// Command implements [stint.Store]. It takes effect locally too, and there even if
// the store fails.
func (f *Fallback) Command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Kind == stint.Reset {
		// What is on its way to be charged must not arrive after the reset.
		end := time.Now().Add(chargeTime)
		for _, s := range f.local.forget(&c, f.now()) {
			for s.left.Load() > 0 && time.Now().Before(end) && ctx.Err() == nil {
				sleep(ctx, time.Millisecond)
			}
		}
	}
	err := f.inner.Command(ctx, c)
	f.hear(err)
	f.local.commanded(&c, err == nil)
	return err
}

// hear listens to an error that is the caller's to deal with.
func (f *Fallback) hear(err error) {
	if failure, ok := errors.AsType[*stint.StoreError](err); ok && !errors.Is(err, context.Canceled) {
		f.failed(failure, &f.news.others)
	}
}

// budget is how long a decision may take.
func (f *Fallback) budget() time.Duration {
	if f.config.Policy.Budget > 0 {
		return f.config.Policy.Budget
	}
	return DefaultBudget
}

// batch charges what is owed.
func (f *Fallback) batch(ctx context.Context, calls []*stint.Call) {
	if f.config.batch != nil {
		f.config.batch.TakeBatch(ctx, calls)
		return
	}
	patient := stint.FailurePolicy{Mode: stint.FailError, Budget: chargeTime}
	for _, c := range calls {
		c.Request.Failure = &patient
		c.Decision, c.Err = f.inner.Take(ctx, c.Request)
	}
}
