package api

import (
	"context"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// reading is a set as the API reads it: with a way to learn what would be asked about a request without asking it, so
// that the API can ask in its own mode, and about many requests at once.
type reading struct {
	set     *policy.Set
	failure stint.FailurePolicy
	guard   *policy.Guard // over a store that listens
	rules   map[*stint.Limit]*policy.Rule
	named   map[ruleName][]*policy.Rule
}

// ruleName names the rules of a tier, of a policy for a tier, or of a policy whatever the tier: there are none of these if they
// depend on it.
type ruleName struct{ policy, tier string }

// read returns the reading of the set in force.
func (a *API) read() *reading {
	set := a.guard.Set()
	if r := a.reading.Load(); r != nil && r.set == set {
		return r
	}
	r := &reading{set: set, failure: set.Failure(), rules: map[*stint.Limit]*policy.Rule{}, named: map[ruleName][]*policy.Rule{}}
	r.guard, _ = policy.NewGuard(listener{}, set, policy.GuardConfig{Logger: a.config.Logger}) // neither is nil
	r.index()
	a.reading.Store(r)
	return r
}

// index makes rules known by their limits and by their names.
func (r *reading) index() {
	for _, rule := range r.set.Rules() {
		r.rules[&rule.Limits[0]] = rule
		name := ruleName{rule.Policy, rule.Tier}
		r.named[name] = append(r.named[name], rule)
	}
	tiers := r.set.Tiers()
	for _, policyName := range r.set.Policies() {
		first := r.named[ruleName{policyName, tiers[0]}]
		differs := func(tier string) bool { return !sameLimits(first, r.named[ruleName{policyName, tier}]) }
		if !slices.ContainsFunc(tiers, differs) {
			r.named[ruleName{policyName, ""}] = ofNoTier(first)
		}
	}
}

func sameLimits(a, b []*policy.Rule) bool {
	return slices.EqualFunc(a, b, func(a, b *policy.Rule) bool { return a.Costs == b.Costs && slices.Equal(a.Limits, b.Limits) })
}

// ofNoTier returns the rules as those of no tier in particular.
func ofNoTier(rules []*policy.Rule) []*policy.Rule {
	var same []*policy.Rule
	for _, r := range rules {
		same = append(same, &policy.Rule{Policy: r.Policy, Limits: r.Limits, Costs: r.Costs, Index: -1})
	}
	return same
}

// listen returns the requests that a guard would make of the store about an input: first the one that decides, if the
// verdict has rules, then those that have no consequences.
func (r *reading) listen(in *policy.Input, v *policy.Verdict) ([]stint.Request, error) {
	var heard []stint.Request
	err := r.guard.Decide(context.WithValue(context.Background(), listenerKey{}, &heard), in, v)
	return heard, err
}

// listener is a store that allows all that it is asked, and only remembers the questions.
type listener struct{}

type listenerKey struct{}

// Take implements [stint.Store].
func (listener) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	heard := ctx.Value(listenerKey{}).(*[]stint.Request) // of listen
	*heard = append(*heard, r)
	return stint.Decision{Allowed: true}, nil
}

// Amend implements [stint.Store]: there is nothing to amend.
func (listener) Amend(context.Context, stint.Charge, stint.Amendment) (bool, error) {
	return false, nil
}

// Command implements [stint.Store]: there is nobody to command.
func (listener) Command(context.Context, stint.Command) error { return nil }
