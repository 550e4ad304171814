package memorystore

import (
	"context"

	"github.com/stint-limiter/stint"
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
	q := s.lock([]stint.Claim{claim})
	q.open(true)
	switch c.Kind {
	case stint.CommandReset:
		q.reset()
	case stint.CommandGiveBack:
		for k := range q.views {
			if v := &q.views[k]; v.index >= 0 && v.GiveBack(c.Units) {
				q.write(v)
			}
		}
	case stint.CommandBan:
		q.newBan(&q.claims[0]).byHand(c.For.Microseconds(), q.now)
	case stint.CommandUnban:
		if r := q.first().rec; banOf(r) != nil {
			r.rest.ban = nil
			q.claims[0].shard.bans--
		}
	}
	q.unlock()
	s.announcements.Tell(c.Subject, c.Kind != stint.CommandGiveBack)
	return nil
}

// reset forgets the counts and holders of a claim's limits, and the claim's request ids. The
// records get new generations, so that earlier charges cannot be amended. The counts of concurrency
// limits record the time of the reset.
func (q *query) reset() {
	for k := range q.views {
		v := &q.views[k]
		if v.holds() {
			continue
		}
		p := &q.parts[v.part]
		if v.leads {
			p.restart(q.now)
		}
		if v.index >= 0 {
			p.claim.shard.free(p.rec, v.index)
		}
	}
	for k := range q.views {
		if v := &q.views[k]; v.holds() {
			v.ClearPlaces()
			q.write(v)
		}
	}
	if r := q.first().rec; r != nil && r.rest != nil {
		r.rest.ids = ids{}
	}
}

// restart gives the part's record a new generation, if there is a record. Like other writes, it
// sets the time of the last write.
func (p *part) restart(now int64) {
	if p.rec == nil {
		return
	}
	p.touch(now)
	p.claim.shard.draw(p.rec)
}
