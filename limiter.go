package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Limiter applies a set of limits to any number of subjects. It keeps nothing
// itself: limiters with equal limits over one store, in however many processes,
// act as one. It is safe for concurrent use.
//
// The zero value is not usable; see [New].
type Limiter struct {
	store   Store
	limits  []Limit
	bans    *BanPolicy
	failure *FailurePolicy
	maxWait time.Duration
	sleep   func(context.Context, time.Duration) (late time.Duration, err error)
}

// Option sets up a limiter. A [Limit] is an option: it adds itself.
type Option interface{ apply(*Limiter) }

type optionFunc func(*Limiter)

func (f optionFunc) apply(l *Limiter) { f(l) }

func (l Limit) apply(lim *Limiter) { lim.limits = append(lim.limits, l) }

// WithBans makes the limiter obey bans, and ban subjects that keep being denied.
// Without it bans are off and cost nothing. WithBans(BanPolicy{}) is for bans made by
// hand, with [Limiter.Ban], alone.
func WithBans(policy BanPolicy) Option {
	return optionFunc(func(l *Limiter) {
		policy.Durations = slices.Clone(policy.Durations)
		l.bans = &policy
	})
}

// WithFailure says what becomes of the limiter's requests when the store fails, if
// that is to be other than what the store was set up for. It takes a store of package
// resilience to obey it.
func WithFailure(policy FailurePolicy) Option {
	return optionFunc(func(l *Limiter) { l.failure = &policy })
}

// WithMaxWait bounds how long [Limiter.Wait] may wait. Without it only the
// context does.
func WithMaxWait(d time.Duration) Option {
	return optionFunc(func(l *Limiter) { l.maxWait = d })
}

// New returns a limiter over a store. It needs at least one limit:
//
//	lim, err := stint.New(store, stint.PerMinute(100).WithBurst(3), stint.PerDay(50_000))
//
// Every mistake in the options is reported in one [*InvalidError].
func New(store Store, options ...Option) (*Limiter, error) {
	l := &Limiter{store: store, sleep: sleep}
	for _, o := range options {
		o.apply(l)
	}
	var errs []error
	if store == nil {
		errs = append(errs, errors.New("no store"))
	}
	if l.maxWait < 0 || l.maxWait > MaxWindow*MaxBurst {
		errs = append(errs, fmt.Errorf("the longest wait is %v; want 0 to %v", l.maxWait, MaxWindow*MaxBurst))
	}
	r := Request{Claim: Claim{Subject: "any", Limits: l.limits}, Bans: l.bans, Failure: l.failure}
	var invalid *InvalidError
	if err := r.Validate(); errors.As(err, &invalid) {
		errs = append(errs, invalid.Err)
	}
	if len(errs) > 0 {
		return nil, &InvalidError{errors.Join(errs...)}
	}
	return l, nil
}

// Limits returns the limiter's limits.
func (l *Limiter) Limits() []Limit { return slices.Clone(l.limits) }

// Allow charges one unit to the subject if all limits have room for it.
func (l *Limiter) Allow(ctx context.Context, subject string) (Decision, error) {
	return l.AllowN(ctx, subject, 1)
}

// AllowN charges n units to the subject if all limits have room for all of them.
// Zero units only look.
func (l *Limiter) AllowN(ctx context.Context, subject string, n int64) (Decision, error) {
	if subject == "" || len(subject) > MaxSubject || uint64(n) > uint64(MaxUnits) {
		r := l.request(subject, n)
		return Decision{}, r.Validate()
	}
	return l.store.Take(ctx, Request{Claim: Claim{Subject: subject, Limits: l.limits, Cost: n}, Bans: l.bans, Failure: l.failure})
}

// Peek answers as Allow would and charges nothing.
func (l *Limiter) Peek(ctx context.Context, subject string) (Decision, error) {
	r := l.request(subject, 1)
	r.Mode = Peek
	return l.Take(ctx, r)
}

