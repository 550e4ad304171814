package policy

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/tokens"
)

// settleTime is how long it is worth waiting for the store after a response: what is not given back
// expires by itself.
const settleTime = time.Second

// Follow sees to what a request that was allowed needs while it is being served, and afterwards: it
// keeps its place under concurrency limits and its hold, gives the place back in the end, settles
// budgets and refunds.
// The caller calls what it returns once, when the request has been served; it takes a second at
// most, and a second more for each of a place and of what is refunded before that. It is nil if
// there is nothing to see to.
//
// A request whose place is lost, because the store is away for longer than a place lasts, is served
// to its end: to cancel it would let an outage of the store break what is under way. Its place is
// taken back as soon as the store is back, so that nobody else is admitted instead, and the loss is
// logged.
//
// A repeat has the charge of the first request, which settles it. If that has a hold, the repeat
// keeps it open, and reports what it has used: should the process of the first request have died,
// what was reported is charged when the hold expires.
func (g *Guard) Follow(ctx context.Context, v *Verdict) func(Outcome) {
	d := &v.Decision
	holds := v.holds()
	if !d.Allowed || (d.Charge.IsZero() || d.Repeat && !holds) && len(v.shadow) == 0 ||
		v.after == nil && !v.takesPlace() && !holds {
		return nil
	}
	_, release := g.limiter.Hold(ctx, *d)
	lasting := context.WithoutCancel(ctx)
	reports := g.startReports(lasting, v)
	return func(o Outcome) {
		reports.Stop()
		if d.Repeat {
			g.release(release)
			g.reportRepeat(lasting, v, &o)
			return
		}
		if v.after != nil && v.after.refunds(o.Status) {
			// One after the other: what has been given back cannot be refunded any more, and its
			// request id would stay.
			g.refund(lasting, v)
			g.release(release)
			return
		}
		var work sync.WaitGroup // at the same time, for somebody may be waiting for the end of the response
		work.Go(func() { g.release(release) })
		if v.after != nil || holds {
			g.correct(lasting, v, &o)
		}
		work.Wait()
	}
}

// holds reports whether anything is held.
func (v *Verdict) holds() bool {
	return v.Decision.Charge.Data().Hold > 0 || slices.ContainsFunc(v.shadow, func(d stint.Decision) bool {
		return d.Charge.Data().Hold > 0
	})
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
	g.settle(ctx, &v.Decision, v.Decision.Charge, refund, nil, allClaims(v.enforced))
	for i := range v.shadow {
		g.settle(ctx, &v.shadow[i], v.shadow[i].Charge, &Settlement{Verdict: v, Rule: v.Results[v.enforced+i].Rule,
			Refund: true}, nil, []int{0})
	}
}

