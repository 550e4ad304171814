package memorystore

import (
	"context"
	"math/bits"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// Amend implements [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	if err := s.ready(ctx, "amend"); err != nil {
		return false, err
	}
	if err := a.Validate(&c); err != nil {
		return false, err
	}
	if !contract.FromStore(&c) {
		return false, nil
	}
	q := s.lock(c.Claims())
	if q == nil {
		return false, nil
	}
	defer q.unlock()
	q.open(c.Claims(), true)
	if a.Kind == stint.AmendSettle {
		return q.settle(&c, a), nil
	}
	if a.Kind == stint.AmendExtend {
		return q.extend(&c, a.KnownOnly), nil
	}
	changed := false
	for i := range q.claims {
		claim := &c.Claims()[i]
		q.eachPlace(i, claim, func(v *view) {
			s.released.Add(c.Data().ID, claim)
			changed = v.index >= 0 && v.hold.Release(c.Data().ID) || changed
		})
	}
	return changed, nil
}

// eachPlace calls f with the limit of each place that a claim took. What it writes is counted.
func (q *query) eachPlace(i int, claim *stint.Claim, f func(v *view)) {
	for k := q.parts[i].first; k < q.parts[i].end && claim.Cost > 0; k++ {
		v := &q.views[k]
		if !v.holds() {
			continue
		}
		if v.index < 0 {
			f(v)
			continue
		}
		before := q.bytesOf(v)
		f(v)
		q.grown += int64(q.bytesOf(v) - before)
	}
}

// extend renews the places of a charge, and takes back those that are forgotten. It reports whether
// all are held.
func (q *query) extend(c *stint.Charge, knownOnly bool) bool {
	places, held := 0, 0
	for i := range q.claims {
		claim := &c.Claims()[i]
		q.eachPlace(i, claim, func(v *view) {
			places++
			if v.index >= 0 && v.hold.Extend(c.Data().ID) || !knownOnly && q.retake(v, i, claim, c) {
				held++
			}
		})
	}
	return places > 0 && held == places
}

// retake gives a place back that was forgotten, unless it was given up.
func (q *query) retake(v *view, i int, claim *stint.Claim, c *stint.Charge) bool {
	if q.isSettled(i, claim, c) || q.store.released.Has(c.Data().ID, claim) {
		return false
	}
	if v.index >= 0 {
		return v.hold.Retake(c.Data().ID, c.Data().AtOf(i))
	}
	retaken := false
	q.write(v, claim, func() { retaken = v.hold.Retake(c.Data().ID, c.Data().AtOf(i)) })
	return retaken
}

// isSettled reports whether a claim of a charge is known to be settled.
func (q *query) isSettled(i int, claim *stint.Claim, c *stint.Charge) bool {
	rec := q.parts[i].rec
	return rec != nil && rec.rest != nil && rec.rest.settled.has(c.Data().AtOf(i), c.Data().ID) ||
		q.store.own.Has(c.Data().ID, claim)
}

// settle replaces what a charge cost by the true cost, where it still counts.
func (q *query) settle(c *stint.Charge, a stint.Amendment) bool {
	if seen := q.seen(c.Data().RequestID, c.Data().IDLife); a.Cost == 0 && seen != nil && seen.repeats > 0 {
		return false
	}
	q.eachState(c.Claims(), func(i int, p *part) {
		p.stale = p.rec == nil || p.rec.generation == 0 || p.rec.generation != c.Data().GenerationAt(i)
	})
	for i := range q.claims {
		// Claims may share a record: whether the charge was settled before is asked of all of them
		// before the first is settled.
		if p := &q.parts[i]; q.isSettled(i, &c.Claims()[i], c) {
			p.end = p.first
		}
	}
	changed := false
	for i := range q.claims {
		p, claim := &q.parts[i], &c.Claims()[i]
		applied, at, until := false, c.Data().AtOf(i), int64(0)
		for k := p.first; k < p.end && claim.Cost > 0; k++ {
			if v := &q.views[k]; q.settleState(v, claim, c.Data().ID, at, a) {
				applied = true
				until = max(until, countsUntil(v, at, claim.Cost))
			}
		}
		if applied {
			changed = true
			q.settled(q.record(p, claim), at, c.Data().ID, until)
			q.store.own.Add(c.Data().ID, claim)
		}
	}
	if changed && a.Cost == 0 && c.Data().RequestID != "" && q.parts[0].rec != nil && q.parts[0].rec.rest != nil {
		ids := &q.parts[0].rec.rest.ids
		before := ids.bytes()
		ids.forget(q.store.seed, c.Data().RequestID)
		q.grown += int64(ids.bytes() - before)
	}
	return changed
}

// settled remembers that a charge was settled.
func (q *query) settled(r *record, at int64, id uint64, until int64) {
	before := r.rest.bytes()
	r.more().settled.add(at, id, until)
	q.grown += int64(r.rest.bytes() - before)
}

func (q *query) settleState(v *view, claim *stint.Claim, id uint64, at int64, a stint.Amendment) bool {
	if v.holds() {
		return v.index >= 0 && a.Cost == 0 && v.hold.Release(id)
	}
	return !q.parts[v.part].stale && q.change(v, func(count *algorithm.View) bool {
		return count.Settle(at, claim.Cost, a.Cost, a.MaxDebt)
	})
}

// change changes a count, and reports whether that applied. Only if it does is it written that the
// clock stepped back: it is tried on a copy first.
func (q *query) change(v *view, f func(*algorithm.View) bool) bool {
	if v.index < 0 {
		return false
	}
	p := &q.parts[v.part]
	c := p.rec.countAt(v.index)
	if back := p.rec.last - q.now; back > 0 {
		v.count.Open(c.Clone(), v.params, q.now, back)
		if !f(&v.count) {
			return false
		}
		p.rec.stepBack(q.now)
	}
	v.count.Open(c, v.params, q.now, 0)
	before := c.Bytes()
	if !f(&v.count) {
		return false
	}
	p.rec.last = q.now
	p.tagState(v)
	q.grown += int64(c.Bytes() - before)
	return true
}

// countsUntil is an instant by which a charge can no longer be settled.
func countsUntil(v *view, at, cost int64) int64 {
	l := v.limit
	if l.Algorithm != stint.AlgorithmBucket {
		return at + 2*l.Window.Microseconds()
	}
	unit, rate, tick := l.Meter()
	hi, lo := bits.Mul64(uint64(cost), uint64(unit))
	if rate == 0 || hi != 0 || lo/uint64(rate) >= uint64(algorithm.MaxInstant/tick) {
		return at
	}
	return at + (int64(lo/uint64(rate))+2)*tick
}
