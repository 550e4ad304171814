package stint

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Limiter applies a set of limits to any number of subjects. A subject is whatever is limited: a
// user, an address, a route, an external API. Each subject has its own count for each limit, and a
// request is allowed if all limits have room for its cost.
//
// A limiter keeps no counts itself; its [Store] does. Limiters with equal limits over one store act
// as one, across any number of processes. A Limiter is safe for concurrent use. The zero value is
// not usable; see [New].
//
// A limiter has four methods that decide. They differ in what they do if a limit has no room:
//
//   - [Limiter.Allow] denies at once: the decision reports when to try again. Most callers want
//     this.
//   - [Limiter.Wait] books the earliest time with room and sleeps until then, or fails at once if
//     that is too late. It suits clients of an API with a limit.
//   - [Limiter.Peek] answers as Allow would, but charges nothing.
//   - [Limiter.Take] is the general form: any [Request], with several subjects, costs, a request
//     ID, and any [Mode]. With [ModeReserve] it books like Wait and leaves the sleeping to the
//     caller.
//
// Allow charges one unit. [Limiter.AllowN] charges several: tokens, bytes, credits. Once the true
// cost is known, [Limiter.Settle] corrects the charge, and [Limiter.Refund] gives all of it back.
// If work may take longer than a window, or if its estimate must not stay charged when its process
// dies, use a [Request.Hold]: it holds the estimate until the true cost is settled.
// [Limiter.Charge] charges usage that is known only afterwards. Under a concurrency limit
// ([Concurrency]), a request takes a place, and [Limiter.Hold] keeps it until it is released.
type Limiter struct {
	store   Store
	limits  []Limit
	bans    *BanPolicy
	failure *FailurePolicy
	log     *limiterLog // nil if nothing is logged
	plain   plainStore  // decides for Allow; nil if Allow must call Take
	claims  sync.Pool   // holds values of type *[1]Claim: Allow reuses them, because stores do not keep them
	waiters waiters     // callers of Wait
	sleep   func(ctx context.Context, d time.Duration, wake <-chan struct{}) (took time.Duration, err error)
}

// Option is an option of a limiter. A [Limit] is an option: it adds itself. The By functions of
// packages httplimit and grpclimit, which limit by key, accept options too.
type Option interface {
	HTTPOption
	GRPCOption
	apply(*Limiter)
}

// HTTPOption is an option of the By functions of package httplimit, which exports it as ByOption.
// It is an [Option] or an option of that package.
type HTTPOption interface{ httpOption() }

// GRPCOption is an option of the By functions of package grpclimit, which exports it as ByOption.
// It is an [Option] or an option of that package.
type GRPCOption interface{ grpcOption() }

type optionFunc func(*Limiter)

func (f optionFunc) httpOption()      {}
func (f optionFunc) grpcOption()      {}
func (f optionFunc) apply(l *Limiter) { f(l) }

func (l Limit) httpOption()        {}
func (l Limit) grpcOption()        {}
func (l Limit) apply(lim *Limiter) { lim.limits = append(lim.limits, l) }

// WithBans makes the limiter apply bans, and ban subjects that keep being denied. Without WithBans,
// bans are off and cost nothing. With WithBans(BanPolicy{}), existing bans apply, such as those
// made with [Limiter.Ban], but denials lead to no ban.
func WithBans(policy BanPolicy) Option {
	return optionFunc(func(l *Limiter) {
		policy.Durations = slices.Clone(policy.Durations)
		l.bans = &policy
	})
}

// WithFailure sets what happens to the limiter's requests when the store fails. Without it, the
// configuration of the store applies. It needs a store of package resilience.
func WithFailure(policy FailurePolicy) Option {
	return optionFunc(func(l *Limiter) { l.failure = &policy })
}

// New returns a limiter over a store:
//
//	lim, err := stint.New(store, stint.PerMinute(100).BurstTimes(3), stint.PerDay(50_000))
//
// A limiter without limits is for requests whose claims have their own limits. Every mistake in the
// options is reported in one [*InvalidError].
func New(store Store, options ...Option) (*Limiter, error) {
	l := &Limiter{store: store, sleep: sleep}
	var m mistakes
	for _, o := range options {
		if !l.applied(o) {
			m.add("an option is nil; want a limit such as stint.PerMinute(100), or another option")
		}
	}
	if v := reflect.ValueOf(store); store == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		m.add("the store is nil; want a store, such as one from stores.Open")
	}
	r := Request{Claims: []Claim{{Subject: "any", Limits: l.limits}}, Bans: l.bans, Failure: l.failure}
	if len(l.limits) == 0 {
		r.Claims[0].Limits = []Limit{PerSecond(1)} // a limiter without limits is valid: check the other options
	}
	r.check(&m)
	if err := m.invalid(); err != nil {
		return nil, err
	}
	l.plain = l.findPlain()
	l.waiters.store, _ = store.(announcer)
	return l, nil
}

