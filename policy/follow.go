package policy

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tokens"
)

// Settlement is a correction of a request's charge after the response: either a refund of the
// charge or its replacement by the true cost. A guard sends it to its observer if the store did not
// apply it completely, or if it settled a hold.
type Settlement struct {
	// Verdict is the verdict on the request. It is nil if the verdict is not available.
	Verdict *Verdict
	// Rule is the first rule that the correction applies to. It is nil if there is none.
	Rule *Rule
	// Refund reports whether the correction is a refund of the whole charge. If it is false, Cost
	// is the true cost.
	Refund bool
	Cost   int64
	// Amended is the store's result. Its field Changed is false if the correction was not applied.
	// Its field Charged is less than Cost if charging the rest would exceed the maximum debt.
	Amended stint.Amended
	// Err is the store's error. If Err is nil but the correction was not applied, the store found
	// nothing to correct: the charge has left its windows, was reset or was corrected before, or
	// the refund is for a request that was repeated by ID.
	Err error
	// Hold is the request's [stint.Request.Hold], and Delay is the time from the charge to the
	// settlement of the hold. Both are 0 without a hold.
	Hold, Delay time.Duration
	// Estimated reports whether an estimate is charged because the response did not report its
	// usage as [Policy.Usage] requires.
	Estimated bool
	// Expired reports whether a heartbeat came too late to keep the hold. If so, nothing is
	// settled.
	Expired bool
}

// Event implements [stint.Event].
func (*Settlement) Event() {}

// SetHold sets Hold and Delay from the charge c. If c has no hold, it leaves Delay unchanged and
// sets Hold to 0.
func (s *Settlement) SetHold(c *stint.Charge) {
	if s.Hold = c.Data().Hold; s.Hold > 0 {
		s.Delay = max(0, time.Since(time.UnixMicro(c.Data().At)))
	}
}

// settleTime is the time limit for corrections after a response. If the store does not apply a
// correction in that time, the charge stays until its windows have passed or its hold expires.
const settleTime = time.Second

// Follow maintains the charge of an allowed request. While the request is served, Follow keeps the
// request's concurrency places and its hold. Afterwards, it gives back the places, settles budgets,
// and makes refunds. It returns nil if there is nothing to do. Otherwise the caller must call the
// returned function once, when the request has been served. That call takes at most three seconds,
// even if the store does not answer.
//
// A request loses its place if the store is unavailable for longer than a place lasts. It is served
// nevertheless: canceling it would let a store outage break requests in progress. When the store is
// available again, the guard takes the place back, so that no other request is admitted instead.
// The guard logs the loss.
//
// A repeat shares the charge of the original request, and the original request settles the charge.
// If the charge has a hold, the repeat keeps the hold open and reports its usage. If the process
// that served the original request has died, the store charges the reported usage when the hold
// expires.
func (g *Guard) Follow(ctx context.Context, v *Verdict) func(Outcome) {
	d := &v.Decision
	holds := v.holds()
	if !d.Allowed || (d.Charge.IsZero() || d.Repeat && !holds) && len(v.shadow) == 0 ||
		v.after == nil && !v.atLeast && !v.takesPlace() && !holds {
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
			// Refund before the release: a place that has been given back cannot be refunded, and
			// the store would keep the id of the request.
			g.refund(lasting, v)
			g.release(release)
			return
		}
		// Release and correct in parallel, because a client may be waiting for the end of the
		// response.
		var work sync.WaitGroup
		work.Go(func() { g.release(release) })
		if v.after != nil || v.atLeast || holds {
			g.correct(lasting, v, &o)
		}
		work.Wait()
	}
}

func (v *Verdict) holds() bool {
	return v.Decision.Charge.Data().Hold > 0 || slices.ContainsFunc(v.shadow, func(d stint.Decision) bool {
		return d.Charge.Data().Hold > 0
	})
}

// takesPlace reports whether an enforced limit of the request is a concurrency limit.
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

// release gives back a concurrency place by calling the given function, and logs its error.
func (g *Guard) release(place func() error) {
	if err := place(); err != nil {
		g.log.failed("a place could not be kept or given back", err)
	}
}

func (g *Guard) refund(ctx context.Context, v *Verdict) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	refund := &Settlement{Verdict: v, Refund: true}
	if v.enforced > 0 {
		refund.Rule = v.Results[0].Rule
	}
	g.settle(ctx, &v.Decision, refund, nil, allClaims(v.enforced))
	for i := range v.shadow {
		s := &Settlement{Verdict: v, Rule: v.Results[v.enforced+i].Rule, Refund: true}
		g.settle(ctx, &v.shadow[i], s, nil, []int{0})
	}
}

// correct changes the charge of a request to its true cost, if the response reports it. If
// v.atLeast is set, a true cost below the charge changes nothing. A hold is settled in any case: if
// the true cost is unknown, the estimate is charged.
func (g *Guard) correct(ctx context.Context, v *Verdict, o *Outcome) {
	cost, ok := v.truth(o)
	if !ok || v.atLeast && cost < v.Cost {
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
		g.settle(ctx, &v.Decision, s, v.truths(cost, budgets), budgets)
	}
	for i := range v.shadow {
		r := &v.Results[v.enforced+i]
		if r.Rule.Costs {
			g.settle(ctx, &v.shadow[i], &Settlement{Verdict: v, Rule: r.Rule, Cost: cost},
				v.truths(cost, []int{v.enforced + i}), []int{0})
		} else if holds && !r.onlyPlaces() {
			g.settle(ctx, &v.shadow[i], &Settlement{Verdict: v, Rule: r.Rule, Cost: 1}, nil, []int{0})
		}
	}
}

