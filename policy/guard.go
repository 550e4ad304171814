package policy

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// Guard judges requests by a set of policies over a store. The set can be replaced at any
// time: the next request is judged by the new one. It is safe for concurrent use.
type Guard struct {
	store    stint.Store
	set      atomic.Pointer[Set]
	observer Observer
	watch    *stopwatch // nil without an observer
	log      *guardLog

	enforceAll bool
}

// GuardConfig sets up a [Guard].
type GuardConfig struct {
	// Observer is told of every verdict, if it is not nil.
	Observer Observer
	// Logger is told of denials and failures, a few every second. It is slog.Default() unless set.
	Logger *slog.Logger
	// EnforceAll gives every rule consequences for everybody, whatever the set says of shadow and rollout: for those who
	// want to know what would happen.
	EnforceAll bool
}

// NewGuard returns a guard over a store.
func NewGuard(store stint.Store, set *Set, c GuardConfig) (*Guard, error) {
	if store == nil || set == nil {
		return nil, &stint.InvalidError{Err: errors.New("a guard needs a store and a set")}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	g := &Guard{store: store, observer: c.Observer, log: &guardLog{logger: c.Logger}, enforceAll: c.EnforceAll}
	if g.observer != nil {
		g.watch = newStopwatch()
	}
	g.set.Store(set)
	return g, nil
}

// Set returns the set in force.
func (g *Guard) Set() *Set { return g.set.Load() }

// Swap puts another set in force, for the requests that come from now on. A nil set changes nothing.
func (g *Guard) Swap(set *Set) {
	if set != nil {
		g.set.Store(set)
	}
}

// Decide judges a request and charges what it costs. An error means that there is no decision: the store failed
// and the failure mode is "error", or the context has ended.
//
// If the request is allowed and then served, [Guard.Follow] sees to what comes after.
func (g *Guard) Decide(ctx context.Context, in *Input, v *Verdict) error {
	var r stint.Request
	d := stint.Decision{Allowed: true}
	err := g.Ask(in, v, &r)
	if err == nil && len(v.rules) > 0 {
		d, err = g.store.Take(ctx, r)
	}
	g.Answer(ctx, v, &r, d, err)
	return err
}

// Ask is the first half of Decide, for those who ask the store themselves, in another mode or about many requests at
// once: it fills in the verdict as far as that is known, and the question. If the verdict has no rules, nothing limits
// the request and there is nothing to ask. An error means that the question cannot be asked.
func (g *Guard) Ask(in *Input, v *Verdict, r *stint.Request) error {
	set, who, pending, shadow := g.set.Load(), v.who, v.pending[:0], v.shadow[:0]
	*v = Verdict{set: set, enforceAll: g.enforceAll, who: who, pending: pending, shadow: shadow}
	if g.observer != nil {
		v.began = g.watch.begin()
	}
	f := set.facts(in)
	f.before = who
	set.ask(&f, v, r)
	if f.hasClient && !f.client.IsValid() {
		g.log.unknownClient()
	}
	if len(r.And) > len(v.andRoom) { // there may be too many, which depends on the request
		return r.Validate()
	}
	return nil
}

// Answer is the second half of Decide: it completes the verdict by the store's answer to the question, asks about
// rules in shadow, and tells the log and the observer, unless the question only looked. Rules that count costs are
// charged the verdict's Cost, which may have been changed meanwhile.
func (g *Guard) Answer(ctx context.Context, v *Verdict, r *stint.Request, d stint.Decision, err error) {
	v.Decision = d
	if err == nil && len(v.pending) > 0 && d.Allowed && !d.Repeat && !d.Degraded {
		g.askShadow(ctx, v, r)
	}
	if r.Mode == stint.Peek {
		return
	}
	switch {
	case err != nil:
		g.log.undecided(ctx, v, r, err)
	case !d.Allowed:
		g.log.denied(v)
	case len(v.Shadowed) > 0:
		g.log.shadowed(v)
	default:
		g.log.admitted(ctx, v)
	}
	if g.observer != nil {
		g.observer.Judged(ctx, v, g.watch.took(v.began), err)
	}
}

// shadowTime is how long a request waits for all that has no consequences.
const shadowTime = 10 * time.Millisecond

// askShadow asks about the rules that have no consequences, each by itself: what one of them denies is charged
// to the others, as it would be without it.
func (g *Guard) askShadow(ctx context.Context, v *Verdict, r *stint.Request) {
	ctx, cancel := context.WithTimeout(ctx, shadowTime)
	defer cancel()
	shadow := stint.Request{Failure: &stint.FailurePolicy{Mode: stint.FailError, Budget: r.Failure.Budget}}
	if r.Mode == stint.Peek {
		shadow.Mode = stint.Peek
	}
	for _, s := range v.pending {
		shadow.Claim = s.claim
		if s.rule.Costs {
			shadow.Cost = v.Cost
		}
		d, err := g.store.Take(ctx, shadow)
		switch {
		case err != nil || d.Degraded:
		case d.Allowed:
			v.shadow = append(v.shadow, shadowCharge{s.rule, d.Charge})
		default:
			v.Shadowed = append(v.Shadowed, s.rule)
		}
	}
}
