package contract

import (
	"slices"

	"github.com/stint-limiter/stint"
)

// Settle settles a charge. It applies the amendment a to the claims that count the cost of a
// request; costs has their indexes. The other claims count requests, one unit for each. If the
// charge has a hold, their units are held too, so Settle settles these claims at a cost of 1.
func Settle(c stint.Charge, costs []int, a stint.Amendment,
	amend func(stint.Charge, stint.Amendment) (stint.Amended, error)) (done stint.Amended, err error) {
	priced, others := c.Part(costs...), c.Part(requestClaims(&c, costs)...)
	if c.Data().Hold > 0 && !others.IsZero() {
		done, err = amend(others, stint.Amendment{Kind: stint.AmendSettle, Cost: 1})
	}
	if err != nil || priced.IsZero() {
		return done, err
	}
	return amend(priced, a)
}

// SettleOnce settles like Settle, but in one call if the limits that count requests have different
// names from those that count costs. Use it only if no part of the charge was settled before:
// otherwise, Charged in the result may be wrong.
func SettleOnce(c stint.Charge, costs []int, a stint.Amendment,
	amend func(stint.Charge, stint.Amendment) (stint.Amended, error)) (stint.Amended, error) {
	requests := requestClaims(&c, costs)
	if c.Data().Hold == 0 || len(requests) == 0 || len(costs) == 0 {
		return Settle(c, costs, a, amend)
	}
	all := a
	all.Cost, all.Costs = 0, stint.Costs{}
	for _, i := range costs {
		for _, l := range c.Claims()[i].Limits {
			if total, ok := TotalOf(&a, l.Name); ok {
				all.Costs[l.Name] = total
			}
		}
	}
	var names []string
	for _, i := range requests {
		names = StateNames(&c.Claims()[i], names)
	}
	for _, name := range names {
		if _, ok := all.Costs[name]; ok {
			return Settle(c, costs, a, amend)
		}
	}
	for _, name := range names {
		all.Costs[name] = 1
	}
	done, err := amend(c.Part(slices.Concat(costs, requests)...), all)
	done.Charged = max(0, done.Charged-Total(&all)+Total(&a))
	return done, err
}

// requestClaims returns the indexes of the claims that are not in costs and have a state.
func requestClaims(c *stint.Charge, costs []int) (claims []int) {
	for i, claim := range c.Claims() {
		if !slices.Contains(costs, i) && len(StateNames(&claim, nil)) > 0 {
			claims = append(claims, i)
		}
	}
	return claims
}

// Totals adds up the true costs of a settlement, over the names of the limits to which it applied.
// If the settlement has a single true cost for all names, Totals counts it once. The zero Totals is
// empty.
type Totals struct {
	Sum   int64
	named stint.Costs
}

// Add adds the true cost of a name. It counts each name once, with its largest true cost.
func (t *Totals) Add(a *stint.Amendment, name string, total int64) {
	if a.Costs == nil {
		t.Sum = max(t.Sum, total)
		return
	}
	if t.named == nil {
		t.named = stint.Costs{}
	}
	before := t.named[name]
	t.named[name] = max(before, total)
	t.Sum += t.named[name] - before
}
