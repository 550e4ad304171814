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
	log      *guardLog
}

// GuardConfig sets up a [Guard].
type GuardConfig struct {
	// Observer is told of every verdict, if it is not nil.
	Observer Observer
	// Logger is told of denials and failures, a few every second. It is slog.Default() unless set.
	Logger *slog.Logger
}

// Observer is told what a guard decides. It is called from many goroutines on the way of requests, and must
// neither block nor keep the verdict.
type Observer interface {
	// Judged follows every verdict, and every failure to come to one.
	Judged(v *Verdict, err error)
}

// NewGuard returns a guard over a store.
func NewGuard(store stint.Store, set *Set, c GuardConfig) (*Guard, error) {
	if store == nil || set == nil {
		return nil, &stint.InvalidError{Err: errors.New("a guard needs a store and a set")}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	g := &Guard{store: store, observer: c.Observer, log: &guardLog{logger: c.Logger}}
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
	set := g.set.Load()
	*v = Verdict{set: set}
	err := g.decide(ctx, set, in, v)
	if err != nil {
		g.log.failed("a request could not be decided", err)
	} else if !v.Decision.Allowed {
		g.log.denied(v)
	} else if len(v.Shadowed) > 0 {
		g.log.shadowed(v)
	}
	if g.observer != nil {
		g.observer.Judged(v, err)
	}
	return err
}

func (g *Guard) decide(ctx context.Context, set *Set, in *Input, v *Verdict) error {
	f := set.facts(in)
	var q question
	set.ask(&f, v, &q)
	v.Decision.Allowed = true
	if f.hasClient && !f.client.IsValid() {
		g.log.unknownClient()
	}
	if len(v.rules) > 0 {
		if len(q.request.And) > len(v.andRoom) { // there may be too many, which depends on the request
			if err := q.request.Validate(); err != nil {
				return err
			}
		}
		var err error
		if v.Decision, err = g.store.Take(ctx, q.request); err != nil {
			return err
		}
	}
	if len(q.shadow) > 0 && v.Decision.Allowed && !v.Decision.Repeat && !v.Decision.Degraded {
		g.decideShadow(ctx, v, &q)
	}
	return nil
}

// shadowTime is how long a request waits for all that has no consequences.
const shadowTime = 10 * time.Millisecond

// decideShadow asks about the rules that have no consequences, each by itself: what one of them denies is charged
// to the others, as it would be without it.
func (g *Guard) decideShadow(ctx context.Context, v *Verdict, q *question) {
	ctx, cancel := context.WithTimeout(ctx, shadowTime)
	defer cancel()
	failure := stint.FailurePolicy{Mode: stint.FailError, Budget: q.request.Failure.Budget}
	for i := range q.shadow {
		s := &q.shadow[i]
		r := stint.Request{Claim: s.claim, Failure: &failure}
		d, err := g.store.Take(ctx, r)
		switch {
		case err != nil || d.Degraded:
		case d.Allowed:
			v.shadow = append(v.shadow, shadowCharge{s.rule, d.Charge})
		default:
			v.Shadowed = append(v.Shadowed, s.rule)
		}
	}
}
