package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/pathpattern"
	"github.com/stint-limiter/stint/internal/syntax"
)

func (c *compiler) policies() {
	seen := map[string]int{}
	for i := range c.spec.Policies {
		from, key := &c.spec.Policies[i], fmt.Sprintf("policies[%d]", i)
		if c.nameOK(key+".name", from.Name) {
			c.unique(key+".name", "policy", from.Name, seen, i)
		}
		if from.Name == globalScope || from.Name == otherScope || slices.ContainsFunc(c.set.tiers, func(t *tier) bool {
			return t.scope == from.Name && t.scope != scopeRoute && t.scope != scopeNone
		}) {
			c.mistake(key+".name", "%q is a scope that tiers count in, so both would share a count; choose another name", from.Name)
		}
		p := &policy{clause: c.clause(key, from.Match, from.Unless), unit: unit{name: from.Name}, skips: from.Skip}
		c.set.all = append(c.set.all, p)
		if from.Skip {
			c.skip(key, from)
			c.set.exempt = append(c.set.exempt, p)
			continue
		}
		p.who = c.who(key+".identity", from.Identity)
		p.enforce = c.enforce(key, from.Shadow, from.Rollout)
		p.cost = c.cost(key+".cost", from.Cost)
		p.costs, p.hold = from.Costs, from.Hold
		c.costs(key+".costs", from.Costs)
		c.hold(key+".hold", from.Hold)
		p.usage = c.usage(key+".usage", from)
		if p.usage != nil && p.hold == 0 {
			p.hold = usageHold
			c.hold(key+".usage", p.hold)
		}
		p.after = c.after(key, from)
		p.id = c.requestID(key+".request_id", from.RequestID, from.RequestIDLife, from.RequestIDDerive)
		p.failure = from.Failure
		c.failure(key+".failure", from.Failure)
		c.contact(key+".contact", from.Contact)
		if len(p.who) > 0 && !always(p.who) {
			c.mistake(key+".identity", "a request may not have it; the last identity must be one that every request has, such as ip: [%s, ip]", from.Identity[len(from.Identity)-1])
		}
		p.per = from.Per
		c.per(key+".per", from)
		c.policyRules(key, from, p)
		c.set.policies = append(c.set.policies, p)
	}
	for _, t := range c.set.tiers {
		c.notTooMany(t)
	}
	c.holdsApart()
}

// notTooMany checks that all limits that apply to every request of tier t fit into one request to
// the store.
func (c *compiler) notTooMany(t *tier) {
	claims, limits := 0, 0
	count := func(rules []*Rule) {
		for _, rule := range rules {
			claims++
			limits += len(rule.Limits)
		}
	}
	count(t.rules)
	for _, p := range c.set.policies {
		if p.when == nil && p.unless == nil {
			count(p.rules[t.index])
		}
	}
	if claims > stint.MaxClaims || limits > stint.MaxTotal {
		c.mistake(fmt.Sprintf("tiers[%d]", t.index), "every request of the tier is counted %d times under %d limits, by the tier and by policies without a match; "+
			"want at most %d and %d", claims, limits, stint.MaxClaims, stint.MaxTotal)
	}
}

// skip checks a policy with Skip. The policy must have a match. Settings that have no effect with
// Skip are mistakes.
func (c *compiler) skip(key string, from *Policy) {
	if from.Match == nil {
		c.mistake(key, "skips every request; want a match")
	}
	for _, field := range []struct {
		key string
		set bool
	}{
		{"identity", from.Identity != nil},
		{"per", from.Per != nil},
		{"limits", from.Limits != nil || from.TierLimits != nil},
		{"budget", from.Budget != nil || from.TierBudget != nil},
		{"notify", from.Notify != nil},
		{"cost", from.Cost != nil},
		{"costs", from.Costs != nil},
		{"hold", from.Hold != 0},
		{"usage", from.Usage != nil},
		{"settle", from.settles()},
		{"refund", from.Refund != nil},
		{"request_id", from.RequestID != "" || from.RequestIDLife != 0 || from.RequestIDDerive != 0},
		{"shadow", from.Shadow},
		{"rollout", from.Rollout != nil},
		{"failure", from.Failure != nil},
		{"contact", from.Contact != ""},
	} {
		if field.set {
			c.mistake(key+"."+field.key, "has no effect in a policy with skip")
		}
	}
}

