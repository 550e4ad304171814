// Package setinfo describes sets of policies for pages, reports and operators. It uses only the
// configuration, not requests.
package setinfo

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/policy"
)

// Tiers returns the names of the tiers, in the order of the set.
func Tiers(set *policy.Set) []string {
	names := []string{}
	for _, t := range set.Spec().Tiers {
		names = append(names, t.Name)
	}
	return names
}

// Policies returns the names of the policies, in the order of the set.
func Policies(set *policy.Set) []string {
	names := []string{}
	for _, p := range set.Spec().Policies {
		names = append(names, p.Name)
	}
	return names
}

// FailureOf returns the failure policy for requests to which only the named policy and tier apply.
// The policy's own setting takes precedence over the tier's, and the tier's over the set's. Either
// name may be "".
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

// EstimatesOf returns a policy's settings for requests whose cost is known only afterward: the
// estimated costs by budget name, and the hold.
func EstimatesOf(set *policy.Set, policyName string) (costs stint.Costs, hold time.Duration) {
	for _, p := range set.Spec().Policies {
		if p.Name == policyName {
			return p.Costs, p.Hold
		}
	}
	return nil, 0
}

// TierScopes returns the scopes in which a tier counts. If the tier counts each route separately,
// the last scope is for requests without a route. If the set has no such tier, TierScopes returns
// the global scope.
func TierScopes(set *policy.Set, tier string) []string {
	spec := set.Spec()
	for i := range spec.Tiers {
		if t := &spec.Tiers[i]; t.Name == tier {
			return tierScopes(spec, t)
		}
	}
	return []string{globalScope}
}

// ScopeOf returns the scope in which a tier counts requests without a route.
func ScopeOf(set *policy.Set, tier string) string {
	scopes := TierScopes(set, tier)
	return scopes[len(scopes)-1]
}

// Config returns the configuration that a set was read from. If the set is nil or was made in Go,
// it returns a configuration that contains only the set.
func Config(set *policy.Set) *config.Config {
	if set != nil {
		if c, ok := set.Spec().Source.(*config.Config); ok {
			return c
		}
	}
	return &config.Config{Set: set}
}