// applied applies an option. It reports false if the option is nil, a nil pointer, or a struct that
// embeds a nil option, because applying such an option panics.
func (l *Limiter) applied(o Option) (ok bool) {
	defer func() { ok = recover() == nil }()
	o.apply(l)
	return ok
}

// Limits returns the limiter's limits.
func (l *Limiter) Limits() []Limit { return slices.Clone(l.limits) }

// Logger returns the logger of [WithLogger], or nil if the limiter logs nothing.
func (l *Limiter) Logger() *slog.Logger {
	if l.log == nil {
		return nil
	}
	return l.log.logger
}

// Allow charges one unit to the subject if all limits have room for it.
func (l *Limiter) Allow(ctx context.Context, subject string) (d Decision, err error) {
	err = l.allow(ctx, subject, 1, &d)
	return d, err
}

// AllowN charges n units to the subject if all limits have room for all of them. If n is 0, AllowN
// charges nothing and allows the request even under full limits; to ask whether there is room, use
// [Limiter.Peek].
func (l *Limiter) AllowN(ctx context.Context, subject string, n int64) (d Decision, err error) {
	err = l.allow(ctx, subject, n, &d)
	return d, err
}

// allow is like AllowN, but stores the decision in d. This is faster: when a function returns
// another function's result, Go copies the decision twice.
func (l *Limiter) allow(ctx context.Context, subject string, n int64, d *Decision) (err error) {
	// New has validated the limits, so only the rest of the claim can be wrong.
	if subject == "" || len(subject) > MaxSubject || uint64(n) > uint64(MaxUnits) || len(l.limits) == 0 {
		r := l.request(subject, n)
		return l.prepare(&r)
	}
	if l.plain != nil && l.allowPlain(ctx, subject, n, d) {
		return nil
	}
	claims, _ := l.claims.Get().(*[1]Claim)
	if claims == nil {
		claims = new([1]Claim)
	}
	claims[0].Subject, claims[0].Limits, claims[0].Cost = subject, l.limits, n
	*d, err = l.store.Take(ctx, Request{Claims: claims[:], Bans: l.bans, Failure: l.failure})
	if l.log != nil {
		l.log.decided(ctx, &claims[0], ModeTake, d, err)
	}
	claims[0].Subject = ""
	l.claims.Put(claims)
	return err
}

// Peek answers as Allow would, but charges nothing.
func (l *Limiter) Peek(ctx context.Context, subject string) (Decision, error) {
	r := l.request(subject, 1)
	r.Mode = ModePeek
	return l.Take(ctx, r)
}

// Take decides any request. A claim without limits gets the limiter's limits, and a request without
// a ban or failure policy gets the limiter's.
func (l *Limiter) Take(ctx context.Context, r Request) (Decision, error) {
	if err := l.prepare(&r); err != nil {
		return Decision{}, err
	}
	d, err := l.store.Take(ctx, r)
	l.log.decided(ctx, &r.Claims[0], r.Mode, &d, err)
	return d, err
}

// Charge charges a request whether or not there is room, even above the capacity. It is for usage
// that is known only after the fact. Later decisions count it. Charge ignores bans, and never
// denies. Its charge can be settled like any other.
func (l *Limiter) Charge(ctx context.Context, r Request) (Decision, error) {
	r.Mode, r.MaxWait = modeForce, 0
	return l.Take(ctx, r)
}

// Refund gives back what a decision charged, to the limits that still count the charge. A charge
// can be refunded or settled once. For a hold, Refund gives back what heartbeats have not reported.
// If the request's ID was repeated, Refund changes nothing.
func (l *Limiter) Refund(ctx context.Context, d Decision) (Amended, error) {
	return l.Settle(ctx, d, 0)
}

// Settle replaces the cost that a decision charged with the true cost, once. If the true cost is
// higher, the settlement may take a limit above its capacity: a debt, which later decisions count.
// Settle changes only the limits that still count the charge. If the work may take longer than
// their windows, use a [Request.Hold]. Then the true cost is charged in any case, unless the hold
// expired more than its own length ago.
//
// A settlement adds at most the capacity to the debt of a bucket, or of a limit with a burst. The
// answer reports the cost that is charged:
//
//	settled, err := limiter.Settle(ctx, d, tokens)
//	if settled.Changed && settled.Charged < tokens {
//		// the rest of the tokens is not charged
//	}
func (l *Limiter) Settle(ctx context.Context, d Decision, cost int64) (Amended, error) {
	return l.Amend(ctx, d, Amendment{Kind: AmendSettle, Cost: cost})
}

