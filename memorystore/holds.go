package memorystore

import (
	"unsafe"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// hold is an open hold of a charge in one record. It has the time at which it expires, the time
// after which it can no longer be settled, and the cost that heartbeats have reported.
type hold struct{ expires, end, reported int64 }

// holds contains the holds in one record, by the id of their charge.
type holds struct {
	open map[uint64]hold
	// sweepAt is the number of holds at which put drops those that have ended.
	sweepAt int
	until   int64 // when the last hold ends, or later
}

const fewHolds = 64

// sweep drops the holds that have ended, and returns the end of the hold that ends next, or
// algorithm.Never if no hold remains.
func (h *holds) sweep(now int64) int64 {
	next := algorithm.Never
	for id, open := range h.open {
		if open.end <= now {
			delete(h.open, id)
		} else {
			next = min(next, open.end)
		}
	}
	h.sweepAt = max(2*len(h.open), fewHolds)
	return next
}

func (h *holds) put(id uint64, x hold, now int64) {
	if x.end <= now {
		return
	}
	if h.open == nil {
		h.open, h.sweepAt = make(map[uint64]hold), fewHolds
	}
	if len(h.open) >= h.sweepAt {
		h.sweep(now)
	}
	h.open[id] = x
	h.until = max(h.until, x.end)
}

func (h *holds) dead(now int64) bool { return len(h.open) == 0 || h.until <= now }

// bytes estimates the memory that the map uses: its entries, each with a share of the free slots.
func (h *holds) bytes() int {
	return len(h.open) * int(unsafe.Sizeof(hold{})+8) * 3 / 2
}

// hold returns the hold of a charge in the part's record. It reports false if there is none, or if
// it has ended.
func (p *part) hold(id uint64, now int64) (hold, bool) {
	if p.rec == nil || p.rec.rest == nil {
		return hold{}, false
	}
	h, ok := p.rec.rest.holds.open[id]
	return h, ok && h.end > now
}

// holdsFull returns the instant at which a part's record will have room for another hold, or 0 if
// it has room now.
func (p *part) holdsFull(now int64) (at int64) {
	if p.rec == nil || p.rec.rest == nil {
		return 0
	}
	h := &p.rec.rest.holds
	if len(h.open) >= driver.MaxHolds {
		at = h.sweep(now)
	}
	if len(h.open) < driver.MaxHolds {
		return 0
	}
	return at
}

// delayHold returns the earliest instant at which a request with a hold fits, given that its limits
// have room at the instant `at`. The result may be later than that, because the records must have
// room for another hold, too. delayHold raises the RetryAfter of the limits accordingly.
func (q *query) delayHold(r *stint.Request, d *stint.Decision, at int64) int64 {
	if r.Hold == 0 || at == algorithm.Never {
		return at
	}
	for k := range q.views {
		v := &q.views[k]
		if v.holds() || v.cost == 0 {
			continue
		}
		if free := q.parts[v.part].holdsFull(q.now); free > 0 {
			u := &d.Usages()[k]
			u.RetryAfter = max(u.RetryAfter, contract.Duration(free-q.now))
			at = max(at, free)
		}
	}
	return at
}

// noteHolds records the holds of a charge, one in every record that has room for another hold.
func (q *query) noteHolds(id uint64, life, from int64) {
	expires := algorithm.Expiry(from, life)
	for k := range q.views {
		if v := &q.views[k]; v.leads && v.cost > 0 && q.parts[v.part].holdsFull(q.now) == 0 {
			q.parts[v.part].record().more().holds.put(id, hold{expires, expires + life, 0}, q.now)
		}
	}
}

// amendHolds settles the holds of a charge to their true cost or, if the amendment extends them,
// renews them and charges the units used so far. It returns the units charged and, for an
// extension, whether every record of the charge had an open hold.
func (q *query) amendHolds(c *stint.Charge, a *stint.Amendment) (done stint.Amended, open bool) {
	data, life, until := c.Data(), c.Data().Hold.Microseconds(), int64(0)
	if a.Kind == stint.AmendExtend {
		until = algorithm.Expiry(q.now, life)
	}
	q.compare(data)
	wanted, found, dropped, sum := 0, 0, int64(0), contract.Totals{}
	for k := range q.views {
		lead := &q.views[k]
		if !lead.leads || lead.cost == 0 {
			continue
		}
		wanted++
		p := &q.parts[lead.part]
		total, named := contract.TotalOf(a, lead.limit.Name)
		h, ok := p.hold(data.ID, q.now)
		if !ok || !named && until == 0 {
			continue
		}
		done.Changed = true
		total = max(total, h.reported)
		for i := k; i < len(q.views); i++ { // all limits of the record
			if v := &q.views[i]; v.claim == lead.claim && v.part == lead.part && !v.holds() {
				at := data.AtOf(v.claim.number)
				dropped = max(dropped, v.amendHold(h, total, until, life, at, a.MaxDebt, q.now, p.stale))
				q.write(v)
			}
		}
		delete(p.rec.rest.holds.open, data.ID)
		sum.Add(a, lead.limit.Name, total)
		if until > 0 {
			after := hold{h.expires, until + life, total}
			if h.expires > q.now {
				found++
				after.expires = until
			}
			p.rec.rest.holds.put(data.ID, after, q.now)
		}
	}
	if done.Changed && until > 0 {
		q.prolong(data)
	}
	done.Charged = max(sum.Sum-dropped, 0)
	return done, wanted > 0 && found == wanted
}

// amendHold settles a charge with a hold, under one limit: total is the true cost. If until is not
// 0, amendHold instead extends the hold: it charges total, which is the usage so far, and holds the
// rest of the estimate until that time. It returns the part of total that is not charged.
func (v *view) amendHold(h hold, total, until, life, at, debt, now int64, stale bool) (dropped int64) {
	charged := max(v.cost, h.reported)
	if algorithm.Stock(v.limit, life) {
		open := h.expires > now
		if open && !stale {
			v.Release(h.expires, max(v.cost-h.reported, 0))
			if until > 0 {
				v.Hold(until, max(v.cost-total, 0), v.limit.ChargeExpired)
			}
		}
		if open || !v.limit.ChargeExpired {
			return v.ChargeMore(total-h.reported, debt)
		}
		at = h.expires
	}
	if until == 0 && !stale && v.index >= 0 {
		if left, ok := v.Settle(at, charged, total, debt); ok {
			return max(total-left, 0)
		}
	}
	return v.ChargeMore(total-charged, debt)
}

// settleHolds settles a charge with holds, and releases the places whose true cost is 0.
func (q *query) settleHolds(c *stint.Charge, a *stint.Amendment) stint.Amended {
	done, _ := q.amendHolds(c, a)
	for k := range q.views {
		v := &q.views[k]
		if total, named := contract.TotalOf(a, v.limit.Name); v.holds() && v.cost > 0 && named && total == 0 {
			q.store.released.Add(c.Data().ID, v.claim.Claim)
			done.Changed = q.releasePlace(v, c.Data().ID) || done.Changed
		}
	}
	return done
}
