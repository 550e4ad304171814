package resilience

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// holder has a place under a concurrency limit. until is the time at which it loses the place,
// unless a heartbeat arrives before then.
type holder struct {
	id     uint64
	until  int64
	stored int64 // when the store forgets the holder; 0 if the store never knew it
	since  int64 // when a heartbeat made the holder known to the store; earlier answers do not count it
	void   int64 // the latest time at which an unanswered heartbeat may still arrive
}

func (c *count) holder(id uint64) *holder {
	for i := range c.holders {
		if c.holders[i].id == id {
			return &c.holders[i]
		}
	}
	return nil
}

// hold gives a place to a holder, or renews its place, for one window from now. stored reports
// whether the holder also has the place in the store.
func (c *count) hold(id uint64, now int64, stored bool) {
	h := c.holder(id)
	if h == nil {
		c.holders = append(c.holders, holder{id: id})
		h = &c.holders[len(c.holders)-1]
	} else if stored && h.stored <= now {
		h.since = now
	}
	if h.until = now + int64(c.Window); stored {
		h.stored = h.until
	}
}

// places returns an iterator over the concurrency limits under which a charge took a place, with
// the holder of each place. The holder is nil if the charge no longer holds the place.
func (l *ledger) places(c *stint.Charge, now int64) iter.Seq2[*count, *holder] {
	return func(yield func(*count, *holder) bool) {
		defer l.unlock(l.lock(c.Claims()))
		for it := range l.each(c.Claims()) {
			if it.advance(now); it.Algorithm == stint.AlgorithmConcurrency && !yield(it.count, it.holder(c.Data().ID)) {
				return
			}
		}
	}
}

// extended extends the places of a charge, and reports whether it has places and still holds all of
// them.
func (l *ledger) extended(c *stint.Charge, stored bool) (held bool) {
	now, lost := l.now(), false
	for n, h := range l.places(c, now) {
		if held = true; h == nil {
			lost = true
		} else {
			n.hold(h.id, now, stored)
		}
	}
	return held && !lost
}

// unanswered records a heartbeat that was not answered. left is the time for which it may still
// arrive.
func (l *ledger) unanswered(c *stint.Charge, left time.Duration) {
	now := l.now()
	for _, h := range l.places(c, now) {
		if h != nil {
			h.void = max(h.void, now+int64(left))
		}
	}
}

// released removes the places of a charge if an amendment gives them up. It reports whether it
// removed any, and for how long an unanswered heartbeat may still arrive.
func (l *ledger) released(c *stint.Charge, a stint.Amendment) (held bool, void time.Duration) {
	if a.Kind != stint.AmendRelease && contract.Total(&a) > 0 {
		return false, 0
	}
	now := l.now()
	for n, h := range l.places(c, now) {
		if h != nil {
			held, void = true, max(void, time.Duration(h.void-now))
			n.holders = slices.DeleteFunc(n.holders, func(other holder) bool { return other.id == c.Data().ID })
		}
	}
	return held, void
}

// beat records a heartbeat of a local charge. stored is the store's charge, if there is one. later
// reports whether the heartbeat must wait until the store has charged the debt o. If so, and if the
// heartbeat is that of a hold, beat remembers the usage that it reports.
func (l *ledger) beat(o *debt, c *stint.Charge, a stint.Amendment) (stored stint.Charge, later bool) {
	defer l.unlock(l.lock(o.subjects))
	if o.hold == 0 {
		return o.stored, o.state == openDebt
	}
	o.beaten = l.now()
	if later = o.state == openDebt || o.state == dueDebt; later && contract.Total(&a) > 0 {
		o.report(c, a)
	}
	return o.stored, later
}

// report remembers the usage that a heartbeat reports, and keeps the largest value for each part of
// the charge.
func (o *debt) report(c *stint.Charge, a stint.Amendment) {
	// Only report the usage: later heartbeats extend the places.
	a.KnownOnly, a.Costs = true, maps.Clone(a.Costs)
	for _, p := range o.pending {
		before := p.Amendment
		if before.Kind == stint.AmendExtend && (before.Costs == nil) == (a.Costs == nil) &&
			slices.EqualFunc(p.Charge.Claims(), c.Claims(), sameClaim) {
			a.Cost = max(a.Cost, before.Cost)
			for name, cost := range before.Costs {
				a.Costs[name] = max(a.Costs[name], cost)
			}
			p.Amendment = a
			return
		}
	}
	o.pending = append(o.pending, newJob(*c, a, nil))
}

// prolong records a heartbeat of a charge that the store made, if this process knows its request
// ID.
func (l *ledger) prolong(c *stint.Charge) {
	claims := c.Claims()[:1]
	defer l.unlock(l.lock(claims))
	if rec := l.find(&claims[0]); rec != nil {
		if o := rec.named[c.Data().RequestID]; o != nil && o.stored.Data().ID == c.Data().ID {
			o.beaten = l.now()
		}
	}
}
