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
		q.reset(&claim)
	case stint.GiveBack:
		q.open(&claim, nil, true)
		q.giveBack(c.Units)
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

// reset forgets the counts and holders of a claim's limits, and the request ids. The states that it
// concerns begin anew. Of holders it notes when that was.
func (q *query) reset(c *stint.Claim) {
	q.eachState(c, nil, func(_ int, p *part) {
		if p.rec != nil {
			if p.rec.last > q.now {
				p.rec.stepBack(q.now)
			}
			p.rec.last = q.now
			p.shard.draw(p.rec)
		}
	})
	for i := range c.Limits {
		q.forget(c, &c.Limits[i])
	}
	q.open(c, nil, true)
	for k := range q.views {
		if v := &q.views[k]; v.holds() {
			q.house(v, c)
			before := q.bytesOf(v)
			v.hold.Clear()
			q.grown += int64(q.bytesOf(v) - before)
		}
	}
	if r := q.parts[0].rec; r != nil && r.rest != nil {
		before := r.rest.bytes()
		r.rest.ids = ids{}
		q.grown += int64(r.rest.bytes() - before)
	}
}

// forget removes the count that is kept of a limit, if it has one.
func (q *query) forget(c *stint.Claim, l *stint.Limit) {
	if l.Algorithm == stint.Concurrency {
		return
	}
	p := &q.parts[q.partOf(0, c, l.Name)]
	var tag uint32
	place := p.shard.locate(p.rec, l, &tag)
	if place < 0 {
		return
	}
	before := p.rec.bytes()
	p.shard.untag(p.rec.countAt(place).Tag)
	*p.rec.countAt(place) = algorithm.Count{}
	q.grown += int64(p.rec.bytes() - before)
}

// giveBack takes units off what is used of each limit.
func (q *query) giveBack(units int64) {
	for k := range q.views {
		if v := &q.views[k]; !v.holds() {
			q.change(v, func(count *algorithm.View) bool { return count.GiveBack(units) })
		}
	}
}
