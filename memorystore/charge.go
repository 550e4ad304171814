package memorystore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// charge charges, books or leases every claim that costs something, at the instant `at`. It removes
// the booking that the request replaces. If come is true, that booking was due and is already
// removed, and the new booking may be before other bookings.
func (q *query) charge(r *stint.Request, d *stint.Decision, at int64, come bool) {
	end := q.endOf(r, at, come)
	id := uint64(0)
	for k := range q.views {
		v := &q.views[k]
		cost := v.cost
		if cost == 0 {
			continue
		}
		if id == 0 {
			id = v.claim.shard.nextSerial()
		}
		if v.booked {
			v.Unbook(r.Terms().Booked.At, cost)
		}
		switch {
		case v.holds():
			v.TakePlace(id)
		case r.Hold > 0 && algorithm.Stock(v.limit, r.Hold.Microseconds()) && q.parts[v.part].holdsFull(q.now) == 0:
			if r.Mode == driver.ModeForce {
				cost = min(cost, v.Spare())
			}
			v.Hold(algorithm.Expiry(end, r.Hold.Microseconds()), cost, v.limit.ChargeExpired)
		case r.Mode == driver.ModeForce:
			if r.Terms().AtLeast {
				cost = max(cost-v.Used(), 0)
			}
			v.force(at, end, cost, r.Terms().Refilled.Microseconds())
		case at > q.now && come:
			v.Insert(at, end, cost)
		case at > q.now:
			v.Book(at, end, cost)
		default:
			v.Lease(end, cost)
		}
		q.write(v)
	}
	if id != 0 {
		if r.Hold > 0 {
			q.noteHolds(id, r.Hold.Microseconds(), end)
		}
		name(r, d, id, end)
	}
}

// endOf returns the time that identifies a charge made at the instant `at`. For a lease or a
// booking, it is the end of the lease or booking. If the units were used before now, it is the time
// of their use. A booking ends no earlier than the bookings before it.
func (q *query) endOf(r *stint.Request, at int64, come bool) int64 {
	switch {
	case r.Terms().Lease > 0:
		return q.now + r.Terms().Lease.Microseconds()
	case at == q.now:
		return max(at-r.Terms().Age.Microseconds(), 1)
	}
	end := at + contract.Grace(r).Microseconds()
	if come || r.Mode == driver.ModeForce {
		return q.endAmong(at, end)
	}
	for k := range q.views {
		end = max(end, q.views[k].LastEnd())
	}
	return end
}

// endAmong returns the end of a new booking that begins at the instant `at`. Other bookings may be
// later. end is the end that the new booking would have without them. The result is no earlier than
// the ends of the bookings before it and, if possible, no later than the ends of the bookings after
// it.
func (q *query) endAmong(at, end int64) int64 {
	last := int64(0)
	for k := range q.views {
		before, after := q.views[k].EndsAround(at)
		last, end = max(last, before), min(end, after)
	}
	return max(last, end)
}

// force charges units that were used at the instant `end`. But if the instant `at` is before end,
// it books the units for the time between the two. It drops units that the count cannot hold.
func (v *view) force(at, end, units, refilled int64) {
	if units = min(units, v.Spare()); at < end && units > 0 {
		v.Insert(at, end, units)
	} else {
		v.ChargeLate(end, units, refilled)
	}
}

func name(r *stint.Request, d *stint.Decision, id uint64, at int64) {
	c := &d.Charge
	c.Data().ID, c.Data().At, c.Claims()[0].Cost = id, at, r.Claims[0].Cost
}
