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
	if c.Kind == stint.CommandReset || c.Kind == stint.CommandGiveBack {
		claim.Scope, claim.Limits = c.Scope, c.Limits
	}
	claims := [1]stint.Claim{claim}
	q := s.lock(claims[:])
	defer func() {
		q.unlock()
		s.announcements.Tell(c.Subject, c.Kind != stint.CommandGiveBack)
	}()
	p := &q.parts[0]
	switch c.Kind {
	case stint.CommandReset:
		q.reset(claims[:])
	case stint.CommandGiveBack:
		q.open(claims[:], true)
		for k := range q.views {
			if v := &q.views[k]; !v.holds() {
				q.change(v, func(count *algorithm.View) bool { return count.GiveBack(c.Units) })
			}
		}
	case stint.CommandBan:
		b := q.newBan(p, &claim)
		length := min(max(c.For, 0), stint.MaxWindow)
		b.byHand(length.Microseconds(), q.now)
	case stint.CommandUnban:
		if banOf(p.rec) != nil {
			before := p.rec.rest.bytes()
			p.rec.rest.ban = nil
			p.shard.bans--
			q.grown += int64(p.rec.rest.bytes() - before)
		}
	}
	return nil
}

// reset forgets the counts and holders of a claim's limits, and the request ids. Their states get a
// new generation, and the time of the reset is noted.
func (q *query) reset(claims []stint.Claim) {
	c := &claims[0]
	q.eachState(claims, func(_ int, p *part) {
		q.store.resets.add(p.hash, q.now)
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
	q.open(claims, true)
	for k := range q.views {
		if v := &q.views[k]; v.holds() {
			q.write(v, c, v.hold.Clear)
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
	if l.Algorithm == stint.AlgorithmConcurrency {
		return
	}
	p := &q.parts[q.partOf(0, c, l.Name)]
	var tag uint32
	index := p.shard.locate(p.rec, l, &tag)
	if index < 0 {
		return
	}
	before := p.rec.bytes()
	p.shard.untag(p.rec.countAt(index).Owner)
	*p.rec.countAt(index) = algorithm.Count{}
	q.grown += int64(p.rec.bytes() - before)
}
