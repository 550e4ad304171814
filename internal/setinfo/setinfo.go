// Package setinfo answers questions about a set of policies that do not come with a request: those
// of pages, reports and people who look after a server.
package setinfo

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/policy"
)

// Tiers returns the names of the tiers, in their order.
func Tiers(set *policy.Set) []string {
	names := []string{}
	for _, t := range set.Spec().Tiers {
		names = append(names, t.Name)
	}
	return names
}

// Policies returns the names of the policies, in their order.
func Policies(set *policy.Set) []string {
	names := []string{}
	for _, p := range set.Spec().Policies {
		names = append(names, p.Name)
	}
	return names
}

// FailureOf returns what happens when the store fails to requests that only a policy and a tier are
// for, either of which may be "": what the policy says, else the tier, else the set as a whole.
func FailureOf(set *policy.Set, policyName, tierName string) stint.FailurePolicy {
	spec := set.Spec()
	for _, p := range spec.Policies {
		if p.Name == policyName && p.Failure != nil {
			return *p.Failure
		}
	}
	for _, t := range spec.Tiers {
		if t.Name == tierName && t.Failure != nil {
			return *t.Failure
		}
	}
	return spec.Failure
}

// EstimatesOf returns what a policy says of requests whose cost is known afterwards: their costs by
// the names of budgets, and for how long these are held.
func EstimatesOf(set *policy.Set, policyName string) (costs stint.Costs, hold time.Duration) {
	for _, p := range set.Spec().Policies {
		if p.Name == policyName {
			return p.Costs, p.Hold
		}
	}
	return nil, 0
}

// TierScopes returns the scopes that a tier counts in, that of requests without a route last.
func TierScopes(set *policy.Set, tier string) []string {
	spec := set.Spec()
	for i := range spec.Tiers {
		if t := &spec.Tiers[i]; t.Name == tier {
			return tierScopes(spec, t)
		}
	}
	return []string{globalScope}
}

// ScopeOf returns in which part of its subjects a tier counts requests that have no route.
func ScopeOf(set *policy.Set, tier string) string {
	scopes := TierScopes(set, tier)
	return scopes[len(scopes)-1]
}

// Config returns the configuration that a set was read from. Of a set that was made in Go, or nil,
// it has nothing but the set.
func Config(set *policy.Set) *config.Config {
	if set != nil {
		if c, ok := set.Spec().Source.(*config.Config); ok {
			return c
		}
	}
	return &config.Config{Set: set}
}