func (c *compiler) policyRules(key string, from *Policy, p *policy) {
	c.tierLimits(key+".limits", from.Limits, from.TierLimits)
	c.tierLimits(key+".budget", from.Budget, from.TierBudget)
	c.notify(key+".notify", from.Notify, slices.Concat(slices.Collect(maps.Values(from.TierLimits))...),
		from.Limits, from.budgets())
	for _, t := range c.set.tiers {
		limits, costs, applies := from.LimitsFor(t.name)
		p.tiers = append(p.tiers, applies)
		like := Rule{Policy: from.Name, Tier: t.name, Contact: cmp.Or(from.Contact, t.contact), Notify: from.Notify,
			unit: &p.unit}
		r := c.rules(key, like, limits, costs)
		p.rules = append(p.rules, r)
		c.noClash(key, p, r, t)
	}
	c.deriveOK(key+".request_id.derive", p)
	if !from.limited() && p.cost == nil && p.costs == nil && p.hold == 0 && from.Usage == nil && p.after == nil &&
		p.id == nil && p.failure == nil {
		c.namesRoute(key, p)
	}
	if !from.limited() && (from.Shadow || from.Rollout != nil || len(from.Identity) > 0 || len(from.Per) > 0 ||
		from.Contact != "") {
		c.mistake(key, "has identity, per, shadow, rollout or contact, which apply only to limits, but no limits")
	}
}

// costs checks the costs of named limits. Each name must be the name of a limit in some budget of
// the set.
func (c *compiler) costs(key string, costs stint.Costs) {
	if len(costs) == 0 {
		return
	}
	var names []string
	c.budgetNames(func(_, name string) { names = append(names, name) })
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range sorted(costs) {
		c.inUnits(key+"."+name, costs[name])
		if !slices.Contains(names, name) {
			want := "want a budget with a name, as in " + name + ": 100000/1m"
			if len(names) > 0 {
				want = messages.Want(name, names)
			}
			c.mistake(key+"."+name, "no budget has a limit %q; %s", name, want)
		}
	}
}

// budgetNames calls the given function for each limit of each budget. It passes the budget's key
// and the limit's name, or costName if the limit has none.
func (c *compiler) budgetNames(found func(key, name string)) {
	look := func(key string, budget []Limit) {
		for i := range budget {
			found(key, cmp.Or(budget[i].Limit.Name, costName))
		}
	}
	for i := range c.spec.Tiers {
		look(fmt.Sprintf("tiers[%d].budget", i), c.spec.Tiers[i].Budget)
	}
	for i := range c.spec.Policies {
		look(fmt.Sprintf("policies[%d].budget", i), c.spec.Policies[i].budgets())
	}
}

func (c *compiler) hold(key string, hold time.Duration) {
	if hold == 0 {
		return
	}
	if hold < stint.MinWindow || hold > stint.MaxHold || hold%time.Microsecond != 0 {
		c.mistake(key, "%v; want whole microseconds from %v to %v", hold, stint.MinWindow, stint.MaxHold)
	}
}

// holdsApart checks that no two rules that apply to requests of one tier hold units under the same
// limit name, subject and scope. [Guard.Prepare] checks the requests to which the rules of several
// tiers apply.
func (c *compiler) holdsApart() {
	first := slices.IndexFunc(c.spec.Policies, func(p Policy) bool { return p.Hold != 0 })
	if first < 0 {
		return
	}
	apart := func(key, whose string, a, b []stint.Limit) {
		if name, ok := sharedName(a, b); ok {
			c.mistake(key, "%s both have the name %q, but policies[%d].hold holds units by name; give one of them another name, such as %q",
				whose, name, first, "other: "+a[0].String())
		}
	}
	for _, t := range c.set.tiers {
		if len(t.rules) > 1 {
			apart(fmt.Sprintf("tiers[%d].budget", t.index), "limits and budget", t.rules[1].Limits, t.rules[0].Limits)
		}
		for i := range c.spec.Policies {
			p := c.set.all[i]
			if p.skips {
				continue
			}
			key, own := fmt.Sprintf("policies[%d]", i), p.rules[t.index]
			if len(own) > 1 {
				apart(key+".budget", "limits and budget", own[1].Limits, own[0].Limits)
			}
			for _, a := range own {
				for _, b := range t.rules {
					if !p.countsAsTier(t) || sharesLimit(a.Limits, b.Limits) { // reported by noClash
						continue
					}
					apart(key+map[bool]string{true: ".budget", false: ".limits"}[a.Costs],
						fmt.Sprintf("a limit of the policy and one of the tier %q, which counts per route,", t.name), a.Limits, b.Limits)
				}
			}
		}
	}
}