// Stats returns how much of each limit the subject has used. Each [State] holds
// its limit, window, count and what remains.
func (l *Limiter) Stats(ctx context.Context, subject string) ([]State, error) {
	d, err := l.Peek(ctx, subject)
	if err != nil {
		return nil, err
	}
	return d.States(), nil
}

// Take decides any request. Claims without limits of their own are held to the
// limiter's, and a request without a ban or failure policy to the limiter's.
func (l *Limiter) Take(ctx context.Context, r Request) (Decision, error) {
	if err := l.prepare(&r); err != nil {
		return Decision{}, err
	}
	return l.store.Take(ctx, r)
}

// Wait charges one unit and returns when it may be used: at once if there is
// room, else when the place that it booked comes. Places are given in the order
// of the calls, across all processes. One call to the store books the place.
//
// It fails at once, with a [*DeniedError], if the wait would be longer than the
// context or [WithMaxWait] allow, or if no waiting will help. When the context
// ends first, the place is given back, and those behind move up. The decision is as
// of the admission.
func (l *Limiter) Wait(ctx context.Context, subject string) (Decision, error) {
	return l.WaitN(ctx, subject, 1)
}

// WaitN is Wait for n units.
func (l *Limiter) WaitN(ctx context.Context, subject string, n int64) (Decision, error) {
	return l.WaitFor(ctx, l.request(subject, n))
}

// WaitFor is Wait for any request. Its Mode is taken to be [Reserve], its MaxWait
// is that of the limiter if zero.
func (l *Limiter) WaitFor(ctx context.Context, r Request) (Decision, error) {
	r.Mode = Reserve
	if r.MaxWait == 0 {
		r.MaxWait = l.maxWait
	}
	if err := l.prepare(&r); err != nil {
		return Decision{}, err
	}
	longest := r.MaxWait
	for start := time.Now(); ; {
		asked := time.Now()
		d, err := l.reserve(ctx, r)
		if err != nil || d.RetryAfter == 0 {
			return d, err
		}
		inTime, sure, err := l.await(ctx, r, &d, time.Since(asked))
		if inTime && err == nil {
			return d, nil
		}
		if sure {
			l.unbook(ctx, d.Charge)
		}
		if err != nil {
			return Decision{}, err
		}
		// A caller that wakes long after its place came, because its machine slept for
		// instance, must not use it any more: others have been counting without it. It
		// books again, with what is left of the longest wait.
		if longest > 0 {
			r.MaxWait = max(longest-time.Since(start), time.Microsecond)
		}
	}
}

// moveUpAfter is how long a waiter sleeps at least before it asks for an earlier place,
// and moveUpPart of how much of its wait that is otherwise.
const (
	moveUpAfter = 500 * time.Millisecond
	moveUpPart  = 8
)

// await sleeps until the place that d has booked comes. From time to time it asks for an
// earlier one, for those ahead may have given up, and d is then the decision on that. It
// reports whether the caller may use the place: not if it woke too late, or does not know
// which place it has. And it reports whether the place is surely where it was: else it is not
// given back, for what is there may be another's, and expires. The answer took so long to come; the place may have begun to count by
// as much earlier than the caller can tell, which counts as being late. A store so slow
// that this alone were half of the grace or more would keep everybody waiting for ever, so
// no more than that counts.
func (l *Limiter) await(ctx context.Context, r Request, d *Decision, answered time.Duration) (inTime, sure bool, err error) {
	left, known := d.RetryAfter, true
	sure = true
	for left > 0 {
		pause := min(left, max((left/moveUpPart).Truncate(time.Microsecond), moveUpAfter))
		late, err := l.sleep(ctx, pause)
		if err != nil {
			return false, sure, err
		}
		if left -= pause + late; left < moveUpAfter/5 {
			continue // too near to be moved
		}
		if err := ctx.Err(); err != nil {
			return false, sure, err
		}
		here := d.Charge.Origin() != FromStore // booked in this process alone, for want of the store
		if r.Booked = d.Charge.At; here {
			r.Booked = 0
		}
		start := time.Now()
		moved, err := l.store.Take(ctx, r)
		switch {
		case err == nil && moved.Allowed && moved.Charge.Origin() == FromStore:
			if here {
				l.unbook(ctx, d.Charge)
			}
			*d, left, known, sure, answered = moved, moved.RetryAfter, true, true, time.Since(start)
			continue
		case err == nil && moved.Allowed:
			l.unbook(ctx, moved.Charge) // a place in this process alone
		}
		known = false
		if err != nil || moved.Degraded {
			sure = false // the store may have moved it
		}
		left -= time.Since(start)
	}
	d.RetryAfter = 0
	for i := range d.Usages() {
		d.Usages()[i].RetryAfter = 0
	}
	return known && min(answered, r.Grace()/2)-left <= r.Grace(), sure, nil
}