// correct charges a request its true cost, if its response has it. What was held is charged in any
// case: without a true cost the estimate.
func (g *Guard) correct(ctx context.Context, v *Verdict, o *Outcome) {
	cost, ok := v.truth(o)
	if !ok || v.after != nil && v.after.atLeast && cost < v.Cost {
		cost = v.Cost
	}
	holds := v.holds()
	if cost == v.Cost && !holds {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	counted := func(r Result) bool { return !r.onlyPlaces() }
	if budgets := v.budgets(); len(budgets) > 0 || holds && slices.ContainsFunc(v.Results[:v.enforced], counted) {
		s := &Settlement{Verdict: v, Rule: v.Results[0].Rule, Cost: 1}
		if len(budgets) > 0 {
			s.Rule, s.Cost = v.Results[budgets[0]].Rule, cost
		}
		g.settle(ctx, &v.Decision, v.Decision.Charge, s, v.truths(cost, budgets), budgets)
	}
	for i := range v.shadow {
		r := &v.Results[v.enforced+i]
		if r.Rule.Costs {
			g.settle(ctx, &v.shadow[i], v.shadow[i].Charge, &Settlement{Verdict: v, Rule: r.Rule, Cost: cost},
				v.truths(cost, []int{v.enforced + i}), []int{0})
		} else if holds && !r.onlyPlaces() {
			g.settle(ctx, &v.shadow[i], v.shadow[i].Charge, &Settlement{Verdict: v, Rule: r.Rule, Cost: 1},
				nil, []int{0})
		}
	}
}

// truth returns the true cost of a request, in units of budgets without a quantity of their own,
// and whether it is known.
func (v *Verdict) truth(o *Outcome) (int64, bool) {
	if v.usage == nil {
		return v.after.truth(o)
	}
	v.measure(o)
	return v.usage.Units(v.used, costName), true
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

// onlyPlaces reports whether all limits are concurrency limits, under which nothing is held.
func (r *Result) onlyPlaces() bool {
	return !slices.ContainsFunc(r.Limits, func(l stint.Limit) bool { return l.Algorithm != stint.AlgorithmConcurrency })
}

// truths returns the true costs of some results by the names of their limits: quantities that have
// a cost of their own keep it, and all others cost as much as the response says. It is nil if all
// cost the same.
func (v *Verdict) truths(cost int64, results []int) stint.Costs {
	named := false
	for _, i := range results {
		named = named || v.Results[i].Costs != nil
	}
	if !named {
		return nil
	}
	return v.costsOf(cost, results, v.used)
}

// costsOf returns the true costs of some results by the names of their limits, given what was used.
func (v *Verdict) costsOf(cost int64, results []int, used tokens.Counts) stint.Costs {
	costs := stint.Costs{}
	for _, i := range results {
		r := &v.Results[i]
		for k := range r.Limits {
			name := r.Limits[k].Name
			costs[name] = cost
			if own, ok := r.Costs[name]; ok {
				costs[name] = v.truthOf(name, own, used)
			}
		}
	}
	return costs
}

// truthOf returns the true cost of a quantity that was charged a cost of its own, given what was
// used: it stays, unless it was an estimate.
func (v *Verdict) truthOf(name string, charged int64, used tokens.Counts) int64 {
	if _, fixed := v.fixed[name]; v.usage == nil || fixed {
		return charged
	}
	truth := v.usage.Units(used, name)
	if v.after != nil && v.after.atLeast {
		truth = max(truth, charged)
	}
	return truth
}

// settle corrects a charge: the claims by number in which to the settlement's cost, or to costs by
// the names of limits. What is not corrected stays charged as it was, for as long as its windows
// last, and a cost may be too large a debt to be charged wholly: both are logged, and the observer
// receives them.
func (g *Guard) settle(ctx context.Context, d *stint.Decision, c stint.Charge, s *Settlement, costs stint.Costs,
	which []int) {
	if c.IsZero() || d.Repeat {
		return // nothing was charged
	}
	amendment := stint.Amendment{Kind: stint.AmendSettle, Cost: s.Cost, Costs: costs}
	if costs != nil {
		amendment.Cost, s.Cost = 0, 0
		for _, cost := range costs {
			s.Cost += cost
		}
	}
	if s.Verdict.after != nil {
		amendment.MaxDebt = s.Verdict.after.maxDebt
	}
	s.Amended, s.Err = contract.SettleOnce(c, which, amendment,
		func(part stint.Charge, a stint.Amendment) (stint.Amended, error) { return g.store.Amend(ctx, part, a) })
	if s.Refund || s.Rule.Costs { // so that each request is counted once
		s.SetHold(&c)
		s.Estimated = s.Verdict.unsaid && d == &s.Verdict.Decision
	}
	whole := s.Err == nil && s.Amended.Changed && s.Amended.Charged >= s.Cost
	if whole && s.Hold == 0 {
		return
	}
	if !whole {
		g.log.unsettled(&c, s)
	}
	if g.observer != nil {
		g.observer.Observe(ctx, s)
	}
}

// allClaims returns the numbers of so many claims.
func allClaims(n int) (claims []int) {
	for i := range n {
		claims = append(claims, i)
	}
	return claims
}

// SetHold notes the hold of a charge, if it has one, and how long ago that was charged.
func (s *Settlement) SetHold(c *stint.Charge) {
	if s.Hold = c.Data().Hold; s.Hold > 0 {
		s.Delay = max(0, time.Since(time.UnixMicro(c.Data().At)))
	}
}