func sharedName(a, b []stint.Limit) (string, bool) {
	for i := range a {
		for k := range b {
			if a[i].Name == b[k].Name {
				return a[i].Name, true
			}
		}
	}
	return "", false
}

// namesRoute checks a policy that has only a match. Such a policy is useful only if it names a
// route, and a tier or another policy counts by route.
func (c *compiler) namesRoute(key string, p *policy) {
	var given []string
	byRoute := false
	for i := range c.spec.Tiers {
		given = append(given, fmt.Sprintf("tiers[%d].scope", i))
		byRoute = byRoute || c.spec.Tiers[i].Scope == scopeRoute
	}
	for i := range c.spec.Policies {
		given = append(given, fmt.Sprintf("policies[%d].per", i))
		byRoute = byRoute || slices.Contains(c.spec.Policies[i].Per, scopeRoute)
	}
	if !byRoute || !p.when.isRoute() {
		c.mistakeGiven(given, key, "does nothing; want limits, a budget, a cost, costs, hold, usage, settle, refund, request_id, failure, or skip: true")
	}
}

// tierLimits checks the limits of a policy. The argument all holds the limits for all tiers, and
// byTier the limits for single tiers, by name. Only one of the two may be set.
func (c *compiler) tierLimits(key string, all []Limit, byTier map[string][]Limit) {
	c.claimed(key, all)
	if all != nil && byTier != nil {
		c.mistake(key, "has limits for all tiers and limits for each tier; want one or the other")
	}
	known, given := []string{defaultTier}, []string{"tiers[0].name"}
	for i, t := range c.set.tiers {
		known, given = append(known, t.name), append(given, fmt.Sprintf("tiers[%d].name", i))
	}
	for _, name := range sorted(byTier) {
		c.claimed(key+"."+name, byTier[name])
		if !slices.Contains(known, name) {
			c.mistakeGiven(given, key+"."+name, "unknown tier %q; %s", name, messages.Want(name, known))
		}
	}
}

// noClash checks that policy p does not share a count with tier t. It could if the tier counts per
// route and the policy is a route, because the policy's name is then the scope in which the tier
// counts the requests to this route.
func (c *compiler) noClash(key string, p *policy, rules []*Rule, t *tier) {
	if !p.countsAsTier(t) {
		return
	}
	for _, a := range rules {
		for _, b := range t.rules {
			if sharesLimit(a.Limits, b.Limits) {
				c.mistake(key+".limits", "has a limit with the same name, algorithm and window as one of the tier %q, "+
					"which counts per route, so both would share a count; give it a name, such as %q", t.name, p.name+": "+a.Limits[0].String())
			}
		}
	}
}

// countsAsTier reports whether p may count a subject in the same scope as t.
func (p *policy) countsAsTier(t *tier) bool {
	return t.scope == scopeRoute && len(p.per) == 0 && p.when != nil &&
		(p.who == nil || slices.ContainsFunc(p.who, func(id *identity) bool { return slices.Contains(t.who, id) }))
}

// deriveOK checks that no concurrency limit applies to the requests of a policy that derives ids.
// Equal requests share a charge, so they would also share a concurrency place, although each of
// them is executed.
func (c *compiler) deriveOK(key string, p *policy) {
	if p.id == nil || p.id.derive == 0 {
		return
	}
	for _, t := range c.set.tiers {
		if !p.tiers[t.index] {
			continue
		}
		for _, rule := range slices.Concat(p.rules[t.index], t.rules) {
			if i := slices.IndexFunc(rule.Limits, isConcurrency); i >= 0 {
				of := "the policy"
				if rule.Policy == "" {
					of = fmt.Sprintf("the tier %q", t.name)
				}
				c.mistake(key, "equal requests are charged once, so up to nine would share one place of %s of %s; "+
					"do not derive ids where a concurrency limit applies", rule.Limits[i], of)
				return
			}
		}
	}
}

