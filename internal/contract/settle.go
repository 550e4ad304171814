package contract

import (
	"slices"

	"github.com/stint-limiter/stint"
)

// Settle settles a charge whose claims by number in costs count what a request costs, while the
// others count requests. Of a charge with a hold it settles these to one, for they are held, too.
func Settle(c stint.Charge, costs []int, a stint.Amendment,
	amend func(stint.Charge, stint.Amendment) (stint.Amended, error)) (done stint.Amended, err error) {
	priced, others := c.Part(costs...), c.Part(requestClaims(&c, costs)...)
	one := stint.Amendment{Kind: stint.AmendSettle, Cost: 1}
	switch {
	case c.Data().Hold == 0 || others.IsZero():
	case priced.IsZero():
		return amend(others, one)
	case c.Data().Fallback:
		// A process that decides without the store settles a charge once, as a whole.
		if all, ok := united(&priced, &others, &a); ok {
			if done, err = amend(c, all); done.Changed {
				done.Charged = Total(&a) - max(0, Total(&all)-done.Charged)
			}
			return done, err
		}
	default:
		if done, err = amend(others, one); err != nil {
			return done, err
		}
	}
	if priced.IsZero() {
		return stint.Amended{}, nil
	}
	return amend(priced, a)
}

// requestClaims returns the claims that are not among some by number, and that hold anything.
func requestClaims(c *stint.Charge, costs []int) (claims []int) {
	for i, claim := range c.Claims() {
		if !slices.Contains(costs, i) && len(StateNames(&claim, nil)) > 0 {
			claims = append(claims, i)
		}
	}
	return claims
}

// united returns an amendment of both parts of a charge by the names of their limits. It reports
// false if they share one.
func united(priced, others *stint.Charge, a *stint.Amendment) (all stint.Amendment, ok bool) {
	all = *a
	all.Cost, all.Costs = 0, stint.Costs{}
	for _, claim := range priced.Claims() {
		for _, name := range StateNames(&claim, nil) {
			if cost, named := TotalOf(a, name); named {
				all.Costs[name] = cost
			}
		}
	}
	for _, claim := range others.Claims() {
		for _, name := range StateNames(&claim, nil) {
			for _, other := range priced.Claims() {
				if slices.Contains(StateNames(&other, nil), name) {
					return all, false
				}
			}
			all.Costs[name] = 1
		}
	}
	return all, true
}
