package memorystore

import (
	"context"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// Command implements [stint.Store].
func (s *Store) Command(ctx context.Context, c stint.Command) error {
	if err := s.ready(ctx, "command"); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	claim := stint.Claim{Subject: c.Subject}
	if c.Kind == stint.Reset || c.Kind == stint.GiveBack {
		claim.Scope, claim.Limits = c.Scope, c.Limits
	}
	q := s.lock(&claim, nil)
	defer q.unlock()
	p := &q.parts[0]
	switch c.Kind {
	case stint.Reset:
		if p.rec != nil {
			q.reset(p, c.Limits)
		}
	case stint.GiveBack:
		if p.rec != nil {
			q.open(&claim, nil, true)
			q.giveBack(p, c.Units)
		}
	case stint.Ban:
		b := q.newBan(p, &claim)
		length := min(max(c.For, 0), stint.MaxBan)
		b.byHand(length.Microseconds(), q.now)
	case stint.Unban:
		if banOf(p.rec) != nil {
			before := p.rec.rest.bytes()
			p.rec.rest.ban = nil
			p.shard.bans--
			q.grown += int64(p.rec.rest.bytes() - before)
		}
	}
	return nil
}

// reset forgets the states of limits, and the request ids.
func (q *query) reset(p *part, limits []stint.Limit) {
	before := p.rec.bytes()
	for i := range limits {
		var tag uint32
		place := p.shard.locate(p.rec, &limits[i], &tag)
		if place < 0 {
			continue
		}
		switch limits[i].Algorithm {
		case stint.Bucket:
			p.shard.untag(p.rec.rest.buckets[place].Tag)
			p.rec.rest.buckets[place] = algorithm.Bucket{}
		case stint.Concurrency:
			p.shard.untag(p.rec.rest.holders[place].Tag)
			p.rec.rest.holders[place] = algorithm.Concurrency{}
		default:
			p.shard.untag(p.rec.logAt(place).Tag)
			*p.rec.logAt(place) = algorithm.Log{}
		}
	}
	if p.rec.rest != nil {
		p.rec.rest.ids = ids{}
	}
	q.grown += int64(p.rec.bytes() - before)
}

// giveBack takes units off what is used of each limit.
func (q *query) giveBack(p *part, units int64) {
	before := p.rec.bytes()
	for k := p.first; k < p.end; k++ {
		v := &q.views[k]
		if v.place < 0 || v.limit.Algorithm == stint.Concurrency {
			continue
		}
		var given bool
		if v.limit.Algorithm == stint.Bucket {
			given = v.bucket.GiveBack(units)
		} else {
			given = v.log.GiveBack(units)
		}
		if given {
			p.retag(v)
		}
	}
	q.grown += int64(p.rec.bytes() - before)
}
