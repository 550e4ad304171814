package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

// tierTotal describes how much the limits of a tier allow one caller in total.
type tierTotal struct {
	Tier string `json:"tier"`
	// Scopes lists the scopes in which a caller is counted. The limits apply separately in each
	// scope. With scope: route, there is one scope for each route.
	Scopes []string `json:"scopes"`
	Limits []string `json:"limits"`
	Total  string   `json:"total"`
}

func totalsOf(c *config.Config) []tierTotal {
	var all []tierTotal
	for _, tier := range setinfo.Tiers(c.Set) {
		t := tierTotal{Tier: tier, Scopes: setinfo.TierScopes(c.Set, tier), Limits: []string{}}
		var own []*policy.Rule
		for _, r := range c.Set.Rules() {
			if r.Tier == tier && r.Policy == "" {
				own = append(own, r)
				t.Limits = append(t.Limits, r.LimitTexts()...)
			}
		}
		t.Total = totalText(own, len(t.Scopes))
		all = append(all, t)
	}
	return all
}

// totalText describes how much the rules of a tier allow one caller who is counted in the given
// number of scopes: "60 requests in any minute, 500 in any hour, over all routes".
func totalText(rules []*policy.Rule, parts int) string {
	if len(rules) == 0 {
		return "unlimited"
	}
	times := func(n int64) string {
		var texts []string
		for _, r := range rules {
			unit := " request"
			if r.Costs {
				unit = " cost unit"
			}
			for i := range r.Limits {
				texts = append(texts, allowance(r.Limits, i, n, unit)+byClaim(r, i, n))
				unit = ""
			}
		}
		return strings.Join(texts, ", ")
	}
	text := times(1) + ", over all routes"
	if parts > 1 {
		text = fmt.Sprintf("%s, on each of %d routes: up to %s in total", times(1), parts, times(int64(parts)))
	}
	for _, r := range rules {
		if len(r.Notify) > 0 {
			text += "; notifies at " + sharesText(r.Notify)
			break
		}
	}
	switch share := rules[0].Enforced; { // the same for all rules of a tier
	case share == 0:
		text += "; in shadow: not enforced"
	case share < 1:
		text += "; enforced for " + figures.Percent(share) + " of the callers"
	}
	return text
}

// byClaim describes how much the limit of r at index i allows in n scopes if claims set all limits
// to their largest maximums. It returns "" if no claim sets this limit and the largest maximums of
// the other limits do not raise the amount.
func byClaim(r *policy.Rule, i int, n int64) string {
	if r.Claimed == nil {
		return ""
	}
	largest := make([]stint.Limit, len(r.Claimed))
	for k := range r.Claimed {
		largest[k] = r.Claimed[k].Largest()
	}
	most, _ := algorithm.Reach(largest, i)
	switch without, _ := algorithm.Reach(r.Limits, i); {
	case r.Claimed[i].Claim != "":
		return fmt.Sprintf(" (up to %d by the claim %s)", most*n, r.Claimed[i].Claim)
	case most > without:
		return fmt.Sprintf(" (up to %d by claims)", most*n)
	}
	return ""
}

// allowance describes how much the limit at index i allows in one of its windows, in n scopes
// together. unit is a singular noun with a leading space, or "".
func allowance(limits []stint.Limit, i int, n int64, unit string) string {
	l := &limits[i]
	names := map[time.Duration]string{
		time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day",
	}
	window := cmp.Or(names[l.Window], figures.Length(l.Window))
	most, more := algorithm.Reach(limits, i)
	most *= n
	if unit != "" && most != 1 {
		unit += "s"
	}
	switch l.Algorithm {
	case stint.AlgorithmBucket:
		return fmt.Sprintf("%d%s at once and %d more per %s", most, unit, more*n, window)
	case stint.AlgorithmFixed:
		return fmt.Sprintf("%d%s in each clock %s", most, unit, window)
	case stint.AlgorithmCalendar:
		_, period, _ := strings.Cut(l.String(), "/")
		return fmt.Sprintf("%d%s in each calendar %s", most, unit, period)
	case stint.AlgorithmConcurrency:
		return fmt.Sprintf("%d%s at the same time", most, unit)
	default:
		return fmt.Sprintf("%d%s in any %s", most, unit, window)
	}
}
