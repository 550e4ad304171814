package resilience

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// hold gives a place to a holder, or lets it keep its place for another window, in the store too or
// not.
func (c *count) hold(id uint64, now int64, stored bool) {
	until := now + int64(c.Window)
	for i := range c.holders {
		if h := &c.holders[i]; h.id == id {
			if h.until = until; stored {
				h.stored = until
			}
			return
		}
	}
	h := holder{id: id, until: until}
	if stored {
		h.stored = until
	}
	c.holders = append(c.holders, h)
}

// eachPlace calls f with the counts of places of a charge.
func (l *ledger) eachPlace(c *stint.Charge, f func(*count)) {
	l.each(c.Claims(), func(_ int, _ *record, n *count) {
		if n.Algorithm == stint.AlgorithmConcurrency {
			f(n)
		}
	})
}

// extended lets the holders of a charge keep their places, and reports whether all are there.
func (l *ledger) extended(c *stint.Charge, stored bool) (held bool) {
	now := l.now()
	places, found := 0, 0
	l.eachPlace(c, func(n *count) {
		places++
		n.advance(now)
		if slices.ContainsFunc(n.holders, func(h holder) bool { return h.id == c.Data().ID }) {
			n.hold(c.Data().ID, now, stored)
			found++
		}
	})
	return places > 0 && found == places
}

// unanswered notes that a heartbeat was not answered, which may arrive until some time from now.
func (l *ledger) unanswered(c *stint.Charge, left time.Duration) {
	now := l.now()
	l.eachPlace(c, func(n *count) {
		for i := range n.holders {
			if h := &n.holders[i]; h.id == c.Data().ID {
				h.void = max(h.void, now+int64(left))
			}
		}
	})
}

// released takes the places of a charge away, if an amendment does. It reports whether there was
// one, and after how long no heartbeat can arrive any more.
func (l *ledger) released(c *stint.Charge, a stint.Amendment) (held bool, void time.Duration) {
	if a.Kind != stint.AmendRelease && a.Cost > 0 {
		return false, 0
	}
	now := l.now()
	l.eachPlace(c, func(n *count) {
		n.holders = slices.DeleteFunc(n.holders, func(h holder) bool {
			if h.id == c.Data().ID {
				held, void = true, max(void, time.Duration(h.void-now))
			}
			return h.id == c.Data().ID
		})
	})
	return held, void
}

// storedOf returns the store's charge of a debt, if it has made one, and whether that is not known
// yet.
func (l *ledger) storedOf(o *debt) (stored stint.Charge, late bool) {
	set := l.lock(o.subjects)
	defer l.unlock(set)
	return o.stored, o.state == lateDebt
}
