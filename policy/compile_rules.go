package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/outbound"
)

func (c *compiler) tiers(bans *stint.BanPolicy) {
	if len(c.doc.Tiers) == 0 {
		c.mistake("tiers", "there are none; want at least one that takes everybody, such as {name: anonymous, identity: ip, limits: 10/1m}")
		return
	}
	seen := map[string]int{}
	for i := range c.doc.Tiers {
		doc, key := &c.doc.Tiers[i], fmt.Sprintf("tiers[%d]", i)
		if c.nameOK(key+".name", doc.Name) {
			c.unique(key+".name", "tier", doc.Name, seen, i)
		}
		if doc.Name == defaultTier {
			c.mistake(key+".name", "%q stands for all other tiers where policies give limits for each", doc.Name)
		}
		t := &tier{
			clause:  c.clause(key, doc.Match, doc.Unless),
			unit:    unit{name: doc.Name, who: c.who(key+".identity", doc.Identity), enforce: c.enforce(key, doc.Shadow, doc.Rollout)},
			index:   i,
			bans:    bans,
			failure: c.failure(key+".failure", doc.Failure, &c.set.failure),
		}
		if doc.Bans != nil {
			t.bans = c.bans(key+".bans", doc.Bans)
		}
		if len(doc.Identity) == 0 {
			c.mistake(key+".identity", "is missing; how are the tier's members told apart? want something like user or ip")
		}
		c.tierScope(key, doc, t)
		if !c.has(key+".limits") && !c.has(key+".budget") {
			c.mistake(key, "has neither limits nor a budget; want some, or limits: unlimited")
		}
		t.rules = c.rules(key, "", doc.Name, &t.unit, doc.Limits, doc.Budget)
		c.set.tiers = append(c.set.tiers, t)
	}
	last := c.set.tiers[len(c.set.tiers)-1]
	if !last.takesAll() && len(last.who) > 0 {
		c.mistake(fmt.Sprintf("tiers[%d]", last.index), "is the last tier and must take everybody who is in no other: "+
			"want no match and no unless, and an identity that no request lacks, such as ip")
	}
	for i, t := range c.set.tiers[:last.index] {
		if t.takesAll() {
			c.mistake(fmt.Sprintf("tiers[%d]", i+1), "nobody gets here: the tier %q before it takes everybody", t.name)
			return
		}
	}
}

// takesAll reports whether every request that comes to a tier belongs to it.
func (t *tier) takesAll() bool { return t.when == nil && t.unless == nil && always(t.who) }

// unique reports a name that was there before.
func (c *compiler) unique(key, what, name string, seen map[string]int, i int) {
	if before, ok := seen[name]; ok {
		c.mistake(key, "there is a %s %q already, number %d; names are unique", what, name, before+1)
	}
	seen[name] = i
}

func (c *compiler) tierScope(key string, doc *tierDoc, t *tier) {
	switch doc.Scope {
	case "", "global":
	case "route":
		t.scope = scopeRoute
	case "none":
		t.scope = scopeNone
	default:
		c.mistake(key+".scope", "%q; want global, route or none", doc.Scope)
	}
}

func (c *compiler) enforce(key string, shadow bool, rollout *percent) uint32 {
	switch {
	case shadow && rollout != nil:
		c.mistake(key+".rollout", "with shadow: true nothing is enforced for anybody; want one of them")
		return 0
	case shadow:
		return 0
	case rollout != nil:
		return uint32(float64(*rollout) / 100 * enforceAll)
	}
	return enforceAll
}

// costName is the name of a budget's limits that have none, so that their counts are not those of requests.
const costName = "cost"

