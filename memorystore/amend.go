package memorystore

import (
	"context"
	"errors"
	"math/bits"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// Amend implements [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	if err := s.ready(ctx, "amend"); err != nil {
		return false, err
	}
	if err := errors.Join(c.Validate(), a.Validate()); err != nil {
		return false, err
	}
	if c.Origin() != stint.FromStore {
		return false, nil
	}
	q := s.lock(&c.Claim, c.And())
	if q == nil {
		return false, nil
	}
	defer q.unlock()
	q.open(&c.Claim, c.And(), true)
	if a.Kind == stint.Settle {
		return q.settle(&c, a), nil
	}
	changed := false
	for k := range q.views {
		v := &q.views[k]
		if !v.holds() || v.place < 0 {
			continue
		}
		before := q.bytesOf(v)
		if a.Kind == stint.Extend && v.hold.Extend(c.ID) || a.Kind == stint.Release && v.hold.Release(c.ID) {
			changed = true
		}
		q.grown += int64(q.bytesOf(v) - before)
	}
	return changed, nil
}

// settle replaces what a charge cost by the true cost, where it still counts.
func (q *query) settle(c *stint.Charge, a stint.Amendment) bool {
	if seen := q.seen(c.RequestID(), c.IDLife()); a.Cost == 0 && seen != nil && seen.repeats > 0 {
		return false
	}
	q.eachState(&c.Claim, c.And(), func(i int, p *part) {
		p.stale = p.rec == nil || p.rec.generation == 0 || p.rec.generation != c.GenerationAt(i)
	})
	for i := range q.claims {
		// Claims may share a record: whether the charge was settled before is asked
		// of all of them before the first is settled.
		p, claim := &q.parts[i], claimAt(&c.Claim, c.And(), i)
		if p.rec != nil && p.rec.rest != nil && p.rec.rest.settled.has(instantOf(c, i), c.ID) || q.store.own.Has(c.ID, claim) {
			p.end = p.first
		}
	}
	changed := false
	for i := range q.claims {
		p, claim := &q.parts[i], claimAt(&c.Claim, c.And(), i)
		applied, at, until := false, instantOf(c, i), int64(0)
		for k := p.first; k < p.end && claim.Cost > 0; k++ {
			if v := &q.views[k]; q.settleState(v, claim, c.ID, at, a) {
				applied = true
				until = max(until, countsUntil(v, at, claim.Cost))
			}
		}
		if applied {
			changed = true
			q.settled(q.record(p, claim), at, c.ID, until)
			q.store.own.Add(c.ID, claim)
		}
	}
	if changed && a.Cost == 0 && c.RequestID() != "" && q.parts[0].rec != nil && q.parts[0].rec.rest != nil {
		ids := &q.parts[0].rec.rest.ids
		before := ids.bytes()
		ids.forget(q.store.seed, c.RequestID())
		q.grown += int64(ids.bytes() - before)
	}
	return changed
}

// instantOf is the instant at which a charge's ith claim counts.
func instantOf(c *stint.Charge, i int) int64 {
	if i > 0 && c.Rest.AndAt != nil {
		return c.Rest.AndAt[i-1]
	}
	return c.At
}

// settled remembers that a charge was settled.
func (q *query) settled(r *record, at int64, id uint64, until int64) {
	before := r.rest.bytes()
	r.more().settled.add(at, id, until)
	q.grown += int64(r.rest.bytes() - before)
}

func (q *query) settleState(v *view, claim *stint.Claim, id uint64, at int64, a stint.Amendment) bool {
	if v.holds() {
		return v.place >= 0 && v.hold.Settle(id, a.Cost)
	}
	return !q.parts[v.part].stale && q.change(v, func(count *algorithm.View) bool {
		return count.Settle(at, claim.Cost, a.Cost, a.MaxDebt)
	})
}

// change changes a count, and reports whether that applied. Only if it does is it written that the clock
// stepped back: it is tried on a copy first.
func (q *query) change(v *view, f func(*algorithm.View) bool) bool {
	if v.place < 0 {
		return false
	}
	p := &q.parts[v.part]
	c := p.rec.countAt(v.place)
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
	p.retag(v)
	q.grown += int64(c.Bytes() - before)
	return true
}

// countsUntil is an instant by which a charge can no longer be settled.
func countsUntil(v *view, at, cost int64) int64 {
	l := v.limit
	if l.Algorithm != stint.Bucket {
		return at + 2*l.Window.Microseconds()
	}
	unit, rate, tick := l.Meter()
	hi, lo := bits.Mul64(uint64(cost), uint64(unit))
	if rate == 0 || hi != 0 || lo/uint64(rate) >= uint64(algorithm.MaxInstant/tick) {
		return at
	}
	return at + (int64(lo/uint64(rate))+2)*tick
}
