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
		return q.settle(&c, a.Cost), nil
	}
	changed := false
	for i := range q.parts {
		p := &q.parts[i]
		for k := p.first; k < p.end; k++ {
			v := &q.views[k]
			if v.limit.Algorithm != stint.Concurrency || v.place < 0 {
				continue
			}
			h := &p.rec.rest.holders[v.place]
			before := h.Bytes()
			if a.Kind == stint.Extend && v.hold.Extend(c.ID) || a.Kind == stint.Release && v.hold.Release(c.ID) {
				changed = true
			}
			q.grown += int64(h.Bytes() - before)
		}
	}
	return changed, nil
}

// settle replaces what a charge cost by the true cost, where it still counts.
func (q *query) settle(c *stint.Charge, truth int64) bool {
	changed := false
	for i := range q.parts {
		// Claims may share a record: whether the charge was settled before is asked
		// of all of them before the first is settled.
		if p := &q.parts[i]; p.rec != nil && p.rec.rest != nil && p.rec.rest.settled.has(c.At, c.ID) {
			p.end = p.first
		}
	}
	for i := range q.parts {
		p, claim := &q.parts[i], claimAt(&c.Claim, c.And(), i)
		applied, until := false, int64(0)
		for k := p.first; k < p.end && claim.Cost > 0; k++ {
			v := &q.views[k]
			if q.settleState(p, v, claim, c, truth) {
				applied = true
				until = max(until, countsUntil(v, c.At, claim.Cost))
			}
		}
		if applied {
			changed = true
			q.settled(p.rec, c, until)
		}
	}
	if changed && truth == 0 && c.RequestID() != "" && q.parts[0].rec != nil && q.parts[0].rec.rest != nil {
		ids := &q.parts[0].rec.rest.ids
		before := ids.bytes()
		ids.forget(q.store.seed, c.RequestID())
		q.grown += int64(ids.bytes() - before)
	}
	return changed
}

// settled remembers that a charge was settled.
func (q *query) settled(r *record, c *stint.Charge, until int64) {
	before := r.rest.bytes()
	r.more().settled.add(c.At, c.ID, until)
	q.grown += int64(r.rest.bytes() - before)
}

func (q *query) settleState(p *part, v *view, claim *stint.Claim, c *stint.Charge, truth int64) bool {
	switch v.limit.Algorithm {
	case stint.Bucket:
		if v.place < 0 {
			return q.settleNewBucket(p, v, claim, c, truth)
		}
		p.rehome(v)
		b := &p.rec.rest.buckets[v.place]
		before := b.Bytes()
		applied := v.bucket.Settle(c.At, claim.Cost, truth)
		q.grown += int64(b.Bytes() - before)
		if applied {
			p.retag(v)
		}
		return applied
	case stint.Concurrency:
		return v.place >= 0 && v.hold.Settle(c.ID, truth)
	}
	if v.place < 0 {
		return false
	}
	p.rehome(v)
	g := p.rec.logAt(v.place)
	before := g.Bytes()
	applied := v.log.Settle(c.At, claim.Cost, truth)
	q.grown += int64(g.Bytes() - before)
	if applied {
		p.retag(v)
	}
	return applied
}

// settleNewBucket settles what was charged to a bucket that has been forgotten
// since: it may still owe something.
func (q *query) settleNewBucket(p *part, v *view, claim *stint.Claim, c *stint.Charge, truth int64) bool {
	if !v.bucket.Settle(c.At, claim.Cost, truth) {
		return false
	}
	b := v.noBucket
	v.noBucket = algorithm.Bucket{}
	q.record(p, claim)
	q.house(p, v)
	b.Tag = v.tag
	p.rec.rest.buckets[v.place] = b
	return true
}

// countsUntil is an instant by which a charge can no longer be settled.
func countsUntil(v *view, at, cost int64) int64 {
	l := v.limit
	if l.Algorithm != stint.Bucket {
		return at + 2*l.Span().Microseconds()
	}
	unit, rate := l.BucketScale()
	hi, lo := bits.Mul64(uint64(cost), uint64(unit))
	if rate == 0 || hi != 0 || lo > uint64(algorithm.MaxInstant) {
		return at
	}
	return at + int64(lo)/rate + 1
}
