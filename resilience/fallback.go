package resilience

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// Defaults of [FallbackConfig].
const (
	DefaultFallbackSubjects = 100_000
	DefaultRemember         = 1 << 16
)

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
	// MaxSubjects is how many subjects are held locally. Zero means
	// DefaultFallbackSubjects.
	MaxSubjects int
	// Remember is of how many subjects it is remembered what the store last said, rounded up to
	// a power of two. Zero means DefaultRemember. Each takes 128 bytes.
	Remember int
	// Observer hears of every decision that was made without the store. It may be nil.
	Observer Observer
	// Logger is told when the store is lost and when it is back. Nil means slog.Default().
	Logger *slog.Logger

	now func() time.Time // for tests
}

// Fallback is a [stint.Store] that decides when the store it wraps cannot, as the
// request's [stint.FailurePolicy] says. Such decisions are marked as Degraded.
//
// Under [stint.FailLocal] a process admits its part of each limit, from memory: a limit of L
// among I instances is ceil(L / I) in each. What the store last said about a subject is
// taken into account, and what was admitted without the store is charged to it afterwards,
// both as far as they are known. The promise does not rest on that: in any window at most
// the steady bound, plus one capacity per loss of the store's state, plus
// instances × ceil(L / instances) per fallback episode; nothing more under [stint.FailDeny]. (For a sliding
// limit with a burst of b, window means b windows, and L what is allowed in one, times b.)
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
	local  *memorystore.Store
	memo   *memo
	parts  divisions
	owed   debts
	mark   uint64 // of this process, in the ids of its charges
	start  time.Time

	present atomic.Int64 // how many processes the roster counted last, 0 if it never did
	alone   sync.Once    // says that Instances is not set

	// unsettled says that the next success has something to do: end an episode, or charge
	// what is owed. It is all that a success looks at.
	unsettled atomic.Bool
	degraded  atomic.Int64  // decisions in this episode
	episode   atomic.Uint32 // its number
	charging  atomic.Bool   // the goroutine that charges what is owed runs

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
	if c.Instances < 0 || c.MaxSubjects < 0 || c.Remember < 0 || c.Remember > 1<<30 {
		errs = append(errs, fmt.Errorf("Instances is %d, MaxSubjects %d, Remember %d; want 0 or more, and Remember at most %d",
			c.Instances, c.MaxSubjects, c.Remember, 1<<30))
	}
	if len(errs) > 0 {
		return nil, &stint.InvalidError{Err: errors.Join(errs...)}
	}
	if c.MaxSubjects == 0 {
		c.MaxSubjects = DefaultFallbackSubjects
	}
	if c.Remember == 0 {
		c.Remember = DefaultRemember
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	local, err := memorystore.New(memorystore.Config{MaxSubjects: c.MaxSubjects, Now: c.now})
	if err != nil {
		return nil, &stint.InvalidError{Err: err}
	}
	f := &Fallback{
		inner: inner, config: c, local: local, memo: newMemo(c.Remember), mark: 1 + rand.Uint64N(1<<markBits-1),
		news: reports{logger: c.Logger}, start: time.Now(),
	}
	if c.now != nil {
		f.start = c.now()
	}
	f.parts.seed = maphash.MakeSeed()
	f.life, f.end = context.WithCancel(context.Background())
	if c.Roster != nil {
		f.run(f.beat)
	}
	return f, nil
}

// Close ends the goroutines and waits for them, and forgets what is known locally: from
// then on failures of the store are returned. It never fails.
func (f *Fallback) Close() error {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.end()
	f.background.Wait()
	return f.local.Close()
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
	d, err := f.inner.Take(ctx, r)
	if err != nil {
		return f.without(ctx, r, err)
	}
	f.memo.remember(&r, &d, f.now())
	if f.unsettled.Load() {
		f.settle()
	}
	return d, nil
}

// outageRetry is after how long to try again what only a store that is back can allow.
const outageRetry = time.Second

