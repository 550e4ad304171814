// Package tierlimits says which of a policy's limits are for which tier.
package tierlimits

// Default stands for the tiers that a policy does not name.
const Default = "default"

// Limits are limits of the type L for all tiers, or for each.
type Limits[L any] struct {
	All    []L
	ByTier map[string][]L
}

// Set reports whether there are any, be it that there is explicitly no limit.
func (l Limits[L]) Set() bool { return l.All != nil || l.ByTier != nil }

// Of returns the limits for a tier, and whether there is something to say of it.
func (l Limits[L]) Of(tier string) (limits []L, ok bool) {
	if l.ByTier == nil {
		return l.All, l.All != nil
	}
	if limits, ok = l.ByTier[tier]; !ok {
		limits, ok = l.ByTier[Default]
	}
	return limits, ok
}

// For reports whether a policy with limits and a budget is for requests of a tier: one that has any
// is for the tiers of which they say something.
func For[L any](tier string, requests, budget Limits[L]) bool {
	_, limited := requests.Of(tier)
	_, budgeted := budget.Of(tier)
	return limited || budgeted || !requests.Set() && !budget.Set()
}