// truth returns the true cost of a request, and whether it is known. If tokens are counted, this is
// the sum of the weighted tokens. For budgets that count a single quantity, such as output tokens,
// see [Verdict.truths].
func (v *Verdict) truth(o *Outcome) (int64, bool) {
	if v.usage == nil {
		return v.after.truth(o)
	}
	v.measure(o)
	return v.usage.Units(v.used, costName), true
}

// budgets returns the indexes of the enforced results that are charged the cost of the request.
func (v *Verdict) budgets() []int {
	var claims []int
	for i := range v.Results[:v.enforced] {
		if v.Results[i].Rule.Costs {
			claims = append(claims, i)
		}
	}
	return claims
}

// onlyPlaces reports whether all limits are concurrency limits, which hold no units.
func (r *Result) onlyPlaces() bool {
	return !slices.ContainsFunc(r.Limits, func(l stint.Limit) bool { return l.Algorithm != stint.AlgorithmConcurrency })
}

// truths returns the result of [Verdict.costsOf] for the tokens in v.used. If no limit has a cost
// of its own, it returns nil, because cost is then the true cost for every limit.
func (v *Verdict) truths(cost int64, results []int) stint.Costs {
	if !slices.ContainsFunc(results, func(i int) bool { return v.Results[i].Costs != nil }) {
		return nil
	}
	return v.costsOf(cost, results, v.used)
}

// costsOf returns the true costs by limit name for the results with the given indexes. For a limit
// with a cost of its own, this is the result of [Verdict.truthOf]. For all other limits, it is the
// true cost of the request, which the caller passes as cost.
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

// truthOf returns the true cost for a limit that was charged a cost of its own. This is the charged
// cost or, if that was an estimate, the cost of the tokens in used.
func (v *Verdict) truthOf(name string, charged int64, used tokens.Counts) int64 {
	if _, fixed := v.fixed[name]; v.usage == nil || fixed {
		return charged
	}
	truth := v.usage.Units(used, name)
	if v.atLeast {
		truth = max(truth, charged)
	}
	return truth
}

// settle corrects the charge of a decision for the claims with the given indexes. It sets the
// charge of each limit to s.Cost or, if costs is not nil, to the limit's cost in costs. If the
// store cannot correct the charge, the charge stays until its windows have passed or its hold
// expires. If charging the true cost would exceed the maximum debt, the store charges only part of
// it. In both cases, settle logs the correction and sends it to the observer. It also sends the
// settlement of a hold to the observer.
func (g *Guard) settle(ctx context.Context, d *stint.Decision, s *Settlement, costs stint.Costs, which []int) {
	if d.Charge.IsZero() || d.Repeat {
		return // nothing was charged
	}
	amendment := stint.Amendment{Kind: stint.AmendSettle, Cost: s.Cost, Costs: costs}
	if costs != nil {
		amendment.Cost, s.Cost = 0, contract.Total(&amendment)
	}
	if s.Verdict.after != nil {
		amendment.MaxDebt = s.Verdict.after.maxDebt
	}
	s.Amended, s.Err = contract.SettleOnce(d.Charge, which, amendment,
		func(part stint.Charge, a stint.Amendment) (stint.Amended, error) { return g.store.Amend(ctx, part, a) })
	if !s.Verdict.reported { // a hold in shadow ends together with the enforced one
		s.SetHold(&d.Charge)
		s.Verdict.reported = s.Hold > 0
		s.Estimated = s.Verdict.unsaid
	}
	whole := s.Err == nil && s.Amended.Changed && s.Amended.Charged >= s.Cost
	if whole && s.Hold == 0 {
		return
	}
	if !whole {
		g.log.unsettled(&d.Charge, s)
	}
	if g.observer != nil {
		g.observer.Observe(ctx, s)
	}
}

func allClaims(n int) (claims []int) {
	for i := range n {
		claims = append(claims, i)
	}
	return claims
}

// after describes the corrections to make after a response.
type after struct {
	header  string // response header with the true cost
	bytes   int64  // bytes of response body per unit
	maxDebt int64  // maximum debt after settling; 0 means the capacity of each limit
	refund  []int  // statuses or status classes after which the charge is refunded
}

// join returns the corrections for a request with two readings whose corrections differ. It refunds
// nothing, because the readings do not agree. It settles to the true cost if either reading does:
// otherwise a client could avoid the true cost with another spelling of the request. If the
// readings determine the true cost in different ways, the receiver's way applies.
func (a *after) join(other *after) *after {
	if !a.settles() {
		a = other
	}
	if !a.settles() {
		return nil
	}
	joined := *a
	joined.refund = nil
	return &joined
}

// truth returns the true cost of a request, and whether the outcome reports it.
func (a *after) truth(o *Outcome) (int64, bool) {
	if a == nil {
		return 0, false
	}
	if a.header != "" {
		n, err := strconv.ParseInt(strings.TrimSpace(o.Cost), 10, 64)
		return min(n, stint.MaxUnits), err == nil && n >= 0
	}
	if a.bytes > 0 {
		return (o.Bytes + a.bytes - 1) / a.bytes, true
	}
	return 0, false
}

// settles reports whether the response determines the true cost.
func (a *after) settles() bool { return a != nil && (a.header != "" || a.bytes > 0) }

// refunds reports whether a response with this status refunds the charge. [syntax.StatusClientGone]
// belongs to no class: "4xx" gives nothing back to a client that disconnects.
func (a *after) refunds(status int) bool {
	return slices.Contains(a.refund, status) || status != syntax.StatusClientGone &&
		slices.Contains(a.refund, status/100)
}
