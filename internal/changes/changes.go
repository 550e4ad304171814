// Package changes describes the differences between two sets of rules, for operators who look for
// the cause of denials.
package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/policy"
)

// Sets lists the changes from an earlier set to a later one: first the changes to limits, then the
// changes to all other settings.
func Sets(was, is *policy.Set) []reload.Change {
	return append(Rules(was.Rules(), is.Rules()), settings(was, is)...)
}

// Fingerprint returns a short hash of a set's spec, without its Source. Two sets with the same
// fingerprint make the same decisions.
func Fingerprint(set *policy.Set) string {
	spec := *set.Spec()
	spec.Source = nil
	text, err := json.Marshal(&spec)
	if err != nil { // cannot happen: a spec has only numbers, strings, lists and maps
		panic(fmt.Sprintf("changes: %v", err))
	}
	return Digest(text)
}

// Digest returns a short hash of texts, in hexadecimal.
func Digest(texts ...[]byte) string {
	h := sha256.New()
	for _, text := range texts {
		_, _ = h.Write(text) // writing to a hash never fails
	}
	const length = 4
	return hex.EncodeToString(h.Sum(nil)[:length])
}

// key identifies the limits of a policy in a tier, or those of the tier itself if policy is "". The
// limits count costs if costs is true, and requests otherwise.
type key struct {
	policy, tier string
	costs        bool
}

// change is a change to the limits of a tier or a policy. For a policy, tier is "", because the
// limits may change in the same way in several tiers.
type change struct {
	key
	from, to string
}

// Rules lists the changes to limits between earlier rules and later ones. The text of a change is,
// for example, "api for enterprise from 500/1m to 50/1m".
func Rules(was, is []*policy.Rule) []reload.Change {
	before, after := map[key]*policy.Rule{}, map[key]*policy.Rule{}
	number := map[key]int{} // number of tiers that have the limits, before or after the change
	var order []key
	add := func(to map[key]*policy.Rule, rules []*policy.Rule) {
		for _, r := range rules {
			k := key{r.Policy, r.Tier, r.Costs}
			if before[k] == nil && after[k] == nil {
				order = append(order, k)
				number[key{policy: k.policy, costs: k.costs}]++
			}
			to[k] = r
		}
	}
	add(after, is)
	add(before, was)
	var changes []change
	tiers, denies := map[change][]string{}, map[change][]reload.Rule{}
	for _, k := range order {
		c := change{k, text(before[k]), text(after[k])}
		if c.from == c.to {
			continue
		}
		if k.policy != "" {
			c.tier = ""
		}
		if tiers[c] == nil {
			changes = append(changes, c)
		}
		tiers[c] = append(tiers[c], k.tier)
		if tighter(before[k], after[k]) {
			denies[c] = append(denies[c], reload.Rule{Tier: k.tier, Policy: k.policy})
		}
	}
	list := make([]reload.Change, len(changes))
	for i, c := range changes {
		name := c.policy
		switch {
		case name == "":
			name = "tier " + c.tier
		case len(tiers[c]) < number[c.key]:
			name += " for " + strings.Join(tiers[c], ", ")
		}
		if c.costs {
			name = "budget of " + name
		}
		list[i] = reload.Change{Text: fmt.Sprintf("%s from %s to %s", name, c.from, c.to), Denies: denies[c]}
	}
	return list
}

// text describes the limits of a rule. A nil rule has no limits.
func text(r *policy.Rule) string {
	if r == nil || len(r.Limits) == 0 {
		return "no limit"
	}
	limits := strings.Join(r.LimitTexts(), ", ")
	switch {
	case r.Enforced == 0:
		limits += " (shadow)"
	case r.Enforced < 1:
		limits += fmt.Sprintf(" (for %.4g%%)", 100*r.Enforced)
	}
	return limits
}

// tighter reports whether a rule may deny requests that it did not deny before. A limit denies
// nothing new if it existed before and neither its Max nor its capacity has become smaller. An
// enforced rule that has or had limits from claims always counts as tighter.
func tighter(was, is *policy.Rule) bool {
	switch {
	case is == nil || is.Enforced == 0:
		return false
	case was == nil || was.Enforced < is.Enforced || was.Claimed != nil || is.Claimed != nil:
		return true
	}
	return slices.ContainsFunc(is.Limits, func(to stint.Limit) bool {
		return !slices.ContainsFunc(was.Limits, func(from stint.Limit) bool {
			same := from
			same.Max, same.Burst = to.Max, to.Burst
			return same == to && from.Max <= to.Max && max(from.Max, from.Burst) <= max(to.Max, to.Burst)
		})
	})
}

// settings lists the differences that Rules does not list: in tiers, in policies, and in the
// settings of the whole set.
func settings(was, is *policy.Set) []reload.Change {
	var list []reload.Change
	add := func(text string, mine func(*policy.Rule) bool) {
		c := reload.Change{Text: text}
		for _, r := range is.Rules() {
			rule := reload.Rule{Tier: r.Tier, Policy: r.Policy}
			if mine(r) && r.Enforced > 0 && !slices.Contains(c.Denies, rule) {
				c.Denies = append(c.Denies, rule)
			}
		}
		list = append(list, c)
	}
	from, to := was.Spec(), is.Spec()
	tier, pol := func(t policy.Tier) string { return t.Name }, func(p policy.Policy) string { return p.Name }
	each(from.Tiers, to.Tiers, "tier", tier, func(name, text string) {
		add(text, func(r *policy.Rule) bool { return name == "" || r.Tier == name })
	})
	each(from.Policies, to.Policies, "policy", pol, func(name, text string) {
		add(text, func(r *policy.Rule) bool { return name == "" || r.Policy == name })
	})
	if fields := different(*from, *to, "Tiers", "Policies", "Source"); len(fields) > 0 {
		add("settings: "+strings.Join(fields, ", "), func(*policy.Rule) bool { return true })
	}
	return list
}

// each finds the tiers or policies that were added or removed, or whose settings other than limits,
// shadow and rollout have changed. It calls found for each of them, with its name and a description
// of the difference. If the order of those in both lists has changed, it also calls found with
// the name "".
func each[T any](was, is []T, kind string, nameOf func(T) string, found func(name, text string)) {
	in := func(list []T, name string) int {
		return slices.IndexFunc(list, func(t T) bool { return nameOf(t) == name })
	}
	var kept, before []string
	for _, t := range is {
		name := nameOf(t)
		i := in(was, name)
		if i < 0 {
			found(name, kind+" "+name+" is new")
			continue
		}
		kept = append(kept, name)
		fields := different(was[i], t, "Limits", "Budget", "TierLimits", "TierBudget", "Shadow", "Rollout")
		if len(fields) > 0 {
			found(name, kind+" "+name+": "+strings.Join(fields, ", "))
		}
	}
	for _, t := range was {
		if name := nameOf(t); in(is, name) >= 0 {
			before = append(before, name)
		} else {
			found(name, kind+" "+name+" is gone")
		}
	}
	if !slices.Equal(kept, before) {
		found("", "the order of "+map[string]string{"tier": "tiers", "policy": "policies"}[kind])
	}
}

// different returns the names of the fields in which two structs differ. It returns the names that
// configurations use, such as max_debt. It ignores the fields whose Go names are passed as `but`.
func different[T any](a, b T, but ...string) (fields []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		name := x.Type().Field(i).Name
		if !slices.Contains(but, name) && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			fields = append(fields, snake(name))
		}
	}
	return fields
}

// snake converts the name of a field to snake case: MaxDebt to max_debt.
func snake(name string) string {
	var b strings.Builder
	var before rune
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte('_')
		}
		before = r
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