// Extend is a heartbeat of a hold (see [Request.Hold]) for callers that do not use [Limiter.Hold]:
// it extends the hold by its full length from now. used is the usage of the work so far, or 0.
// Extend charges the part of used that is not charged yet, so that only later usage goes uncharged
// if the process dies. It also renews places under concurrency limits. The answer reports whether
// the hold is open or, if the charge has places, whether all of them are held. An expired hold can
// still be settled.
func (l *Limiter) Extend(ctx context.Context, d Decision, used int64) (Amended, error) {
	return l.Amend(ctx, d, Amendment{Kind: AmendExtend, Cost: used})
}

// Amend is the general form of Refund, Settle and Extend. With Costs, it settles or extends several
// quantities at once, each by the name of its limit. If the decision charged nothing, a valid
// amendment changes nothing and returns no error.
//
//	limiter.Amend(ctx, d, stint.Amendment{
//		Kind:  stint.AmendSettle,
//		Costs: stint.Costs{"input_tokens": 912, "output_tokens": 3050},
//	})
func (l *Limiter) Amend(ctx context.Context, d Decision, a Amendment) (Amended, error) {
	var m mistakes
	if a.check(&m); m.errs != nil || d.Charge.data.ID == 0 {
		return Amended{}, m.invalid()
	}
	if a.checkNames(&m, &d.Charge); m.errs != nil {
		return Amended{}, m.invalid()
	}
	done, err := l.store.Amend(ctx, d.Charge, a)
	l.log.failed(ctx, "a charge could not be corrected", &d.Charge.Claims()[0], err)
	if cost := a.total(); a.Kind == AmendSettle && done.Changed && done.Charged < cost {
		l.log.cut(ctx, &d.Charge.Claims()[0], cost, done.Charged)
	}
	return done, err
}

// total returns the true cost, added up over all names.
func (a *Amendment) total() (sum int64) {
	if a.Costs == nil {
		return a.Cost
	}
	for _, cost := range a.Costs {
		sum += cost
	}
	return sum
}

// Reset clears the subject's usage of the limiter's limits in the given scopes, or outside any
// scope if none is given.
func (l *Limiter) Reset(ctx context.Context, subject string, scopes ...string) error {
	return l.inScopes(ctx, Command{Kind: CommandReset, Subject: subject, Limits: l.limits}, scopes)
}

// GiveBack subtracts up to the given number of units, the oldest first, from the subject's usage of
// each of the limiter's limits. It does so in the given scopes, or outside any scope if none is
// given. It is for callers that do not have the charge, for example because another process made
// it. If you have the decision, use Refund or Settle: they apply once, and to exactly what was
// charged.
//
// It is not idempotent: two calls give back twice. A call that failed may have succeeded in the
// store, so do not repeat it blindly. It does not affect places under concurrency limits.
func (l *Limiter) GiveBack(ctx context.Context, subject string, units int64, scopes ...string) error {
	return l.inScopes(ctx, Command{Kind: CommandGiveBack, Subject: subject, Limits: l.limits, Units: units}, scopes)
}

// inScopes sends a command for each of the scopes, or one without a scope if there are none. It
// stops at the first error.
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

// Ban denies all requests of the subject for the duration d, in every limiter that uses the same
// store and has [WithBans]. It never shortens a ban in force: of several bans, the one that ends
// last counts. To shorten a ban, call Unban first.
func (l *Limiter) Ban(ctx context.Context, subject string, d time.Duration) error {
	if l.bans == nil {
		return &InvalidError{errors.New("the limiter does not apply bans; make it with WithBans")}
	}
	return l.command(ctx, Command{Kind: CommandBan, Subject: subject, For: d})
}

// Unban ends the subject's ban, and forgets earlier bans and the denials that count toward the next
// one.
func (l *Limiter) Unban(ctx context.Context, subject string) error {
	return l.command(ctx, Command{Kind: CommandUnban, Subject: subject})
}

func (l *Limiter) command(ctx context.Context, c Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	err := l.store.Command(ctx, c)
	l.log.failed(ctx, "a command failed", &Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}, err)
	return err
}

func (l *Limiter) request(subject string, n int64) Request {
	return Request{Claims: []Claim{{Subject: subject, Limits: l.limits, Cost: n}}, Bans: l.bans, Failure: l.failure}
}

// prepare fills in the limiter's limits and policies, and validates the request.
func (l *Limiter) prepare(r *Request) error {
	if slices.ContainsFunc(r.Claims, func(c Claim) bool { return c.Limits == nil }) {
		if len(l.limits) == 0 {
			return &InvalidError{
				errors.New("there are no limits; pass some to stint.New, such as stint.PerMinute(100)"),
			}
		}
		r.Claims = slices.Clone(r.Claims)
		for i := range r.Claims {
			if r.Claims[i].Limits == nil {
				r.Claims[i].Limits = l.limits
			}
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
