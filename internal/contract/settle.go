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
	if c.Data().Hold > 0 && !others.IsZero() {
		done, err = amend(others, stint.Amendment{Kind: stint.AmendSettle, Cost: 1})
	}
	if err != nil || priced.IsZero() {
		return done, err
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
