package policy

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// Guard decides requests according to a set of policies, and keeps usage in a store. The set can be
// replaced at any time. A Guard is safe for concurrent use.
type Guard struct {
	store    stint.Store
	limiter  *stint.Limiter // uses the store; keeps the concurrency places of requests
	set      atomic.Pointer[Set]
	observer stint.Observer
	watch    *stopwatch // nil without an observer
	log      *guardLog

	enforceAll bool
	overrides  Overrides
	reached    func() *reached // returns a cache, which the first call allocates
}

// GuardConfig configures a [Guard].
type GuardConfig struct {
	// Observer receives every [*Verdict] except in [stint.ModePeek], even if the request could not
	// be decided. It receives a [*Settlement] for every correction that was not applied completely
	// and for every settled hold. It receives a [*Threshold] when a subject's use of a limit
	// reaches a percentage that [Tier.Notify] or [Policy.Notify] lists. It may be nil.
	Observer stint.Observer
	// Logger logs failures at level ERROR, at most five of each kind per second, and denials and
	// admissions as the Spec configures. Nil means slog.Default().
	Logger *slog.Logger
	// EnforceAll enforces every rule for every subject and ignores shadow and rollout. Use it to
	// find out what the rules would do.
	EnforceAll bool
	// Overrides replaces the limits of single subjects; see package overrides. If it is nil, no
	// limits are replaced.
	Overrides Overrides
}

// Overrides provides the limits of single subjects.
type Overrides interface {
	// Limits returns the limits of a subject under a policy or tier. If there is no override, it
	// returns the argument configured: the limits of the set, with maximums from the claims of the
	// request. The guard calls Limits for each rule that applies to a request.
	Limits(subject, policy string, configured []stint.Limit) []stint.Limit
}