// reserve books a place within the request's MaxWait and the context's deadline.
func (l *Limiter) reserve(ctx context.Context, r Request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	hurried := false
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline), time.Microsecond)
		if r.MaxWait == 0 || left < r.MaxWait {
			r.MaxWait, hurried = min(left, MaxWindow*MaxBurst), true
		}
	}
	d, err := l.store.Take(ctx, r)
	if err == nil && !d.Allowed {
		err = d.Err()
		if hurried && d.RetryAfter > r.MaxWait && !d.Banned {
			err = fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
		}
	}
	return d, err
}

// sleep waits for d and reports how much later than that it woke: by the wall
// clock too, since the monotonic one may stand still while a machine sleeps.
func sleep(ctx context.Context, d time.Duration) (late time.Duration, err error) {
	start := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		now := time.Now()
		return max(now.Sub(start), now.Round(0).Sub(start.Round(0))) - d, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// unbookTime is how long a cancelled caller's booking is worth waiting for the
// store: an unreturned place expires by itself.
const unbookTime = time.Second

func (l *Limiter) unbook(ctx context.Context, c Charge) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unbookTime)
	defer cancel()
	_, _ = l.store.Amend(ctx, c, Amendment{Kind: Settle})
}

// Refund gives back what a decision charged, to the limits in whose window it
// still is. It reports whether anything was given back: a charge is refunded or
// settled once.
func (l *Limiter) Refund(ctx context.Context, d Decision) (bool, error) {
	return l.Settle(ctx, d, 0)
}

// Settle replaces the cost that a decision charged by the true one, once. If
// that is more, it may take a limit above its capacity: a debt that later
// decisions see.
func (l *Limiter) Settle(ctx context.Context, d Decision, cost int64) (bool, error) {
	return l.amend(ctx, d, Amendment{Kind: Settle, Cost: cost})
}

// Acquire takes a place under the limiter's concurrency limit, and charges its
// other limits one unit. Hold keeps the place for as long as the caller likes; whoever
// wants to do that otherwise has Heartbeat and Release.
func (l *Limiter) Acquire(ctx context.Context, subject string) (Decision, error) {
	r := l.request(subject, 1)
	if !r.Claim.hasConcurrency() {
		return Decision{}, &InvalidError{errors.New("the limiter has no concurrency limit to acquire; see AtOnce")}
	}
	return l.Take(ctx, r)
}

// Heartbeat renews a place that was acquired, and takes it back if it had expired for want of
// heartbeats. It reports false if the place is lost: released, or reset. See [Extend].
func (l *Limiter) Heartbeat(ctx context.Context, d Decision) (bool, error) {
	return l.amend(ctx, d, Amendment{Kind: Extend})
}

// Hold keeps a place that was acquired until release is called. See [Hold].
func (l *Limiter) Hold(ctx context.Context, d Decision) (release func() error) {
	return Hold(ctx, l.store, d.Charge)
}

