package config

import (
	"maps"
	"slices"
	"time"

	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/internal/tokens"
	"github.com/stint-limiter/stint/policy"
)

const (
	// leastPrice is the minimum price of a million tokens in a unit that is fine enough: with a
	// lower price, a request of a thousand tokens costs less than one unit.
	leastPrice = 1000
	// leastHold is the minimum hold of a request that counts tokens: a pause of the process or of
	// the store must not end it.
	leastHold = 10 * time.Second
)

// oddUsage warns of prices in units that are too coarse, and of a hold that is too short.
func (c *compiler) oddUsage(key string, p *policy.Policy) {
	if p.Usage == nil {
		return
	}
	for _, model := range slices.Sorted(maps.Keys(p.Usage.Prices)) {
		price := p.Usage.Prices[model]
		if most := max(price.Input, price.Output); most > 0 && most < leastPrice {
			c.warn(key+".usage.prices."+model, "a million tokens cost at most %d, so that most requests cost 1, rounded up; "+
				"prices are per million tokens in units of the budget: 2500000 for 2.50 dollars, if 1 is a millionth of a dollar",
				most)
		}
	}
	if p.Hold > 0 && p.Hold < leastHold {
		c.warn(key+".hold", "%v: if the process or the store pauses for longer, the estimates of responses under way are "+
			"given back; want %v or more, such as 5m", p.Hold, leastHold)
	}
}

// quantities are the names of budgets that count one quantity.
var quantities = []string{tokens.InputName, tokens.OutputName, tokens.CachedName, tokens.PriceName}

// oddQuantities warns of budgets whose names are almost the name of a quantity: they count all
// tokens.
func (c *compiler) oddQuantities() {
	if !slices.ContainsFunc(c.spec.Policies, func(p policy.Policy) bool { return p.Usage != nil }) {
		return
	}
	look := func(key string, budget []policy.Limit) {
		for i := range budget {
			name := budget[i].Limit.Name
			if near, ok := nearest.To(name, quantities); ok && near != name {
				c.warn(at(key, i, budget), "%q counts all tokens%s", name, nearest.Hint(name, quantities))
			}
		}
	}
	for i := range c.spec.Tiers {
		look(item("tiers", i)+".budget", c.spec.Tiers[i].Budget)
	}
	for i := range c.spec.Policies {
		look(item("policies", i)+".budget", c.spec.Policies[i].Budget)
		for _, tier := range slices.Sorted(maps.Keys(c.spec.Policies[i].TierBudget)) {
			look(item("policies", i)+".budget."+tier, c.spec.Policies[i].TierBudget[tier])
		}
	}
}
