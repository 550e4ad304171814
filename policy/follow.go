package policy

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
)

// settleTime is how long it is worth waiting for the store after a response: what is not given back expires
// by itself.
const settleTime = time.Second

// Follow sees to what a request that was allowed needs while it is being served, and afterwards: it keeps its
// place under concurrency limits, gives it back in the end, settles budgets and refunds. The caller calls what it
// returns once, when the request has been served. It is nil if there is nothing to see to.
func (g *Guard) Follow(ctx context.Context, v *Verdict) func(Outcome) {
	d := &v.Decision
	if !d.Allowed || d.Charge.ID == 0 {
		return nil
	}
	release := stint.Hold(ctx, g.store, d.Charge)
	if v.after == nil && release == nil {
		return nil
	}
	lasting := context.WithoutCancel(ctx)
	return func(o Outcome) {
		if release != nil {
			if err := release(); err != nil {
				g.log.failed("a place could not be kept or given back", err)
			}
		}
		if v.after != nil {
			g.conclude(lasting, v, o)
		}
	}
}

// conclude corrects what a request was charged by what became of it.
func (g *Guard) conclude(ctx context.Context, v *Verdict, o Outcome) {
	if v.after.refunds(o.Status) {
		g.settle(ctx, v.Decision.Charge, 0)
		return
	}
	if cost, ok := v.after.truth(&o); ok && cost != v.Cost {
		if part := v.Decision.Charge.Part(v.budgets()...); part.ID != 0 {
			g.settle(ctx, part, cost)
		}
	}
}

// budgets returns which of the request's claims are charged its cost.
func (v *Verdict) budgets() []int {
	var claims []int
	for i, r := range v.rules {
		if r.Costs {
			claims = append(claims, i)
		}
	}
	return claims
}

func (g *Guard) settle(ctx context.Context, c stint.Charge, cost int64) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if _, err := g.store.Amend(ctx, c, stint.Amendment{Kind: stint.Settle, Cost: cost}); err != nil {
		g.log.failed("a charge could not be corrected", err)
	}
}