// per checks the attributes by which a policy counts its requests separately.
func (c *compiler) per(key string, from *Policy) {
	for i, name := range from.Per {
		switch name {
		case "method":
			c.knowMethods(syntax.Methods[:]...)
		case "host":
			if from.Match == nil || len(from.Match.Host) == 0 {
				c.mistakeGiven([]string{strings.TrimSuffix(key, "per") + "match"}, at(key, i, from.Per),
					"clients can invent hosts; list the hosts to count in match.host")
			}
		case scopeRoute:
		default:
			c.variable(strings.TrimSuffix(key, "per")+"match", at(key, i, from.Per), from, name)
		}
	}
}

// variable checks that every path pattern of a policy has a variable with the given name. match is
// the key of the policy's match.
func (c *compiler) variable(match, key string, from *Policy, name string) {
	known := []string{"method", "host", "route"}
	if from.Match == nil || len(from.Match.Path) == 0 {
		c.mistakeGiven([]string{match}, key, "%q; want %s, or a variable of the path that is matched%s", name, messages.OneOf(known), messages.Hint(name, known))
		return
	}
	for _, text := range from.Match.Path {
		p, err := pathpattern.Parse(text)
		if err != nil {
			continue // already reported
		}
		names := p.Names()
		if !slices.Contains(names, name) {
			c.mistake(key, "the path %s has no variable {%s}; want one, or %s%s", text, name, messages.OneOf(known), messages.Hint(name, append(names, known...)))
		}
	}
}

func (c *compiler) cost(key string, from *Cost) *Cost {
	switch {
	case from == nil:
		return nil
	case from.Header == "":
		c.inUnits(key, from.Units)
		return from
	}
	cost := *from
	cost.Header = c.field(key+".header", from.Header)
	c.inUnits(key+".default", from.Units)
	c.inUnits(key+".min", from.Min)
	c.inUnits(key+".max", from.Max)
	switch {
	case from.Max == 0:
		c.mistake(key, "clients choose the value of the header %s; want a max", from.Header)
	case from.Min > from.Max:
		c.mistake(key, "min %d is above max %d", from.Min, from.Max)
	}
	return &cost
}

func (c *compiler) inUnits(key string, n int64) {
	if n < 0 || n > stint.MaxUnits {
		c.mistake(key, "%d; want 0 to %d", n, stint.MaxUnits)
	}
}

func (c *compiler) after(key string, from *Policy) *after {
	if !from.settles() && len(from.Refund) == 0 {
		return nil
	}
	for i, status := range from.Refund {
		if status < 1 || status > 5 && status < 100 || status > 599 {
			c.mistake(fmt.Sprintf("%s.refund[%d]", key, i), "%d; want a status such as 404, or a class such as 5", status)
		}
	}
	a := &after{refund: from.Refund, bytes: from.SettleBytes, maxDebt: from.MaxDebt}
	if !from.settles() {
		return a
	}
	if from.Usage == nil && (from.SettleHeader == "") == (from.SettleBytes == 0) {
		c.mistake(key+".settle", "want either header or bytes")
	}
	if from.SettleHeader != "" {
		a.header = c.field(key+".settle.header", from.SettleHeader)
	}
	if from.SettleBytes < 0 {
		c.mistake(key+".settle.bytes", "%d; want at least 1", from.SettleBytes)
	}
	if from.MaxDebt < 0 || from.MaxDebt > stint.MaxUnits {
		c.mistake(key+".settle.max_debt", "%d; want 1 to %d", from.MaxDebt, stint.MaxUnits)
	}
	if p := from.Cost; p != nil && (p.Units == 0 || p.Header != "" && p.Min == 0) {
		c.mistake(key+".cost", "a request that costs nothing is not charged, so it cannot be settled; want at least 1")
	}
	return a
}

// settles reports whether any setting under the key "settle" is set.
func (p *Policy) settles() bool { return p.SettleHeader != "" || p.SettleBytes != 0 || p.MaxDebt != 0 }
