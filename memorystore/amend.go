package memorystore

import (
	"context"
	"math/bits"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
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
		done.Changed = q.extend(&c, a.KnownOnly)
	default:
		done.Changed = q.releasePlaces(&c)
	}
	q.unlock()
	if a.Kind == stint.AmendSettle && done.Changed {
		for i := range c.Claims() {
			if claim := &c.Claims()[i]; a.Cost < claim.Cost {
				s.announcements.Tell(claim.Subject, false)
			}
		}
	}
	return done, nil
}

// releasePlaces gives up the places of a charge, and reports whether it held any.
func (q *query) releasePlaces(c *stint.Charge) (changed bool) {
	for k := range q.views {
		if v := &q.views[k]; v.holds() && v.claim.Cost > 0 {
			q.store.released.Add(c.Data().ID, v.claim.Claim)
			changed = q.releasePlace(v, c.Data().ID) || changed
		}
	}
	return changed
}

// releasePlace gives up a holder's place, if it has one.
func (q *query) releasePlace(v *view, id uint64) bool {
	if !v.ReleasePlace(id) {
		return false
	}
	q.write(v)
	return true
}

// extend renews the places of a charge, and takes back those that were forgotten. It reports
// whether the charge holds all of them.
func (q *query) extend(c *stint.Charge, knownOnly bool) bool {
	places, held := 0, 0
	for k := range q.views {
		v := &q.views[k]
		if !v.holds() || v.claim.Cost == 0 {
			continue
		}
		places++
		if v.ExtendPlace(c.Data().ID) || !knownOnly && q.retake(v, c) {
			held++
			q.write(v)
		}
	}
	return places > 0 && held == places
}

// retake takes back a place that was forgotten, unless it was given up.
func (q *query) retake(v *view, c *stint.Charge) bool {
	id := c.Data().ID
	return !q.isSettled(v.claim, c) && !q.store.released.Has(id, v.claim.Claim) &&
		v.RetakePlace(id, c.Data().AtOf(v.claim.number))
}

// isSettled reports whether a claim of a charge is known to be settled.
func (q *query) isSettled(claim *claim, c *stint.Charge) bool {
	rec := q.parts[claim.part].rec
	return rec != nil && rec.rest != nil && rec.rest.settled.has(c.Data().AtOf(claim.number), c.Data().ID) ||
		q.store.own.Has(c.Data().ID, claim.Claim)
}

// compare notes which states have another generation than when they were charged.
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

// settle replaces what a charge cost by the true cost, where it still counts. A raise is charged
// now where it does not.
func (q *query) settle(c *stint.Charge, a stint.Amendment) (done stint.Amended) {
	id, data := c.Data().ID, c.Data()
	if seen := q.seen(data.RequestID, data.IDLife); a.Cost == 0 && seen != nil && seen.repeats > 0 {
		return done
	}
	q.compare(data)
	for i := range q.claims {
		// Claims may share a record: whether the charge was settled before is asked of all of them
		// before the first is settled.
		q.claims[i].settled = q.isSettled(&q.claims[i], c)
	}
	for k := range q.views {
		v := &q.views[k]
		if v.claim.settled || v.claim.Cost == 0 {
			continue
		}
		at := data.AtOf(v.claim.number)
		charged, ok := q.settleState(v, id, at, a)
		if !ok {
			continue
		}
		if !done.Changed || charged < done.Charged {
			done = stint.Amended{Changed: true, Charged: charged}
		}
		v.claim.until = max(v.claim.until, at+storebounds.LateSettle, countsUntil(v, at))
	}
	for i := range q.claims {
		if claim := &q.claims[i]; claim.until > 0 {
			q.parts[claim.part].record().more().settled.add(data.AtOf(i), id, claim.until)
			q.store.own.Add(id, claim.Claim)
		}
	}
	if rec := q.first().rec; done.Changed && a.Cost == 0 && data.RequestID != "" && rec != nil && rec.rest != nil {
		rec.rest.ids.forget(q.store.seed, data.RequestID)
	}
	return done
}

// settleState settles one limit. It returns the new charge, and whether the settlement applied.
func (q *query) settleState(v *view, id uint64, at int64, a stint.Amendment) (charged int64, ok bool) {
	if v.holds() {
		return 0, a.Cost == 0 && q.releasePlace(v, id)
	}
	p, cost := &q.parts[v.part], v.claim.Cost
	if v.index >= 0 && !p.stale {
		charged, ok = v.Settle(at, cost, a.Cost, a.MaxDebt)
	}
	if !ok && a.Cost > cost && q.now < at+storebounds.LateSettle && !q.store.resets.since(p.hash, at, q.now) {
		charged, ok = v.Raise(cost, a.Cost, a.MaxDebt) // now
	}
	if ok {
		q.write(v)
	}
	return charged, ok
}

// countsUntil returns an instant from which on a charge cannot be settled.
func countsUntil(v *view, at int64) int64 {
	l := v.limit
	if l.Algorithm != stint.AlgorithmBucket {
		return at + 2*l.Window.Microseconds()
	}
	unit, rate, tick := l.Meter()
	hi, lo := bits.Mul64(uint64(v.claim.Cost), uint64(unit))
	if rate == 0 || hi != 0 || lo/uint64(rate) >= uint64(algorithm.MaxInstant/tick) {
		return at
	}
	return at + (int64(lo/uint64(rate))+2)*tick
}
