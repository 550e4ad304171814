package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/observe"
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

// shadowState is how many requests of a tier were allowed since the start, and how many of them would not have been, but for
// a policy in shadow. How many of them the policy applied to is not known: a request is counted under one route.
type shadowState struct {
	Policy   string `json:"policy"`
	Tier     string `json:"tier"`
	Shadowed int64  `json:"shadowed"`
	Allowed  int64  `json:"allowed"`
}

// shadowOf returns what rules in shadow would have done, those first that would have denied most. Rules that would have
// denied nobody are among them. The set may be nil.
func shadowOf(set *policy.Set, series []observe.Series) []shadowState {
	list := []shadowState{}
	find := func(tier, policy string) int {
		return slices.IndexFunc(list, func(s shadowState) bool { return s.Tier == tier && s.Policy == policy })
	}
	if set != nil {
		for _, r := range set.Rules() {
			if r.Enforced() < 1 && find(r.Tier, r.Policy) < 0 {
				list = append(list, shadowState{Policy: r.Policy, Tier: r.Tier})
			}
		}
	}
	allowed := map[string]int64{} // of tiers
	for i := range series {
		s := &series[i]
		allowed[s.Tier] += s.Total.Allowed
		at := find(s.Tier, s.Policy)
		if at < 0 && s.Total.Shadowed > 0 {
			at = len(list)
			list = append(list, shadowState{Policy: s.Policy, Tier: s.Tier})
		}
		if at >= 0 {
			list[at].Shadowed += s.Total.Shadowed
		}
	}
	for i := range list {
		list[i].Allowed = allowed[list[i].Tier]
	}
	slices.SortStableFunc(list, func(a, b shadowState) int { return cmp.Compare(b.Shadowed, a.Shadowed) })
	return list
}
