package dashboard

import (
	"slices"
	"strings"

	"github.com/stint-limiter/stint/policy"
)

// ruleList is a tier or a policy, and its limits as text.
type ruleList struct {
	Name   string   `json:"name"`
	Limits []string `json:"limits"`
	// Shadow says that they have no consequences for anybody.
	Shadow bool `json:"shadow"`
}

// tiersOf returns the tiers of a set, with their own limits.
func tiersOf(set *policy.Set) []ruleList {
	list := []ruleList{}
	for _, tier := range set.Tiers() {
		list = append(list, listOf(tier, set, func(r *policy.Rule) bool { return r.Policy == "" && r.Tier == tier }))
	}
	return list
}

// policiesOf returns the policies of a set. Where their limits depend on the tier, that is said.
func policiesOf(set *policy.Set) []ruleList {
	list := []ruleList{}
	for _, name := range set.Policies() {
		list = append(list, listOf(name, set, func(r *policy.Rule) bool { return r.Policy == name }))
	}
	return list
}

func listOf(name string, set *policy.Set, mine func(*policy.Rule) bool) ruleList {
	var all []string               // the tiers for which there are limits
	var texts []string             // of limits, in their order
	whose := map[string][]string{} // the tiers of each limit
	enforced := false
	for _, r := range set.Rules() {
		if !mine(r) {
			continue
		}
		enforced = enforced || r.Enforced() > 0
		if !slices.Contains(all, r.Tier) {
			all = append(all, r.Tier)
		}
		for _, l := range r.Limits {
			text := l.String()
			if whose[text] == nil {
				texts = append(texts, text)
			}
			whose[text] = append(whose[text], r.Tier)
		}
	}
	list := ruleList{Name: name, Limits: []string{}, Shadow: len(all) > 0 && !enforced}
	for _, text := range texts {
		if tiers := whose[text]; len(tiers) < len(all) {
			text += " (" + strings.Join(tiers, ", ") + ")"
		}
		list.Limits = append(list.Limits, text)
	}
	return list
}