// rules makes the rules of a tier or policy.
func (c *compiler) rules(key, policyName, tierName string, u *unit, limits, budget limitList) rules {
	budget = slices.Clone(budget)
	for i := range budget {
		if budget[i].Name == "" {
			budget[i].Name = costName
		}
		if budget[i].Algorithm == stint.Concurrency {
			c.mistake(key+".budget", "%s: a place costs the same for every request; want it under limits", budget[i])
		}
	}
	var r rules
	if len(limits) > 0 {
		r.requests = c.rule(key+".limits", &Rule{Policy: policyName, Tier: tierName, Limits: limits, unit: u})
	}
	if len(budget) > 0 {
		r.costs = c.rule(key+".budget", &Rule{Policy: policyName, Tier: tierName, Limits: budget, Costs: true, unit: u})
	}
	if r.requests != nil && r.costs != nil && sharesLimit(limits, budget) {
		c.mistake(key+".budget", "has a limit with the name, algorithm and window of one under limits; give it another name")
	}
	return r
}

// limitsOK reports limits that do not go together.
func (c *compiler) limitsOK(key string, limits []stint.Limit) {
	for i := range limits {
		if sharesLimit(limits[:i], limits[i:i+1]) {
			c.mistake(key, "%s has the algorithm and window of another one there; give one of them a name, such as %q", limits[i], "other: "+limits[i].String())
			return
		}
	}
	check := stint.Request{Claim: stint.Claim{Subject: "any", Limits: limits}}
	var invalid *stint.InvalidError
	if errors.As(check.Validate(), &invalid) {
		c.mistakes(key, invalid.Err)
	}
}

func (c *compiler) rule(key string, r *Rule) *Rule {
	c.limitsOK(key, r.Limits)
	if r.unit.enforce != enforceAll && slices.ContainsFunc(r.Limits, func(l stint.Limit) bool { return l.Algorithm == stint.Concurrency }) {
		c.mistake(key, "a place is held by those who are let in because of it: a concurrency limit cannot be in shadow")
	}
	r.Index = len(c.set.rules)
	c.set.rules = append(c.set.rules, r)
	return r
}

func sharesLimit(a, b []stint.Limit) bool {
	return slices.ContainsFunc(a, func(l stint.Limit) bool {
		return slices.ContainsFunc(b, func(m stint.Limit) bool { return l.SameID(&m) })
	})
}

func (c *compiler) outbound() {
	for _, name := range sorted(c.doc.Outbound) {
		doc, key := c.doc.Outbound[name], "outbound."+name
		if !c.nameOK(key, name) {
			continue
		}
		for _, id := range c.identities {
			if id.typ == name {
				c.mistake(key, "is also what keys of the identity %q begin with: a caller called api could pass for it; choose another name", id.name)
			}
		}
		api := outbound.API{}
		if doc.Preset != "" {
			var ok bool
			if api, ok = outbound.Preset(doc.Preset); !ok {
				known := outbound.PresetNames()
				c.mistake(key+".preset", "no preset %q; there is %s%s", doc.Preset, oneOf(known), nearest.Hint(doc.Preset, known))
				continue
			}
		}
		api.Name = name
		if len(doc.Limits) > 0 {
			api.Limits = doc.Limits
		}
		if len(api.Limits) == 0 {
			c.mistake(key, "has neither limits nor a preset; want something like limits: 4/1s")
			continue
		}
		api.FailFast, api.Retries = doc.FailFast, int(doc.Retries)
		api.MaxWait, api.MaxCooldown = time.Duration(doc.MaxWait), time.Duration(doc.MaxCooldown)
		api.Failure = c.failure(key+".failure", doc.Failure, &c.set.failure)
		if doc.FailFast && doc.MaxWait > 0 {
			c.mistake(key+".max_wait", "with fail_fast nobody waits; want one of them")
		}
		if doc.FailFast && doc.Retries > 0 {
			c.mistake(key+".retries", "with fail_fast nobody waits, and a repeat has to; want one of them")
			continue
		}
		if doc.Retries > outbound.MaxRetries {
			c.mistake(key+".retries", "%d; want 0 to %d", doc.Retries, outbound.MaxRetries)
			continue
		}
		var invalid *stint.InvalidError
		if errors.As(api.Validate(), &invalid) {
			c.mistakes(key, invalid.Err)
		}
		c.set.outbound = append(c.set.outbound, api)
	}
}
