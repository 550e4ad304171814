// Package tierlimits determines which of a policy's limits apply to which tier.
package tierlimits

// Default stands for the tiers that a policy does not name.
const Default = "default"

// Limits are limits of type L for all tiers, or for each tier by name.
type Limits[L any] struct {
	All    []L
	ByTier map[string][]L
}

// Set reports whether any limits are set, including explicitly unlimited.
func (l Limits[L]) Set() bool { return l.All != nil || l.ByTier != nil }

// Of returns the limits for a tier, and whether any are set for it.
func (l Limits[L]) Of(tier string) (limits []L, ok bool) {
	if l.ByTier == nil {
		return l.All, l.All != nil
	}
	if limits, ok = l.ByTier[tier]; !ok {
		limits, ok = l.ByTier[Default]
	}
	return limits, ok
}

// For reports whether a policy with limits and a budget applies to requests of a tier: if it has
// any, it applies only to tiers for which one of them is set.
func For[L any](tier string, requests, budget Limits[L]) bool {
	_, limited := requests.Of(tier)
	_, budgeted := budget.Of(tier)
	return limited || budgeted || !requests.Set() && !budget.Set()
}
