package policy

import (
	"context"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/tokens"
)

// startReports starts reporting the usage of a response in progress. It returns nil if there is
// nothing to report.
func (g *Guard) startReports(ctx context.Context, v *Verdict) *tokens.Reports {
	hold := v.Decision.Charge.Data().Hold
	if v.known != nil || v.Meter() == nil || hold == 0 {
		return nil
	}
	return tokens.StartReports(ctx, g.store, hold, func() (stint.Charge, stint.Amendment) {
		used := v.meter.SoFar()
		used.Model = v.estimated.Model
		return v.report(used, v.usage.Units(used, costName))
	})
}

// report returns the charge of the rules that count costs, and a heartbeat for it. The heartbeat
// reports the usage so far: the tokens in used, and the request's cost.
func (v *Verdict) report(used tokens.Counts, cost int64) (stint.Charge, stint.Amendment) {
	budgets := v.budgets()
	a := stint.Amendment{Kind: stint.AmendExtend, Costs: v.costsOf(cost, budgets, used), KnownOnly: true}
	if v.after != nil {
		a.MaxDebt = v.after.maxDebt
	}
	return v.Decision.Charge.Part(budgets...), a
}

// reportRepeat reports the usage of a repeat, if it is known. The original request settles the
// charge.
func (g *Guard) reportRepeat(ctx context.Context, v *Verdict, o *Outcome) {
	cost, ok := v.truth(o)
	if !ok || v.after != nil && v.after.refunds(o.Status) {
		return
	}
	c, a := v.report(v.used, cost)
	if c.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if _, err := g.store.Amend(ctx, c, a); err != nil {
		g.log.failed("the usage of a repeat could not be charged", err)
	}
}
