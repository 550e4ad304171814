package api

import (
	"slices"

	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

// reading indexes the rules of a set by name.
type reading struct {
	set             *policy.Set
	policies, tiers []string
	named           map[ruleName][]*policy.Rule
}

// ruleName names the rules of a tier ({"", "free"}), of a policy for one tier ({"search", "free"}),
// or of a policy for all tiers ({"search", ""}). The last form exists only if the policy has the
// same limits for all tiers.
type ruleName struct{ policy, tier string }

func (a *API) read() *reading {
	set := a.guard.Set()
	if r := a.reading.Load(); r != nil && r.set == set {
		return r
	}
	r := &reading{set: set, policies: setinfo.Policies(set), tiers: setinfo.Tiers(set),
		named: map[ruleName][]*policy.Rule{}}
	r.index()
	a.reading.Store(r)
	return r
}

func (r *reading) index() {
	for _, rule := range r.set.Rules() {
		name := ruleName{rule.Policy, rule.Tier}
		r.named[name] = append(r.named[name], rule)
	}
	for _, policyName := range r.policies {
		first := r.named[ruleName{policyName, r.tiers[0]}]
		differs := func(tier string) bool { return !sameLimits(first, r.named[ruleName{policyName, tier}]) }
		if !slices.ContainsFunc(r.tiers, differs) {
			r.named[ruleName{policyName, ""}] = ofNoTier(first)
		}
	}
}

func sameLimits(a, b []*policy.Rule) bool {
	return slices.EqualFunc(a, b, func(a, b *policy.Rule) bool {
		return a.Costs == b.Costs && slices.Equal(a.Limits, b.Limits) && slices.Equal(a.Claimed, b.Claimed)
	})
}

func ofNoTier(rules []*policy.Rule) []*policy.Rule {
	var same []*policy.Rule
	for _, r := range rules {
		same = append(same, &policy.Rule{Policy: r.Policy, Limits: r.Limits, Claimed: r.Claimed, Costs: r.Costs,
			Index: -1})
	}
	return same
}
