package memorystore

import (
	"context"
	"math/bits"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
)

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
	defer func() {
		q.unlock()
		s.announce(&c, a, done)
	}()
	q.open(c.Claims(), true)
	if a.Kind == stint.AmendSettle {
		return q.settle(&c, a), nil
	}
	if a.Kind == stint.AmendExtend {
		done.Changed = q.extend(&c, a.KnownOnly)
		return done, nil
	}
	for i := range q.claims {
		claim := &c.Claims()[i]
		q.eachPlace(i, claim, func(v *view) {
			s.released.Add(c.Data().ID, claim)
			done.Changed = v.index >= 0 && v.hold.Release(c.Data().ID) || done.Changed
		})
	}
	return done, nil
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

// settle replaces what a charge cost by the true cost, where it still counts. A raise is charged
// now where it does not.
func (q *query) settle(c *stint.Charge, a stint.Amendment) (done stint.Amended) {
	if seen := q.seen(c.Data().RequestID, c.Data().IDLife); a.Cost == 0 && seen != nil && seen.repeats > 0 {
		return done
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
	for i := range q.claims {
		p, claim := &q.parts[i], &c.Claims()[i]
		applied, at, until := false, c.Data().AtOf(i), int64(0)
		for k := p.first; k < p.end && claim.Cost > 0; k++ {
			v := &q.views[k]
			charged, ok := q.settleState(v, claim, c.Data().ID, at, a)
			if !ok {
				continue
			}
			if applied = true; !done.Changed || charged < done.Charged {
				done = stint.Amended{Changed: true, Charged: charged}
			}
			until = max(until, countsUntil(v, at, claim.Cost))
		}
		if applied {
			until = max(until, at+storebounds.LateSettle)
			q.settled(q.record(p, claim), at, c.Data().ID, until)
			q.store.own.Add(c.Data().ID, claim)
		}
	}
	if done.Changed && a.Cost == 0 && c.Data().RequestID != "" && q.parts[0].rec != nil && q.parts[0].rec.rest != nil {
		ids := &q.parts[0].rec.rest.ids
		before := ids.bytes()
		ids.forget(q.store.seed, c.Data().RequestID)
		q.grown += int64(ids.bytes() - before)
	}
	return done
}

// settled remembers that a charge was settled.
func (q *query) settled(r *record, at int64, id uint64, until int64) {
	before := r.rest.bytes()
	r.more().settled.add(at, id, until)
	q.grown += int64(r.rest.bytes() - before)
}

// settleState settles one limit. It returns what is charged to it then, and whether it applied.
func (q *query) settleState(
	v *view, claim *stint.Claim, id uint64, at int64, a stint.Amendment,
) (charged int64, ok bool) {
	if v.holds() {
		return 0, v.index >= 0 && a.Cost == 0 && v.hold.Release(id)
	}
	p := &q.parts[v.part]
	ok = !p.stale && q.change(v, func(count *algorithm.View) (found bool) {
		charged, found = count.Settle(at, claim.Cost, a.Cost, a.MaxDebt)
		return found
	})
	if !ok && a.Cost > claim.Cost && q.now < at+storebounds.LateSettle && !q.store.resets.since(p.hash, at, q.now) {
		return q.raise(v, claim, a)
	}
	return charged, ok
}

// raise charges now what a charge really cost more. There need be no state.
func (q *query) raise(v *view, claim *stint.Claim, a stint.Amendment) (charged int64, ok bool) {
	p := &q.parts[v.part]
	if v.limit.Algorithm == stint.AlgorithmBucket && v.limit.Max == 0 {
		return 0, false
	}
	if p.rec != nil && p.rec.last > q.now {
		p.rec.stepBack(q.now)
	}
	if v.index >= 0 {
		v.openAt(p.rec, q.now)
	}
	q.write(v, claim, func() { charged, ok = v.count.Raise(claim.Cost, a.Cost, a.MaxDebt) })
	return charged, ok
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
