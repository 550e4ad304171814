package simulate

import (
	"context"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// measured is what is measured of a rule.
type measured struct {
	windows []*window
	limits  map[uint][]stint.Limit // by which windows are over; see limitsFor
}

// idle takes the place of limits where there is nothing to measure.
var idle = []stint.Limit{stint.Per(largestMax, time.Minute)}

// limitsFor returns the limits that measure a subject with such needs: the large one of each window, and then the exact
// ones of those that are not over.
func (m *measured) limitsFor(list []need) []stint.Limit {
	if len(m.windows) == 0 {
		return idle
	}
	over := uint(0)
	for i := range list {
		if list[i].over {
			over |= 1 << i
		}
	}
	if limits, ok := m.limits[over]; ok {
		return limits
	}
	var limits []stint.Limit
	for _, w := range m.windows {
		limits = append(limits, w.largeLimit)
	}
	for i, w := range m.windows {
		if over&(1<<i) == 0 {
			limits = append(limits, w.exactLimit)
		}
	}
	m.limits[over] = limits
	return limits
}

// add counts a request, with what became of it.
func (d *demand) add(in *policy.Input, o policy.Outcome) error {
	ctx := context.Background()
	d.request = stint.Request{}
	v, r := &d.verdict, &d.request
	if err := d.guard.Ask(in, v, r); err != nil || len(v.Rules()) == 0 {
		return err
	}
	r.Bans = nil
	d.lists = d.lists[:0]
	for i, rule := range v.Rules() {
		d.lists = append(d.lists, d.needsOf(r.ClaimAt(i).Subject, d.rules[rule.Index].windows))
	}
	for {
		for i, rule := range v.Rules() {
			r.ClaimAt(i).Limits = d.rules[rule.Index].limitsFor(d.lists[i])
		}
		decision, err := d.store.Take(ctx, *r)
		if err != nil {
			return err
		}
		if !decision.Allowed {
			if !d.exceeded(v, &decision) {
				return nil // it costs more than any limit may be
			}
			continue
		}
		if !decision.Repeat {
			d.count(v, r, &decision)
		}
		v.Decision = decision
		if after := d.guard.Follow(ctx, v); after != nil {
			after(o)
		}
		return nil
	}
}

// needsOf returns the needs of a subject in some windows. Those of subjects that are not told apart are measured, but
// neither kept nor counted.
func (d *demand) needsOf(subject string, windows []*window) []need {
	n := d.needs[subject]
	if n == nil {
		n = new(needs)
		if n.kept = len(d.needs) < d.most; n.kept {
			d.needs[strings.Clone(subject)] = n
		}
	}
	return n.of(windows)
}

// of returns the needs in the windows of a rule, new ones if there are none.
func (n *needs) of(windows []*window) []need {
	if len(windows) == 0 {
		return nil
	}
	for _, list := range n.rules {
		if list[0].window == windows[0].number {
			return list
		}
	}
	list := make([]need, len(windows))
	for i, w := range windows {
		list[i].window, list[i].kept = w.number, n.kept
	}
	n.rules = append(n.rules, list)
	return list
}

// exceeded notes which exact limits denied. It reports whether any did.
func (d *demand) exceeded(v *policy.Verdict, decision *stint.Decision) bool {
	any := false
	d.each(v, decision, func(_ int, _ *window, n *need, _, exact *stint.Usage) {
		if exact != nil && exact.RetryAfter != 0 {
			n.over, any = true, true
		}
	})
	return any
}

// count counts what is used after a request that was charged.
func (d *demand) count(v *policy.Verdict, r *stint.Request, decision *stint.Decision) {
	d.each(v, decision, func(i int, w *window, n *need, large, exact *stint.Usage) {
		if r.ClaimAt(i).Cost == 0 || !n.kept {
			return
		}
		w.Requests++
		meter := d.meter(r.ClaimAt(i), w, decision.Charge.At)
		largeMax := max(w.maxFor(large.Used), meter)
		n.large = max(n.large, largeMax)
		place := d.scale.place(largeMax)
		w.large[place]++
		if exact != nil {
			exactMax := max(w.maxFor(exact.Used), meter)
			n.exact = max(n.exact, exactMax)
			place = d.scale.place(exactMax)
		}
		w.exact[place]++ // if that is not known, it is no more than the other
	})
}

// meter counts a claim that was charged, and returns the smallest maximum under which the window's burst admits it.
func (d *demand) meter(c *stint.Claim, w *window, at int64) int64 {
	if w.Burst == 1 {
		return 0
	}
	p := counter{c.Subject, c.Scope, w.number}
	m := d.refills[p]
	if m == nil {
		m = new(refill)
		p.subject, p.scope = strings.Clone(p.subject), strings.Clone(p.scope)
		d.refills[p] = m
	}
	return m.add(at, c.Cost, time.Duration(w.Window).Microseconds(), w.Burst)
}

// settling is the store of a demand, whose refills are amended with it.
type settling struct {
	stint.Store
	demand *demand
}

// Amend implements [stint.Store]. In a replay a request is settled before the next one.
func (s settling) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	changed, err := s.Store.Amend(ctx, c, a)
	if changed && a.Kind == stint.Settle {
		for i := range 1 + len(c.And()) {
			s.demand.settle(c.ClaimAt(i), a.Cost)
		}
	}
	return changed, err
}

// settle changes the last charge of a claim in its refills. The rule of a claim is known by the name of its first limit.
func (d *demand) settle(c *stint.Claim, cost int64) {
	for i, rule := range d.verdict.Rules() {
		own := d.request.ClaimAt(i)
		if own.Subject != c.Subject || own.Scope != c.Scope || own.Limits[0].Name != c.Limits[0].Name {
			continue
		}
		for _, w := range d.rules[rule.Index].windows {
			if m := d.refills[counter{c.Subject, c.Scope, w.number}]; m != nil {
				m.amend(cost - c.Cost)
			}
		}
	}
}

// each calls f with every window of the claim i, for all claims, and the usages of its limits. That of the exact one is nil if
// it is over.
func (d *demand) each(v *policy.Verdict, decision *stint.Decision, f func(i int, w *window, n *need, large, exact *stint.Usage)) {
	usages := decision.Usages()
	for i, rule := range v.Rules() {
		windows := d.rules[rule.Index].windows
		next := max(len(windows), 1) // after the large ones, or the idle one
		for k, w := range windows {
			n, exact := &d.lists[i][k], (*stint.Usage)(nil)
			if !n.over {
				exact = &usages[next]
				next++
			}
			f(i, w, n, &usages[k], exact)
		}
		usages = usages[next:]
	}
}

// maxFor is the smallest maximum under which so many units fit.
func (w *window) maxFor(used int64) int64 { return (used + w.Burst - 1) / w.Burst }