// HoldContext keeps a place that was acquired until release is called, and returns a context that
// ends when the place is lost. See [HoldContext].
func (l *Limiter) HoldContext(ctx context.Context, d Decision) (held context.Context, release func() error) {
	return HoldContext(ctx, l.store, d.Charge)
}

// Release gives back a place that was acquired. It reports false if the place
// had been lost before.
func (l *Limiter) Release(ctx context.Context, d Decision) (bool, error) {
	return l.amend(ctx, d, Amendment{Kind: Release})
}

// amend changes what a decision charged, if it did.
func (l *Limiter) amend(ctx context.Context, d Decision, a Amendment) (bool, error) {
	if err := a.Validate(); err != nil || d.Charge.ID == 0 {
		return false, err
	}
	return l.store.Amend(ctx, d.Charge, a)
}

// Reset forgets what the subject has used of the limiter's limits, in the given
// scopes, or outside of any if none is given.
func (l *Limiter) Reset(ctx context.Context, subject string, scopes ...string) error {
	return l.inScopes(ctx, Command{Kind: Reset, Subject: subject, Limits: l.limits}, scopes)
}

// GiveBack takes up to so many units off what the subject has used of each of the
// limiter's limits, the oldest first, in the given scopes, or outside of any if none is
// given. It is for charges that are not at hand: those of another process, for
// instance. Whoever has the decision uses Refund or Settle, which do so once and
// find just what was charged.
//
// It is not idempotent: two calls give back twice, so one that failed, and may
// have succeeded all the same, should not be repeated blindly. Places under
// concurrency limits are left alone; see Release.
func (l *Limiter) GiveBack(ctx context.Context, subject string, units int64, scopes ...string) error {
	return l.inScopes(ctx, Command{Kind: GiveBack, Subject: subject, Limits: l.limits, Units: units}, scopes)
}

// inScopes gives a command in each of the scopes.
func (l *Limiter) inScopes(ctx context.Context, c Command, scopes []string) error {
	if len(scopes) == 0 {
		return l.command(ctx, c)
	}
	for _, scope := range scopes {
		c.Scope = scope
		if err := l.command(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Ban denies the subject everything for a time, in every limiter over the store
// that was made [WithBans]. It never shortens a ban in force: of several, by many
// processes for instance, the one that ends last counts. To shorten one, Unban first.
func (l *Limiter) Ban(ctx context.Context, subject string, d time.Duration) error {
	if l.bans == nil {
		return &InvalidError{errors.New("the limiter does not obey bans; make it with WithBans")}
	}
	if !inWindow(d) {
		return &InvalidError{fmt.Errorf("the ban is %v; want whole microseconds from %v to %d days", d, MinWindow, MaxBan/day)}
	}
	return l.command(ctx, Command{Kind: Ban, Subject: subject, For: d})
}

// Unban ends the subject's ban and forgets earlier ones.
func (l *Limiter) Unban(ctx context.Context, subject string) error {
	return l.command(ctx, Command{Kind: Unban, Subject: subject})
}

func (l *Limiter) command(ctx context.Context, c Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return l.store.Command(ctx, c)
}

func (l *Limiter) request(subject string, n int64) Request {
	return Request{Claim: Claim{Subject: subject, Limits: l.limits, Cost: n}, Bans: l.bans, Failure: l.failure}
}

// prepare fills in the limiter's limits and bans and validates the rest.
func (l *Limiter) prepare(r *Request) error {
	if r.Limits == nil {
		r.Limits = l.limits
	}
	r.And = slices.Clone(r.And)
	for i := range r.And {
		if r.And[i].Limits == nil {
			r.And[i].Limits = l.limits
		}
	}
	if r.Bans == nil {
		r.Bans = l.bans
	}
	if r.Failure == nil {
		r.Failure = l.failure
	}
	return r.Validate()
}
