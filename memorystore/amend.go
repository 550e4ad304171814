package memorystore

import (
	"context"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

var _ driver.Announcer = (*Store)(nil)

// Announcements implements [driver.Announcer].
func (s *Store) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	return s.announcements.Listen(ctx, f)
}

// Amend implements [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (done stint.Amended, err error) {
	if err := s.ready(ctx, "amend"); err != nil {
		return done, err
	}
	if err := a.Validate(&c); err != nil {
		return done, err
	}
	if !contract.FromStore(&c) {
		return done, nil
	}
	q := s.lock(c.Claims())
	if q == nil {
		return done, nil
	}
	q.open(true)
	switch a.Kind {
	case stint.AmendSettle:
		done = q.settle(&c, a)
	case stint.AmendExtend:
		done.Changed = q.extend(&c, &a)
	default:
		done.Changed = q.releasePlaces(&c)
	}
	q.unlock()
	if a.Kind == stint.AmendSettle && done.Changed {
		for i := range c.Claims() {
			if claim := &c.Claims()[i]; lowers(&a, claim) {
				s.announcements.Tell(claim.Subject, false)
			}
		}
	}
	return done, nil
}

// lowers reports whether a settlement lowers the cost of a claim under any of its limits.
func lowers(a *stint.Amendment, c *stint.Claim) bool {
	return slices.ContainsFunc(c.Limits, func(l stint.Limit) bool {
		total, named := contract.TotalOf(a, l.Name)
		return named && total < c.CostOf(&l)
	})
}

func (q *query) releasePlaces(c *stint.Charge) (changed bool) {
	for k := range q.views {
		if v := &q.views[k]; v.holds() && v.cost > 0 {
			q.store.released.Add(c.Data().ID, v.claim.Claim)
			changed = q.releasePlace(v, c.Data().ID) || changed
		}
	}
	return changed
}

func (q *query) releasePlace(v *view, id uint64) bool {
	if !v.ReleasePlace(id) {
		return false
	}
	q.write(v)
	return true
}

// extend renews the holds and places of a charge. If the store has forgotten a place, extend takes
// a new one, unless a.KnownOnly is true. It reports whether all places are held or, if the charge
// has no places, whether all its holds are open.
func (q *query) extend(c *stint.Charge, a *stint.Amendment) bool {
	places, held, holding := 0, 0, false
	if c.Data().Hold > 0 {
		_, holding = q.amendHolds(c, a)
	}
	for k := range q.views {
		v := &q.views[k]
		if !v.holds() || v.cost == 0 {
			continue
		}
		places++
		if v.ExtendPlace(c.Data().ID) || !a.KnownOnly && q.retake(v, c) {
			held++
			q.write(v)
		}
	}
	return held == places && (places > 0 || holding)
}

// retake takes a new place for a charge whose place the store has forgotten, unless the place was
// released, the charge was settled, or the limit was reset after the charge. It reports whether it
// took a place.
func (q *query) retake(v *view, c *stint.Charge) bool {
	id := c.Data().ID
	return !q.isSettled(v.claim, c) && !q.store.released.Has(id, v.claim.Claim) &&
		v.RetakePlace(id, c.Data().AtOf(v.claim.number))
}

func (q *query) isSettled(claim *claim, c *stint.Charge) bool {
	rec := q.parts[claim.part].rec
	return rec != nil && rec.rest != nil && rec.rest.settled.has(c.Data().AtOf(claim.number), c.Data().ID) ||
		q.store.own.Has(c.Data().ID, claim.Claim)
}

// compare sets stale in each part of the charge. A part is stale if its record does not have the
// generation that was charged.
func (q *query) compare(c *driver.ChargeData) {
	n := 0
	for k := range q.views {
		if v := &q.views[k]; v.leads {
			p := &q.parts[v.part]
			p.stale = p.generation() == 0 || p.generation() != c.GenerationAt(n)
			n++
		}
	}
}

// settle replaces the cost of a charge with the true cost, under the limits where the charge still
// counts or has a hold.
func (q *query) settle(c *stint.Charge, a stint.Amendment) (done stint.Amended) {
	data, refund := c.Data(), a.Cost == 0 && a.Costs == nil
	if seen := q.seen(data.RequestID, data.IDLife); refund && seen != nil && seen.repeats > 0 {
		return done
	}
	if data.Hold > 0 {
		done = q.settleHolds(c, &a)
	} else {
		done = q.settleCharge(c, &a)
	}
	if rec := q.first().rec; done.Changed && refund && data.RequestID != "" && rec != nil && rec.rest != nil {
		rec.rest.ids.forget(q.store.seed, data.RequestID)
	}
	return done
}

// settleCharge settles a charge without holds.
func (q *query) settleCharge(c *stint.Charge, a *stint.Amendment) (done stint.Amended) {
	id, data := c.Data().ID, c.Data()
	q.compare(data)
	for i := range q.claims {
		// Claims may share a record, and settling one of them marks the record. So check all claims
		// for an earlier settlement before the first is settled.
		q.claims[i].settled = q.isSettled(&q.claims[i], c)
	}
	dropped, sum := int64(0), contract.Totals{}
	for k := range q.views {
		v := &q.views[k]
		total, named := contract.TotalOf(a, v.limit.Name)
		if v.claim.settled || v.cost == 0 || !named {
			continue
		}
		at := data.AtOf(v.claim.number)
		charged, ok := q.settleState(v, id, at, total, a.MaxDebt)
		if !ok {
			continue
		}
		done.Changed, dropped = true, max(dropped, total-charged)
		v.claim.until = max(v.claim.until, 1)
		if !v.holds() {
			sum.Add(a, v.limit.Name, total)
		}
	}
	// Remember the settlement until the charge can no longer be settled under any limit of the
	// claim, including limits to which this settlement did not apply.
	for k := range q.views {
		if v := &q.views[k]; v.claim.until > 0 && v.cost > 0 {
			v.claim.until = max(v.claim.until, data.AtOf(v.claim.number)+v.Settleable(v.cost))
		}
	}
	for i := range q.claims {
		if claim := &q.claims[i]; claim.until > 0 {
			q.parts[claim.part].record().more().settled.add(data.AtOf(i), id, claim.until)
			q.store.own.Add(id, claim.Claim)
		}
	}
	if done.Changed {
		done.Charged = max(sum.Sum-dropped, 0)
	}
	return done
}

// settleState settles a charge under one limit. It returns the units that are charged to the limit
// afterwards, and whether the settlement applied.
func (q *query) settleState(v *view, id uint64, at, total, debt int64) (charged int64, ok bool) {
	if v.holds() {
		return 0, total == 0 && q.releasePlace(v, id)
	}
	if v.index >= 0 && !q.parts[v.part].stale {
		charged, ok = v.Settle(at, v.cost, total, debt)
	}
	if ok {
		q.write(v)
	}
	return charged, ok
}
