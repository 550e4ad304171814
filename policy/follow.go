package policy

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// settleTime is how long it is worth waiting for the store after a response: what is not given back
// expires by itself.
const settleTime = time.Second

// Follow sees to what a request that was allowed needs while it is being served, and afterwards: it
// keeps its place under concurrency limits, gives it back in the end, settles budgets and refunds.
// The caller calls what it returns once, when the request has been served; it takes a second at
// most, and a second more for each of a place and of what is refunded before that. It is nil if
// there is nothing to see to.
//
// A request whose place is lost, because the store is away for longer than a place lasts, is served
// to its end: to cancel it would let an outage of the store break what is under way. Its place is
// taken back as soon as the store is back, so that nobody else is admitted instead, and the loss is
// logged.
//
// A repeat has the charge of the first request, which sees to it: there is nothing to do for it.
func (g *Guard) Follow(ctx context.Context, v *Verdict) func(Outcome) {
	d := &v.Decision
	if !d.Allowed || (d.Charge.IsZero() || d.Repeat) && len(v.shadow) == 0 || v.after == nil && !v.takesPlace() {
		return nil
	}
	_, release := g.limiter.Hold(ctx, *d)
	lasting := context.WithoutCancel(ctx)
	return func(o Outcome) {
		if v.after != nil && v.after.refunds(o.Status) {
			// One after the other: what has been given back cannot be refunded any more, and its
			// request id would stay.
			g.refund(lasting, v)
			g.release(release)
			return
		}
		var work sync.WaitGroup // at the same time, for somebody may be waiting for the end of the response
		work.Go(func() { g.release(release) })
		if v.after != nil {
			g.correct(lasting, v, &o)
		}
		work.Wait()
	}
}

// takesPlace reports whether a concurrency limit is enforced.
func (v *Verdict) takesPlace() bool {
	for i := range v.Results[:v.enforced] {
		for k := range v.Results[i].Limits {
			if v.Results[i].Limits[k].Algorithm == stint.AlgorithmConcurrency {
				return true
			}
		}
	}
	return false
}

// release gives a place back.
func (g *Guard) release(place func() error) {
	if err := place(); err != nil {
		g.log.failed("a place could not be kept or given back", err)
	}
}

// refund takes back all that a request was charged.
func (g *Guard) refund(ctx context.Context, v *Verdict) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	refund := &Settlement{Verdict: v, Refund: true}
	if v.enforced > 0 {
		refund.Rule = v.Results[0].Rule
	}
	g.settle(ctx, &v.Decision, v.Decision.Charge, refund)
	for i := range v.shadow {
		g.settle(ctx, &v.shadow[i], v.shadow[i].Charge, &Settlement{Verdict: v, Rule: v.Results[v.enforced+i].Rule,
			Refund: true})
	}
}

// correct charges a request its true cost, if its response has it.
func (g *Guard) correct(ctx context.Context, v *Verdict, o *Outcome) {
	cost, ok := v.after.truth(o)
	if !ok || cost == v.Cost || v.after.atLeast && cost < v.Cost {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if claims := v.budgets(); len(claims) > 0 {
		g.settle(ctx, &v.Decision, v.Decision.Charge.Part(claims...),
			&Settlement{Verdict: v, Rule: v.Results[claims[0]].Rule, Cost: cost})
	}
	for i := range v.shadow {
		if rule := v.Results[v.enforced+i].Rule; rule.Costs {
			g.settle(ctx, &v.shadow[i], v.shadow[i].Charge, &Settlement{Verdict: v, Rule: rule, Cost: cost})
		}
	}
}

// budgets returns which of the request's claims are charged its cost.
func (v *Verdict) budgets() []int {
	var claims []int
	for i := range v.Results[:v.enforced] {
		if v.Results[i].Rule.Costs {
			claims = append(claims, i)
		}
	}
	return claims
}

// settle corrects a charge. What is not corrected stays charged as it was, for as long as its
// windows last, and a cost may be too large a debt to be charged wholly: both are logged, and the
// observer receives them.
func (g *Guard) settle(ctx context.Context, d *stint.Decision, c stint.Charge, s *Settlement) {
	if c.IsZero() || d.Repeat {
		return // nothing was charged
	}
	amendment := stint.Amendment{Kind: stint.AmendSettle, Cost: s.Cost, MaxDebt: s.Verdict.after.maxDebt}
	if s.Amended, s.Err = g.store.Amend(ctx, c, amendment); s.Err == nil && s.Amended.Changed &&
		s.Amended.Charged >= s.Cost {
		return
	}
	g.log.unsettled(&c, s)
	if g.observer != nil {
		g.observer.Observe(ctx, s)
	}
}
