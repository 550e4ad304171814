package memorystore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// maxQuick is how many limits the quick way decides on.
const maxQuick = 8

// quick decides what most requests are: one known subject, a few limits of one name that are not on
// holders, a clock that runs forward, nothing booked, and no ban to look for. It is what decide
// does, less everything that then cannot happen. It reports false, with nothing written, if a
// request is not like that.
func (sh *shard) quick(r *stint.Request, rec *record, d *stint.Decision, now int64) bool {
	limits, cost := r.Limits, r.Cost
	if rec == nil || now < rec.last || r.Bans != nil && sh.bans != 0 || len(limits) > maxQuick ||
		r.Mode == stint.ModeReserve || r.ID != "" || r.Fit || r.Lease != 0 || r.Mode == stint.ModeForce &&
		r.MaxWait > 0 ||
		cost <= 0 && r.Mode != stint.ModePeek {
		return false
	}
	fits := true
	for i := range limits {
		c, p := sh.usual(rec, &limits[i])
		if c == nil || c.Booked() {
			return false
		}
		sh.quicks[i].Open(c, p, now, 0)
		fits = fits && sh.quicks[i].Fits(cost)
	}
	if !fits && (r.Bans != nil || r.Mode == stint.ModeForce) {
		return false
	}
	d.Allowed = fits
	// Field by field: as a whole it was copied twice, by loads of twice the size of the latest
	// stores, which have to wait for these: 5 % of a decision.
	c := &d.Charge.Claim
	c.Subject, c.Scope, c.Limits, c.Cost, c.Shared = r.Subject, r.Scope, r.Limits, r.Cost, r.Shared
	switch {
	case fits && r.Mode != stint.ModePeek:
		sh.quickCharge(r, rec, d, now)
	case fits:
		usages := d.MakeUsages(len(limits))
		for i := range limits {
			q := &sh.quicks[i]
			usages[i].Used, usages[i].ResetAfter = q.Used(), duration(q.Reset())
		}
	default:
		sh.quickDeny(r, d, now)
	}
	return true
}

func (sh *shard) quickCharge(r *stint.Request, rec *record, d *stint.Decision, now int64) {
	limits, cost := r.Limits, r.Cost
	usages := d.MakeUsages(len(limits))
	bytes := 0
	for i := range limits {
		u, q := &usages[i], &sh.quicks[i]
		bytes += q.Charge(cost)
		u.Used, u.ResetAfter = q.Used(), duration(q.Reset())
	}
	rec.last = now
	if bytes != 0 {
		sh.grown += int64(bytes)
	}
	c := &d.Charge
	c.ID, c.At, c.Generation = sh.nextSerial(), now, rec.generation
}

// unlockGrown counts by how much the quick way has let a record grow, and gives the lock back.
func (sh *shard) unlockGrown(rec *record, now int64) {
	s, bytes := sh.store, sh.grown
	sh.grown = 0
	if s.add(bytes, 0, s.bounds) {
		sh.mu.Unlock()
		return
	}
	w := written{shard: sh.number, now: now, bytes: bytes, spare: []*record{rec}}
	sh.evictIfHeavy(&w)
	sh.mu.Unlock()
	s.makeRoom(&w)
}

func (sh *shard) quickDeny(r *stint.Request, d *stint.Decision, now int64) {
	limits, cost := r.Limits, r.Cost
	usages := d.MakeUsages(len(limits))
	latest := now
	for i := range limits {
		u, q := &usages[i], &sh.quicks[i]
		u.Used, u.ResetAfter = q.Used(), duration(q.Reset())
		if !q.Fits(cost) {
			t := q.Earliest(now, cost)
			u.RetryAfter = wait(t, now)
			latest = max(latest, t)
		}
	}
	d.RetryAfter = wait(latest, now)
}

// usual returns the count of a limit and its parameters, nil if the record has none that was last
// charged under just this limit.
func (sh *shard) usual(r *record, l *stint.Limit) (*algorithm.Count, *algorithm.Params) {
	if v := sh.variants[r.count.Owner]; v != nil && v.is(l) {
		return &r.count, &v.params
	}
	if r.rest != nil {
		for i := range r.rest.counts {
			if v := sh.variants[r.rest.counts[i].Owner]; v != nil && v.is(l) {
				return &r.rest.counts[i], &v.params
			}
		}
	}
	return nil, nil
}

// is reports whether the variant is of just this limit.
func (v *variant) is(l *stint.Limit) bool {
	m := &v.limit
	return m.Max == l.Max && m.Window == l.Window && m.Burst == l.Burst && m.Algorithm == l.Algorithm &&
		len(m.Name) == len(l.Name) && (m.Name == "" || m.Name == l.Name)
}