// NewGuard returns a guard that decides requests according to the set, and keeps usage in the
// store. Its error is a [*stint.InvalidError].
func NewGuard(store stint.Store, set *Set, c GuardConfig) (*Guard, error) {
	limiter, err := stint.New(store)
	errs := contract.EachMistake(err)
	if !set.made() {
		errs = append(errs, errNoSet)
	}
	if isNilPointer(c.Overrides) {
		errs = append(errs, fmt.Errorf("Overrides is a nil %T; leave the field out for none", c.Overrides))
	}
	if isNilPointer(c.Observer) {
		errs = append(errs, fmt.Errorf("Observer is a nil %T; leave the field out for none", c.Observer))
	}
	if errs != nil {
		return nil, &stint.InvalidError{Err: errors.Join(errs...)}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	g := &Guard{store: store, limiter: limiter, observer: c.Observer, log: &guardLog{logger: c.Logger},
		enforceAll: c.EnforceAll, overrides: c.Overrides,
		reached: sync.OnceValue(func() *reached { return &reached{seed: maphash.MakeSeed()} })}
	if g.observer != nil {
		g.watch = newStopwatch()
	}
	g.set.Store(set)
	return g, nil
}

var errNoSet = errors.New("the set is missing; make one with policy.New")

// isNilPointer reports whether an interface holds a nil pointer, whose methods may panic.
func isNilPointer(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// Set returns the current set.
func (g *Guard) Set() *Set { return g.set.Load() }

// Replace replaces the set for all later requests. If set was not made by [New], for example
// because it is nil, the error is a [*stint.InvalidError] and nothing changes.
func (g *Guard) Replace(set *Set) error {
	if !set.made() {
		return &stint.InvalidError{Err: errNoSet}
	}
	g.set.Store(set)
	return nil
}

// Decide decides a request and charges its cost. An error means that there is no decision: the
// store failed and the failure mode is "error", the context has ended, or the request to the store
// would not be valid.
//
// If the request is allowed and then served, call [Guard.Follow]. A caller that does not see the
// response cannot call Follow. Instead of calling Decide, it must call [Guard.Prepare], set the
// Hold of the store's request to 0, ask the store, and call [Guard.Finish].
func (g *Guard) Decide(ctx context.Context, in *Input, v *Verdict) error {
	var r stint.Request
	v.Err = g.Prepare(in, v, &r)
	v.follows = true
	if v.waited {
		// Ignore the end of ctx: otherwise a client could avoid the charge by disconnecting instead
		// of sending its body.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), maxBudget)
		defer cancel()
	}
	if v.Err == nil && v.enforced > 0 {
		v.Decision, v.Err = g.store.Take(ctx, r)
	}
	g.Finish(ctx, v, &r)
	return v.Err
}

// Prepare is the first half of Decide. It is for callers that ask the store themselves, in another
// mode or about many requests at once. It fills in r, the request to the store, and the fields of
// the verdict that are known before the store decides. If r then has no claims, there is nothing to
// ask. An error means that r is not valid.
func (g *Guard) Prepare(in *Input, v *Verdict, r *stint.Request) error {
	set := g.set.Load()
	v.reset(set)
	v.enforceAll, v.overrides = g.enforceAll, g.overrides
	if g.observer != nil {
		v.began = g.watch.begin()
	}
	f := facts{before: v.who}
	f.read(in, set)
	set.ask(&f, v, r)
	v.UnknownClient = f.hasClient && !f.client.IsValid()
	g.log.oddClaim(&f)
	// New cannot rule out that some requests have too many claims, or several claims that hold
	// units under the same name. Only the requests for which this is possible are validated.
	if v.enforced > len(v.resultRoom) || r.Hold > 0 && v.enforced > 1 {
		return r.Validate()
	}
	return nil
}

// reset prepares the verdict for another request. It keeps allocated memory, and skips fields that
// are always set later. Clearing the whole verdict, a kilobyte of memory, would take a fifth of the
// time needed to decide an exempt request.
func (v *Verdict) reset(set *Set) {
	v.Results = v.Results[:0]
	if cap(v.Results) <= len(v.resultRoom) {
		v.Results = v.resultRoom[:0]
	}
	if v.claims = v.claims[:0]; cap(v.claims) <= len(v.claimRoom) {
		v.claims = v.claimRoom[:0]
	}
	v.Decision = stint.Decision{Allowed: true} // the decision if the store is not asked
	v.Set, v.Tier, v.Route, v.Skipped, v.Cost, v.Took, v.Err = set, "", "", "", 0, 0, nil
	v.SettleHeader, v.SettlesBytes, v.UnknownClient = "", false, false
	v.enforced, v.shadow, v.began, v.after, v.waited = 0, v.shadow[:0], untimed, nil, false
	v.atLeast, v.follows, v.denial = false, false, 0
	v.usage, v.fixed, v.meter, v.known, v.unsaid, v.reported = nil, nil, nil, nil, false, false
}

// LimitsOf returns the limits of a rule for a subject. The limits may depend on in.Claims. LimitsOf
// is for callers that choose the rule and the subject themselves.
func (g *Guard) LimitsOf(rule *Rule, subject string, in *Input) []stint.Limit {
	f := facts{in: in}
	limits := rule.limitsOf(&f, subject, g.overrides)
	g.log.oddClaim(&f)
	return limits
}

// Finish is the second half of Decide, for a verdict whose Decision or Err the caller has set to
// the store's answer to r. Finish completes the results, asks the store about the results in
// shadow, and sends the verdict to the log and the observer. For a request in [stint.ModePeek], it
// logs only failures, and the observer receives nothing. For rules in shadow that count costs but
// not tokens, Finish charges the verdict's Cost, which the caller may have changed since Prepare.
//
// If r does not come from Prepare, the caller must also set the verdict's Results, with their rules
// and claims, and all other fields that the observer needs.
func (g *Guard) Finish(ctx context.Context, v *Verdict, r *stint.Request) {
	if v.UnknownClient {
		g.log.unknownClient()
	}
	v.spread()
	d := &v.Decision
	if v.Err == nil && len(v.Results) > v.enforced && d.Allowed && !d.Repeat && !d.Degraded {
		g.askShadow(ctx, v, r)
	}
	if r.Mode == stint.ModePeek {
		if v.Err != nil {
			g.log.undecided(ctx, v)
		}
		return
	}
	if g.observer != nil && v.began != untimed && r.MaxWait == 0 { // with MaxWait, the time may include waiting
		v.Took = g.watch.took(v.began)
	}
	g.Observe(ctx, v)
	if g.observer != nil && v.Err == nil {
		g.reportThresholds(ctx, v, r)
	}
}

// spread copies the store's answer to the enforced results.
func (v *Verdict) spread() {
	d := &v.Decision
	for v.enforced < len(v.Results) && !v.Results[v.enforced].Shadow {
		v.enforced++ // for a verdict that does not come from [Guard.Prepare]
	}
	usages := d.Usages()
	for i := range v.Results[:v.enforced] {
		r := &v.Results[i]
		n := min(len(r.Limits), len(usages))
		r.Usages, usages = usages[:n:n], usages[n:]
		r.Denied = !d.Allowed && (d.Banned && int(d.Denier) == i+1 || slices.ContainsFunc(r.Usages, hasNoRoom))
	}
}

func hasNoRoom(u stint.Usage) bool { return u.RetryAfter != 0 }

// Observe implements [stint.Observer] for other components that decide in the same process, such as
// Envoy's rate limit service. It logs the verdicts of such a component like the guard's own, and
// passes all events to the guard's observer.
func (g *Guard) Observe(ctx context.Context, event stint.Event) {
	if v, ok := event.(*Verdict); ok {
		g.log.decided(ctx, v, g.set.Load().spec)
	}
	if g.observer != nil {
		g.observer.Observe(ctx, event)
	}
}

// shadowTime is the maximum time that a request waits for rules in shadow.
const shadowTime = 10 * time.Millisecond

// askShadow asks the store about each rule in shadow separately. If one rule denies, the store
// still charges the limits of the other rules. A rule denies nothing if the store fails or does not
// answer in time.
func (g *Guard) askShadow(ctx context.Context, v *Verdict, r *stint.Request) {
	ctx, cancel := context.WithTimeout(ctx, shadowTime)
	defer cancel()
	var claim [1]stint.Claim
	question := stint.Request{
		Claims:  claim[:],
		Failure: &stint.FailurePolicy{Mode: stint.FailError, Budget: r.Failure.Budget},
	}
	if r.Mode == stint.ModePeek {
		question.Mode = stint.ModePeek
	}
	if v.follows {
		question.Hold = r.Hold
	}
	results := v.Results[v.enforced:]
	v.shadow = slices.Grow(v.shadow[:0], len(results))[:len(results)]
	for i := range results {
		result, d := &results[i], &v.shadow[i]
		if result.Rule.Costs && v.usage == nil {
			result.Cost = v.Cost
		}
		claim[0] = result.Claim
		var err error
		if *d, err = g.store.Take(ctx, question); err != nil || d.Degraded {
			*d = stint.Decision{}
			continue
		}
		result.Usages, result.Denied = d.Usages(), !d.Allowed
	}
}
