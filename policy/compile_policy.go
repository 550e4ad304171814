package policy

import (
	"fmt"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/nearest"
)

// defaultTier stands for the tiers that a policy does not name.
const defaultTier = "default"

func (c *compiler) policies() {
	seen := map[string]int{}
	for i := range c.doc.Policies {
		doc, key := &c.doc.Policies[i], fmt.Sprintf("policies[%d]", i)
		if c.nameOK(key+".name", doc.Name) {
			c.unique(key+".name", "policy", doc.Name, seen, i)
		}
		if doc.Name == globalScope || doc.Name == otherScope {
			c.mistake(key+".name", "%q is what keys of tiers are called; choose another name", doc.Name)
		}
		c.set.order = append(c.set.order, doc.Name)
		cl := c.clause(key, doc.Match, doc.Unless)
		if doc.Skip {
			c.skip(key, doc, cl)
			continue
		}
		p := &policy{
			clause: cl,
			unit:   unit{name: doc.Name, who: c.who(key+".identity", doc.Identity), enforce: c.enforce(key, doc.Shadow, doc.Rollout)},
			cost:   c.cost(key+".cost", doc.Cost),
			after:  c.after(key, doc),
			id:     c.requestID(key+".request_id", doc.RequestID),
		}
		if doc.Failure != nil {
			p.failure = c.failure(key+".failure", doc.Failure, &c.set.failure)
		}
		if len(p.who) > 0 && !always(p.who) {
			c.mistake(key+".identity", "a request may lack it; want a last one that no request lacks, such as ip: [%s, ip]", doc.Identity[len(doc.Identity)-1])
		}
		p.per = c.per(key+".per", doc)
		c.policyRules(key, doc, p)
		c.set.policies = append(c.set.policies, p)
	}
	for _, t := range c.set.tiers {
		c.notTooMany(t)
	}
}

// notTooMany makes sure that what applies to every request of a tier can be asked in one question.
func (c *compiler) notTooMany(t *tier) {
	claims, limits := 0, 0
	count := func(r rules) {
		for _, rule := range [...]*Rule{r.requests, r.costs} {
			if rule != nil {
				claims++
				limits += len(rule.Limits)
			}
		}
	}
	count(t.rules)
	for _, p := range c.set.policies {
		if p.when == nil && p.unless == nil {
			count(p.rules[t.index])
		}
	}
	if claims > stint.MaxClaims || limits > stint.MaxTotal {
		c.mistake(fmt.Sprintf("tiers[%d]", t.index), "every request of the tier is counted %d times under %d limits, by itself and by policies without a match; "+
			"want at most %d and %d", claims, limits, stint.MaxClaims, stint.MaxTotal)
	}
}

func (c *compiler) skip(key string, doc *policyDoc, cl clause) {
	if cl.when == nil {
		c.mistake(key, "skips every request there is; want a match")
	}
	for _, k := range []string{"identity", "per", "limits", "budget", "cost", "settle", "refund", "request_id", "shadow", "rollout", "failure"} {
		if c.has(key + "." + k) {
			c.mistake(key+"."+k, "has no effect in a policy that skips")
		}
	}
	c.set.exempt = append(c.set.exempt, &exemption{clause: cl, name: doc.Name})
}

// policyRules makes the rules of a policy for every tier.
func (c *compiler) policyRules(key string, doc *policyDoc, p *policy) {
	c.tierNames(key+".limits", &doc.Limits)
	c.tierNames(key+".budget", &doc.Budget)
	limited := c.has(key+".limits") || c.has(key+".budget")
	for _, t := range c.set.tiers {
		p.tiers = append(p.tiers, !limited || doc.Limits.names(t.name) || doc.Budget.names(t.name))
		r := c.rules(key, doc.Name, t.name, &p.unit, doc.Limits.of(t.name), doc.Budget.of(t.name))
		p.rules = append(p.rules, r)
		c.noClash(key, p, r, t)
	}
	if !limited && p.cost == nil && p.after == nil && p.id == nil && p.failure == nil {
		c.mistake(key, "does nothing; want limits, a budget, a cost, settle, refund, request_id, failure, or skip: true")
	}
	if !limited && (doc.Shadow || doc.Rollout != nil || len(doc.Identity) > 0 || len(doc.Per) > 0) {
		c.mistake(key, "has identity, per, shadow or rollout, which are about limits, and no limits")
	}
}

func (c *compiler) tierNames(key string, l *tierLimits) {
	known := []string{defaultTier}
	for _, t := range c.set.tiers {
		known = append(known, t.name)
	}
	for _, name := range sorted(l.ByTier) {
		if !slices.Contains(known, name) {
			c.mistake(key+"."+name, "no tier %q; there is %s%s", name, oneOf(known), nearest.Hint(name, known))
		}
	}
}

// names reports whether there is something to say of a tier.
func (l *tierLimits) names(tier string) bool {
	if l.ByTier == nil {
		return l.All != nil
	}
	_, named := l.ByTier[tier]
	_, rest := l.ByTier[defaultTier]
	return named || rest
}