// without decides on a request that the store failed.
func (f *Fallback) without(ctx context.Context, r stint.Request, cause error) (stint.Decision, error) {
	failure, ok := errors.AsType[*stint.StoreError](cause)
	if !ok || ctx.Err() != nil && errors.Is(cause, context.Canceled) {
		return stint.Decision{}, cause // the caller's mistake, or decision
	}
	mode := f.config.Policy.Mode
	if r.Failure != nil {
		mode = r.Failure.Mode
	}
	if mode == stint.FailError || r.Fit || r.Lease > 0 {
		f.news.auth(failure, f.now())
		return stint.Decision{}, cause
	}
	if anyLeased(&r) {
		mode = stint.FailDeny
	}
	f.fell(failure)
	var d stint.Decision
	if mode == stint.FailLocal {
		var err error
		if d, err = f.decide(&r, owes(&r, failure)); err != nil {
			return stint.Decision{}, cause // closed
		}
	} else {
		d = flat(&r, mode == stint.FailAllow)
	}
	d.Degraded = true
	if f.config.Observer != nil {
		f.tell(r, mode, cause)
	}
	return d, nil
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
	n := len(r.Limits)
	for i := range r.And {
		n += len(r.And[i].Limits)
	}
	d.RetryAfter = outageRetry
	usages := d.Grow(n)
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

// owes reports whether the store is to be charged afterwards with what is admitted without it:
// not if it may have been charged already, its answer being lost, and not if a repeat of the
// request's ID will charge it.
func owes(r *stint.Request, cause *stint.StoreError) bool {
	switch cause.Kind {
	case stint.KindRefused, stint.KindMigrating, stint.KindBusy, stint.KindFull, stint.KindReadOnly, stint.KindAuth:
		return r.ID == ""
	}
	return false
}

// decide decides from memory, by this process's part of the limits.
func (f *Fallback) decide(r *stint.Request, owes bool) (stint.Decision, error) {
	now, instances := f.now(), f.shared()
	own := *r
	part := f.parts.of(r.Limits, instances)
	own.Limits = part.parts
	f.warm(&r.Claim, part, now)
	if len(r.And) > 0 {
		own.And = make([]stint.Claim, len(r.And))
		for i := range r.And {
			part := f.parts.of(r.And[i].Limits, instances)
			own.And[i] = r.And[i]
			own.And[i].Limits = part.parts
			f.warm(&r.And[i], part, now)
		}
	}
	// The caller's time may well be up: that is why we are here.
	d, err := f.local.Take(context.Background(), own)
	if err != nil {
		return d, err
	}
	f.translate(r, &own, &d)
	if d.Charge.ID != 0 && owes {
		f.owed.add(f.memo, &r.Claim, part.whole, r.Cost)
		for i := range r.And {
			f.owed.add(f.memo, &r.And[i], nil, r.And[i].Cost)
		}
		f.attend() // somebody may have settled before this was owed
	}
	return d, nil
}

// translate tells a local decision in terms of the request's own limits.
func (f *Fallback) translate(r, own *stint.Request, d *stint.Decision) {
	usages := d.Usages()
	longest := time.Duration(0)
	k := 0
	for i := range 1 + len(r.And) {
		whole, part := r.ClaimAt(i), own.ClaimAt(i)
		for j := range whole.Limits {
			u := &usages[k]
			k++
			u.Used += whole.Limits[j].Capacity() - part.Limits[j].Capacity()
			if u.RetryAfter == stint.Never && whole.Cost <= whole.Limits[j].Capacity() {
				u.RetryAfter = outageRetry // too much for a part, not for the whole
			}
			if longest != stint.Never && (u.RetryAfter == stint.Never || u.RetryAfter > longest) {
				longest = u.RetryAfter
			}
		}
	}
	if d.RetryAfter == stint.Never {
		d.RetryAfter = longest
	}
	c := &d.Charge
	if c.ID != 0 {
		c.ID |= f.mark << markShift
	}
	rest := c.Rest
	c.Claim, c.Rest = r.Claim, fromFallback
	if rest != nil {
		c.Rest = &stint.Rest{Origin: stint.FromFallback, RequestID: rest.RequestID, IDLife: rest.IDLife, Generations: rest.Generations, And: r.And}
	}
}

// fromFallback is what there is to say of most local charges. It is never changed.
var fromFallback = &stint.Rest{Origin: stint.FromFallback}

// The ids of a local store leave their highest bits free. There stands the mark of
// the process: the charge of another one must not be taken for one of ours.
const (
	markBits  = 12
	markShift = 64 - markBits
)

// Amend implements [stint.Store].
func (f *Fallback) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	if c.Origin() != stint.FromFallback {
		changed, err := f.inner.Amend(ctx, c, a)
		f.hear(err)
		return changed, err
	}
	if err := errors.Join(c.Validate(), a.Validate()); err != nil {
		return false, err
	}
	if c.ID>>markShift != f.mark {
		return false, nil
	}
	own, instances := c, f.shared()
	own.ID &= 1<<markShift - 1
	own.Claim.Limits = f.parts.of(c.Claim.Limits, instances).parts
	own.Rest = &stint.Rest{RequestID: c.RequestID(), IDLife: c.IDLife(), Generations: c.Rest.Generations, And: make([]stint.Claim, len(c.And()))}
	for i, claim := range c.And() {
		claim.Limits = f.parts.of(claim.Limits, instances).parts
		own.Rest.And[i] = claim
	}
	changed, err := f.local.Amend(ctx, own, a)
	if changed && a.Kind == stint.Settle {
		f.owed.add(f.memo, &c.Claim, nil, a.Cost-c.Claim.Cost)
		for i, claim := range c.And() {
			f.owed.add(f.memo, &c.And()[i], nil, a.Cost-claim.Cost)
		}
	}
	return changed, err
}

// Command implements [stint.Store]. It takes effect locally too, and there even if
// the store fails. But units are given back once: locally only if the store fails.
func (f *Fallback) Command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	err := f.inner.Command(ctx, c)
	f.hear(err)
	if c.Kind == stint.GiveBack {
		if err == nil {
			return nil
		}
		c.Limits = f.parts.of(c.Limits, f.shared()).parts
	}
	_ = f.local.Command(context.Background(), c) // fails only once it is closed
	if c.Kind == stint.Reset || c.Kind == stint.Unban {
		f.memo.forget(c.Subject)
	}
	if c.Kind == stint.Reset {
		f.owed.forget(f.memo, &stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits})
	}
	return err
}

// hear listens to an error that is the caller's to deal with.
func (f *Fallback) hear(err error) {
	if failure, ok := errors.AsType[*stint.StoreError](err); ok {
		f.news.auth(failure, f.now())
	}
}
