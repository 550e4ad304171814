package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/policy"
)

// ruleList is a tier or a policy with the texts of its limits.
type ruleList struct {
	Name   string   `json:"name"`
	Limits []string `json:"limits"`
	// Shadow reports whether there are limits, but none is enforced for any subject.
	Shadow bool `json:"shadow"`
	// Contact is the text or URL that tells denied callers how to get higher limits. It is "" if
	// there is none, or if it depends on the tier.
	Contact string `json:"contact"`
	// Failure is the failure mode, which applies while the store is down: "local", "allow", "deny"
	// or "error". It is "" for a policy without a failure mode if the tiers have different ones.
	Failure string `json:"failure"`
}

func tiersOf(set *policy.Set) []ruleList {
	list := []ruleList{}
	for _, tier := range set.Spec().Tiers {
		rules := listOf(tier.Name, set, func(r *policy.Rule) bool { return r.Policy == "" && r.Tier == tier.Name })
		rules.Failure = cmp.Or(tier.Failure, &set.Spec().Failure).Mode.String()
		list = append(list, rules)
	}
	return list
}

// policiesOf returns the policies of a set. The argument tiers is the result of tiersOf for the
// same set. If a limit applies only to some tiers, its text names them.
func policiesOf(set *policy.Set, tiers []ruleList) []ruleList {
	ofTiers := tiers[0].Failure // a set has at least one tier
	if slices.ContainsFunc(tiers, func(t ruleList) bool { return t.Failure != ofTiers }) {
		ofTiers = ""
	}
	list := []ruleList{}
	for _, p := range set.Spec().Policies {
		rules := listOf(p.Name, set, func(r *policy.Rule) bool { return r.Policy == p.Name })
		rules.Failure = ofTiers
		if p.Failure != nil {
			rules.Failure = p.Failure.Mode.String()
		}
		list = append(list, rules)
	}
	return list
}

func listOf(name string, set *policy.Set, mine func(*policy.Rule) bool) ruleList {
	var all []string               // the tiers that have limits
	var texts []string             // the texts of the limits, in the order of the rules
	whose := map[string][]string{} // the tiers of each limit, by the text of the limit
	enforced, contact := false, ""
	for _, r := range set.Rules() {
		if !mine(r) {
			continue
		}
		enforced = enforced || r.Enforced > 0
		if len(all) == 0 {
			contact = r.Contact
		} else if contact != r.Contact {
			contact = ""
		}
		if !slices.Contains(all, r.Tier) {
			all = append(all, r.Tier)
		}
		for _, text := range r.LimitTexts() {
			if whose[text] == nil {
				texts = append(texts, text)
			}
			whose[text] = append(whose[text], r.Tier)
		}
	}
	list := ruleList{Name: name, Limits: []string{}, Shadow: len(all) > 0 && !enforced, Contact: contact}
	for _, text := range texts {
		if tiers := whose[text]; len(tiers) < len(all) {
			text += " (" + strings.Join(tiers, ", ") + ")"
		}
		list.Limits = append(list.Limits, text)
	}
	return list
}