// of returns the limits for a tier.
func (l *tierLimits) of(tier string) limitList {
	if l.ByTier == nil {
		return l.All
	}
	if limits, ok := l.ByTier[tier]; ok {
		return limits
	}
	return l.ByTier[defaultTier]
}

// noClash makes sure that a policy's counts are not those of a tier that counts per route: both are kept under the
// policy's name.
func (c *compiler) noClash(key string, p *policy, r rules, t *tier) {
	if t.scope != scopeRoute || len(p.per) > 0 || p.when == nil {
		return
	}
	if p.who != nil && !slices.ContainsFunc(p.who, func(id *identity) bool { return slices.Contains(t.who, id) }) {
		return
	}
	for _, a := range [...]*Rule{r.requests, r.costs} {
		for _, b := range [...]*Rule{t.rules.requests, t.rules.costs} {
			if a != nil && b != nil && sharesLimit(a.Limits, b.Limits) {
				c.mistake(key+".limits", "has a limit with the name, algorithm and window of one of the tier %q, "+
					"which counts per route: they would share their count; give it a name, such as %q", t.name, p.name+": "+a.Limits[0].String())
			}
		}
	}
}

func (c *compiler) per(key string, doc *policyDoc) []divider {
	var per []divider
	for i, name := range doc.Per {
		switch name {
		case "method":
			per = append(per, divider{kind: perMethod})
			c.knowMethods(knownMethods...)
		case "host":
			if doc.Match == nil || len(doc.Match.Host) == 0 {
				c.mistake(at(key, i, doc.Per), "anybody can invent hosts; want those that count under match.host")
			}
			per = append(per, divider{kind: perHost})
		case "route":
			per = append(per, divider{kind: perRoute})
		default:
			c.variable(at(key, i, doc.Per), doc, name)
			per = append(per, divider{kind: perVariable, name: name})
		}
	}
	return per
}

// variable makes sure that every path of a policy has a variable.
func (c *compiler) variable(key string, doc *policyDoc, name string) {
	known := []string{"method", "host", "route"}
	if doc.Match == nil || len(doc.Match.Path) == 0 {
		c.mistake(key, "%q; want %s, or a variable of the path that is matched%s", name, oneOf(known), nearest.Hint(name, known))
		return
	}
	for _, text := range doc.Match.Path {
		p, err := parsePattern(text)
		if err != nil {
			continue // told already
		}
		names := p.names(nil)
		if !slices.Contains(names, name) {
			c.mistake(key, "the path %s has no variable {%s}; want one, or %s%s", text, name, oneOf(known), nearest.Hint(name, append(names, known...)))
		}
	}
}

func (c *compiler) cost(key string, doc *costDoc) *cost {
	if doc == nil {
		return nil
	}
	if doc.Units != nil {
		c.inUnits(key, *doc.Units)
		return &cost{units: *doc.Units}
	}
	if doc.Header == "" {
		c.mistake(key, "want a number, or the header that says it")
		return &cost{units: 1}
	}
	p := &cost{units: 1, header: c.field(key+".header", doc.Header), min: 1, max: stint.MaxUnits}
	for _, bound := range []struct {
		name string
		from *int64
		to   *int64
	}{{"default", doc.Default, &p.units}, {"min", doc.Min, &p.min}, {"max", doc.Max, &p.max}} {
		if bound.from != nil {
			*bound.to = *bound.from
			c.inUnits(key+"."+bound.name, *bound.from)
		}
	}
	if doc.Max == nil {
		c.mistake(key, "anybody can write the header %s; want a max", doc.Header)
	}
	if p.min > p.max {
		c.mistake(key, "min %d is above max %d", p.min, p.max)
	}
	return p
}

func (c *compiler) inUnits(key string, n int64) {
	if n < 0 || n > stint.MaxUnits {
		c.mistake(key, "%d; want 0 to %d", n, stint.MaxUnits)
	}
}

func isZero(n *int64) bool { return n != nil && *n == 0 }

func (c *compiler) after(key string, doc *policyDoc) *after {
	if doc.Settle == nil && len(doc.Refund) == 0 {
		return nil
	}
	a := &after{refund: doc.Refund}
	if s := doc.Settle; s != nil {
		if (s.Header == "") == (s.Bytes == 0) {
			c.mistake(key+".settle", "want header or bytes, one of them")
		}
		if s.Header != "" {
			a.header = c.field(key+".settle.header", s.Header)
		}
		a.bytes = int64(s.Bytes)
		if s.MaxDebt != nil {
			if a.maxDebt = *s.MaxDebt; a.maxDebt < 1 {
				c.mistake(key+".settle.max_debt", "%d; want at least 1", a.maxDebt)
			}
		}
		if p := doc.Cost; p != nil && (isZero(p.Units) || isZero(p.Min) || isZero(p.Default)) {
			c.mistake(key+".cost", "what costs nothing is not charged, and cannot be settled; want at least 1")
		}
	}
	return a
}
