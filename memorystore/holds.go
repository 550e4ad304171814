package memorystore

import (
	"unsafe"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// hold is what is recorded of an open hold of one state: when it expires, until when it can be
// settled, and what heartbeats have reported.
type hold struct{ expires, end, reported int64 }

// holds are those of one state, by the id of their charge.
type holds struct {
	open map[uint64]hold
	// sweepAt is how many there are when those that have ended are looked for.
	sweepAt int
	until   int64 // when the last one ends, or later
}

const fewHolds = 64

// find returns a hold that has not ended.
func (h *holds) find(id uint64, now int64) (hold, bool) {
	found, ok := h.open[id]
	return found, ok && found.end > now
}

// full returns when there is room for another hold, 0 if there is.
func (h *holds) full(now int64) (at int64) {
	if len(h.open) < storebounds.MaxHolds {
		return 0
	}
	if at = h.sweep(now); len(h.open) < storebounds.MaxHolds {
		return 0
	}
	return at
}

// sweep drops the holds that have ended, and returns when the next one does.
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

// bytes is about what the map takes: an entry and its share of what is free.
func (h *holds) bytes() int {
	return len(h.open) * int(unsafe.Sizeof(hold{})+8) * 3 / 2
}

// holdsOf returns the holds of a part's state, which may have none.
func (p *part) holdsOf() *holds {
	if p.rec == nil || p.rec.rest == nil {
		return nil
	}
	return &p.rec.rest.holds
}

// holdsFull reports whether a part's state has no room for another hold.
func (p *part) holdsFull(now int64) bool {
	h := p.holdsOf()
	return h != nil && h.full(now) > 0
}

// delayHold delays a request with a hold until all of its states have room for another, and returns
// when it could be taken.
func (q *query) delayHold(r *stint.Request, d *stint.Decision, at int64) int64 {
	if r.Hold == 0 || at == algorithm.Never {
		return at
	}
	for k := range q.views {
		v := &q.views[k]
		if v.holds() || v.cost == 0 {
			continue
		}
		if h := q.parts[v.part].holdsOf(); h != nil {
			if free := h.full(q.now); free > 0 {
				u := &d.Usages()[k]
				u.RetryAfter = max(u.RetryAfter, duration(free-q.now))
				at = max(at, free)
			}
		}
	}
	return at
}

// noteHolds records the holds of a charge, one for every state that has room for it.
func (q *query) noteHolds(id uint64, life, from int64) {
	expires := algorithm.Expiry(from, life)
	for k := range q.views {
		if v := &q.views[k]; v.leads && v.cost > 0 && !q.parts[v.part].holdsFull(q.now) {
			q.parts[v.part].record().more().holds.put(id, hold{expires, expires + life, 0}, q.now)
		}
	}
}

// eachHold calls f with the number of the first view of every state of a charge that has a hold,
// and its record. The limits of the state are those of the views with the same claim and part.
func (q *query) eachHold(c *stint.Charge, f func(first int, p *part, h hold)) {
	for k := range q.views {
		v := &q.views[k]
		if !v.leads || v.cost == 0 {
			continue
		}
		p := &q.parts[v.part]
		if list := p.holdsOf(); list != nil {
			if h, ok := list.find(c.Data().ID, q.now); ok {
				f(k, p, h)
			}
		}
	}
}

// ofState calls f with the views of the state that a view leads.
func (q *query) ofState(first int, f func(v *view)) {
	lead := &q.views[first]
	for k := first; k < len(q.views); k++ {
		if v := &q.views[k]; v.claim == lead.claim && v.part == lead.part && !v.holds() {
			f(v)
		}
	}
}

// settleHolds charges the true cost of a charge with holds, and ends them.
func (q *query) settleHolds(c *stint.Charge, a *stint.Amendment) (done stint.Amended) {
	data, life := c.Data(), c.Data().Hold.Microseconds()
	q.compare(data)
	dropped, sum := int64(0), totals{}
	q.eachHold(c, func(first int, p *part, h hold) {
		lead := &q.views[first]
		total, named := contract.TotalOf(a, lead.limit.Name)
		if !named {
			return
		}
		total = max(total, h.reported)
		delete(p.rec.rest.holds.open, data.ID)
		done.Changed = true
		q.ofState(first, func(v *view) {
			dropped = max(dropped, v.settleHold(h, life, data.AtOf(v.claim.number), total, a.MaxDebt, q.now, p.stale))
			q.write(v)
		})
		sum.add(a, lead.limit.Name, total)
	})
	for k := range q.views {
		v := &q.views[k]
		if total, named := contract.TotalOf(a, v.limit.Name); v.holds() && v.cost > 0 && named && total == 0 {
			q.store.released.Add(data.ID, v.claim.Claim)
			done.Changed = q.releasePlace(v, data.ID) || done.Changed
		}
	}
	done.Charged = max(sum.all-dropped, 0)
	return done
}

// totals sums up the true costs of a settlement, where it applied: that of each name once.
type totals struct {
	all   int64
	named stint.Costs
}

func (t *totals) add(a *stint.Amendment, name string, total int64) {
	if a.Costs == nil {
		t.all = max(t.all, total)
		return
	}
	if t.named == nil {
		t.named = stint.Costs{}
	}
	before := t.named[name]
	t.named[name] = max(before, total)
	t.all += t.named[name] - before
}

// settleHold settles one limit of a hold to a total. It returns how much of that is not charged.
func (v *view) settleHold(h hold, life, at, total, debt, now int64, stale bool) (dropped int64) {
	charged := max(v.cost, h.reported)
	if algorithm.Stock(v.limit, life) {
		open := h.expires > now
		if open && !stale {
			v.Release(h.expires, max(v.cost-h.reported, 0))
		}
		if open || !v.limit.ChargeExpired {
			return v.ChargeMore(total-h.reported, debt)
		}
		at = h.expires
	}
	if !stale && v.index >= 0 {
		if left, ok := v.Settle(at, charged, total, debt); ok {
			return max(total-left, 0)
		}
	}
	return v.ChargeMore(total-charged, debt)
}

// extendHolds renews the holds of a charge, and charges what was used so far. It reports whether
// there are some, and all were open.
func (q *query) extendHolds(c *stint.Charge, a *stint.Amendment) bool {
	data, life := c.Data(), c.Data().Hold.Microseconds()
	q.compare(data)
	want, open := 0, 0
	for k := range q.views {
		if v := &q.views[k]; v.leads && v.cost > 0 {
			want++
		}
	}
	found := false
	q.eachHold(c, func(first int, p *part, h hold) {
		found = true
		total, _ := contract.TotalOf(a, q.views[first].limit.Name)
		expires := algorithm.Expiry(q.now, life)
		after := hold{h.expires, expires + life, max(total, h.reported)}
		isOpen := h.expires > q.now
		if isOpen {
			open++
			after.expires = expires
		}
		q.ofState(first, func(v *view) {
			more := after.reported - max(v.cost, h.reported)
			if algorithm.Stock(v.limit, life) {
				if isOpen && !p.stale {
					v.Release(h.expires, max(v.cost-h.reported, 0))
					v.Hold(after.expires, max(v.cost-after.reported, 0), v.limit.ChargeExpired)
				}
				if isOpen || !v.limit.ChargeExpired {
					more = after.reported - h.reported
				}
			}
			v.ChargeMore(more, a.MaxDebt)
			q.write(v)
		})
		p.rec.rest.holds.put(data.ID, after, q.now)
	})
	if found {
		q.prolong(data)
	}
	return want > 0 && open == want
}
