package memorystore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// behind finds the booking that the request wants to replace with an earlier one. If all limits
// have the booking, behind returns its time, and makes the views ignore that booking and all later
// ones. Otherwise, it returns 0, and the booking is not moved. If the request is then booked again,
// charge removes the old booking from the limits that have it.
func (q *query) behind(r *stint.Request) (old int64) {
	booked := r.Terms().Booked
	if booked == nil {
		return 0
	}
	q.compare(booked)
	whole := true
	for k := range q.views {
		v := &q.views[k]
		if v.cost == 0 {
			continue
		}
		at := v.BookedAt(booked.At)
		if v.booked = at > 0 && !q.parts[v.part].stale; !v.booked {
			whole = false
		} else if old == 0 || at < old {
			old = at
		}
	}
	if !whole || old == 0 {
		return 0
	}
	q.only(old)
	return old
}

// giveUp removes the units of the booking that the request replaces from all limits, and reports
// whether it did. It does so only if the booking is due, that is, no limit still has the booking
// and a log counts its units, and if all records still have the generations that were charged.
// Afterwards, the query ignores tentative bookings, because their owners ask again before they use
// them.
func (q *query) giveUp(r *stint.Request) (come bool) {
	if r.Terms().Booked == nil {
		return false
	}
	end := r.Terms().Booked.At
	for k := range q.views {
		v := &q.views[k]
		if v.cost == 0 {
			continue
		}
		if v.booked || q.parts[v.part].stale {
			return false
		}
		come = come || v.HasCome(end)
	}
	if !come {
		return false
	}
	for k := range q.views {
		v := &q.views[k]
		if v.cost > 0 {
			if _, found := v.Settle(end, v.cost, 0, 0); found {
				q.write(v)
			}
		}
		v.Firm()
	}
	return true
}

// q.only(t) makes the views ignore the bookings at time t or later. If t is algorithm.Never, the
// views include all bookings.
func (q *query) only(before int64) {
	for k := range q.views {
		q.views[k].Only(before)
	}
}

// stay allows a request at the instant of its booking, `at`, which cannot be moved to an earlier
// one.
func (q *query) stay(r *stint.Request, d *stint.Decision, at int64) {
	q.only(algorithm.Never)
	d.Allowed, d.RetryAfter = true, wait(at, q.now)
	name(r, d, q.claims[0].shard.nextSerial(), r.Terms().Booked.At)
}
