package policy

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/tokens"
)

// reportEvery is how often what a response has used so far is looked at.
const reportEvery = 10 * time.Second

// reports tell the store what a response has used so far, while it lasts. Others are then denied by
// what it uses beyond its estimate, and not only when it ends; and if this process dies, what was
// reported is charged.
type reports struct {
	guard *Guard
	ctx   context.Context
	every time.Duration // a report is due, even if what was used is below the estimate

	mu    sync.Mutex
	v     *Verdict // nil when the response has ended
	timer *time.Timer
	sent  stint.Costs // the last report
	at    time.Time   // of it
}

// startReports begins to report what the response to a request uses. The result is nil if there is
// nothing to report.
func (g *Guard) startReports(ctx context.Context, v *Verdict) *reports {
	hold := v.Decision.Charge.Data().Hold
	if v.Meter() == nil || hold == 0 {
		return nil
	}
	r := &reports{guard: g, ctx: ctx, every: hold / 3, v: v, at: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(min(reportEvery, r.every), r.look)
	return r
}

// stop ends the reports. The verdict is the caller's again.
func (r *reports) stop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.v = nil
	r.timer.Stop()
}

// look sends a report if what was used is more than is charged, or if one is due.
func (r *reports) look() {
	r.mu.Lock()
	if r.v == nil {
		r.mu.Unlock()
		return
	}
	used := r.v.meter.SoFar()
	used.Model = r.v.estimated.Model
	c, a := r.v.report(used, r.v.usage.Units(used, costName))
	send := r.news(&c, a.Costs)
	r.mu.Unlock()

	var err error
	if send {
		ctx, cancel := context.WithTimeout(r.ctx, settleTime)
		_, err = r.guard.store.Amend(ctx, c, a)
		cancel()
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if send && err == nil {
		r.sent, r.at = a.Costs, time.Now()
	}
	if r.v != nil {
		r.timer.Reset(min(reportEvery, r.every))
	}
}

// news reports whether there is something to report: more than is charged or, when a report is due,
// than was reported.
func (r *reports) news(c *stint.Charge, costs stint.Costs) bool {
	due := time.Since(r.at) >= r.every
	claims := c.Claims()
	for i := range claims {
		for k := range claims[i].Limits {
			l := &claims[i].Limits[k]
			total, sent := costs[l.Name], r.sent[l.Name]
			if total > sent && (due || total > claims[i].CostOf(l)) {
				return true
			}
		}
	}
	return false
}

// report returns the part of the charge that counts costs, and the amendment that charges what was
// used so far.
func (v *Verdict) report(used tokens.Counts, cost int64) (stint.Charge, stint.Amendment) {
	budgets := v.budgets()
	a := stint.Amendment{Kind: stint.AmendExtend, Costs: stint.Costs{}, KnownOnly: true}
	if v.after != nil {
		a.MaxDebt = v.after.maxDebt
	}
	for _, i := range budgets {
		r := &v.Results[i]
		for k := range r.Limits {
			name := r.Limits[k].Name
			if own, ok := r.Costs[name]; !ok {
				a.Costs[name] = cost
			} else {
				a.Costs[name] = v.truthOf(name, own, used)
			}
		}
	}
	return v.Decision.Charge.Part(budgets...), a
}

// reportRepeat reports what a repeat has used, if that is known. The first request settles the
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
		g.log.failed("what a repeat has used could not be charged", err)
	}
}
