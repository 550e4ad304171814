package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

func (c *compiler) tiers() {
	if len(c.spec.Tiers) == 0 {
		c.mistake("tiers", "there are none; want at least one that takes every request, such as {name: anonymous, identity: ip, limits: 10/1m}")
		return
	}
	seen := map[string]int{}
	for i := range c.spec.Tiers {
		from, key := &c.spec.Tiers[i], fmt.Sprintf("tiers[%d]", i)
		if c.nameOK(key+".name", from.Name) {
			c.unique(key+".name", "tier", from.Name, seen, i)
		}
		if from.Name == defaultTier {
			c.mistake(key+".name", "%q is reserved: in limits by tier, it means all other tiers; choose another name", from.Name)
		}
		t := &tier{
			clause: c.clause(key, from.Match, from.Unless),
			unit: unit{name: from.Name, who: c.who(key+".identity", from.Identity),
				enforce: c.enforce(key, from.Shadow, from.Rollout)},
			index:   i,
			scope:   cmp.Or(from.Scope, globalScope),
			bans:    cmp.Or(from.Bans, c.spec.Bans),
			failure: cmp.Or(from.Failure, &c.spec.Failure),
			contact: cmp.Or(from.Contact, c.spec.Contact),
		}
		c.bans(key+".bans", from.Bans)
		c.failure(key+".failure", from.Failure)
		c.contact(key+".contact", from.Contact)
		if len(from.Identity) == 0 {
			c.mistake(key+".identity", "is missing; want an identity that distinguishes the tier's members, such as user or ip")
		}
		if c.nameOK(key+".scope", t.scope) && t.scope == otherScope {
			c.mistake(key+".scope", "%q is the scope of requests without a route under scope: route; choose another name", t.scope)
		}
		if from.Limits == nil && from.Budget == nil {
			c.mistake(key, "has neither limits nor a budget; want some, or limits: unlimited")
		}
		c.claimed(key+".limits", from.Limits)
		c.claimed(key+".budget", from.Budget)
		c.notify(key+".notify", from.Notify, from.Limits, from.Budget)
		like := Rule{Tier: from.Name, Contact: t.contact, Notify: from.Notify, unit: &t.unit}
		t.rules = c.rules(key, like, from.Limits, from.Budget)
		c.set.tiers = append(c.set.tiers, t)
	}
	last := c.set.tiers[len(c.set.tiers)-1]
	if !last.takesAll() && len(last.who) > 0 {
		c.mistake(fmt.Sprintf("tiers[%d]", last.index), "is the last tier and must take every request that no other tier takes: "+
			"want no match and no unless, and an identity that every request has, such as ip")
	}
	for i, t := range c.set.tiers[:last.index] {
		if t.takesAll() {
			before := fmt.Sprintf("tiers[%d]", i)
			c.mistakeGiven([]string{before + ".match", before + ".unless", before + ".identity"},
				fmt.Sprintf("tiers[%d]", i+1), "is never reached: the tier %q before it matches every caller", t.name)
			return
		}
	}
}

// takesAll reports whether a tier takes all requests that no earlier tier takes.
func (t *tier) takesAll() bool { return t.when == nil && t.unless == nil && always(t.who) }

// unique adds a mistake if the name is in seen, which maps earlier names to their indexes. It then
// adds the name to seen.
func (c *compiler) unique(key, what, name string, seen map[string]int, i int) {
	if before, ok := seen[name]; ok {
		c.mistake(key, "another %s is named %q, number %d; names must be unique", what, name, before+1)
	}
	seen[name] = i
}

// enforce returns the value of [unit].enforce for the shadow and rollout settings of a tier or
// policy.
func (c *compiler) enforce(key string, shadow bool, rollout *float64) uint32 {
	switch {
	case !c.share(key+".rollout", rollout):
		return 0
	case shadow && rollout != nil && *rollout != 0:
		c.mistake(key+".rollout", "with shadow: true nothing is enforced; want one or the other")
		return 0
	case shadow:
		return 0
	case rollout != nil:
		return uint32(*rollout * enforceAll)
	}
	return enforceAll
}

// share reports whether a share is nil or from 0 to 1. If not, it adds a mistake.
func (c *compiler) share(key string, share *float64) bool {
	if share == nil || *share >= 0 && *share <= 1 {
		return true
	}
	c.mistake(key, "%v; want a share from 0 to 1", *share)
	return false
}

// costName is the name given to the unnamed limits in a budget. It keeps their counts separate from
// the counts of requests.
const costName = "cost"

// rules returns copies of a template rule: one with limits and one with budget. It returns no copy
// for an empty list.
func (c *compiler) rules(key string, like Rule, limits, budget []Limit) []*Rule {
	budget = slices.Clone(budget)
	for i := range budget {
		l := &budget[i].Limit
		if l.Name == "" {
			l.Name = costName
		}
		if l.Algorithm == stint.AlgorithmConcurrency {
			c.mistake(key+".budget", "%s: every request takes one place, whatever it costs; put it under limits", l)
		}
	}
	requests, costs := like, like
	requests.hold(limits)
	costs.hold(budget)
	costs.Costs = true
	var all []*Rule
	if len(limits) > 0 {
		all = append(all, c.rule(key+".limits", &requests))
	}
	if len(budget) > 0 {
		all = append(all, c.rule(key+".budget", &costs))
	}
	if sharesLimit(requests.Limits, costs.Limits) {
		c.mistake(key+".budget", "has a limit with the same name, algorithm and window as one under limits; give it another name")
	}
	return all
}

// hold sets the limits of a rule. It clears Notify if Notify applies to none of the limits.
func (r *Rule) hold(limits []Limit) {
	for i := range limits {
		r.Limits = append(r.Limits, limits[i].Limit)
		if limits[i].Claim != "" {
			r.Claimed = limits
		}
	}
	if !slices.ContainsFunc(r.Limits, func(l stint.Limit) bool { return r.Notifies(&l) != nil }) {
		r.Notify = nil
	}
}

// limitsOK adds a mistake if a limit is not valid or if two limits would share a count.
func (c *compiler) limitsOK(key string, limits []stint.Limit) {
	for i := range limits {
		if sharesLimit(limits[:i], limits[i:i+1]) {
			c.mistake(key, "%s has the same algorithm and window as another limit; give one of them a name, such as %q", limits[i], "other: "+limits[i].String())
			return
		}
	}
	check := stint.Request{Claims: []stint.Claim{{Subject: "any", Limits: limits}}}
	c.mistakes(key, check.Validate())
}

func (c *compiler) rule(key string, r *Rule) *Rule {
	c.limitsOK(key, r.Limits)
	if r.unit.enforce != enforceAll &&
		slices.ContainsFunc(r.Limits, isConcurrency) {
		c.mistake(key, "a concurrency limit cannot be in shadow, because admitted requests hold its places")
	}
	r.Index, r.Enforced = len(c.set.rules), float64(r.unit.enforce)/enforceAll
	c.set.rules = append(c.set.rules, r)
	return r
}

func isConcurrency(l stint.Limit) bool { return l.Algorithm == stint.AlgorithmConcurrency }

func sharesLimit(a, b []stint.Limit) bool {
	return slices.ContainsFunc(a, func(l stint.Limit) bool {
		return slices.ContainsFunc(b, func(m stint.Limit) bool { return contract.SameID(&l, &m) })
	})
}
