package memorystore

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// maxQuick is how many limits the quick way decides on.
const maxQuick = 8

// quick decides what most requests are: one known subject, a few limits of one name that are not on
// holders, a clock that runs forward, nothing booked, and no ban to look for. It is what decide
// does, less everything that then cannot happen. It reports false, with nothing written, if a
// request is not like that.
func (sh *shard) quick(r *stint.Request, rec *record, d *stint.Decision, now int64) bool {
	claim, terms := &r.Claims[0], r.Terms()
	if r.Bans != nil && sh.bans != 0 || len(claim.Limits) > maxQuick || r.Mode == stint.ModeReserve || r.ID != "" ||
		terms.Fit || terms.Lease != 0 ||
		r.Mode == driver.ModeForce && (r.MaxWait > 0 || terms.Age != 0 || terms.Refilled != 0) ||
		claim.Cost <= 0 && r.Mode != stint.ModePeek {
		return false
	}
	fits, ok := sh.quickOpen(rec, claim.Limits, claim.Cost, now)
	if !ok || !fits && (r.Bans != nil || r.Mode == driver.ModeForce) {
		return false
	}
	d.Charge.SetClaims(r.Claims)
	c := d.Charge.Data()
	c.Now, c.Generation = now, rec.generation
	usages := d.MakeUsages(len(claim.Limits))
	switch {
	case !fits:
		d.Denier, d.RetryAfter = 1, sh.quickDeny(usages, claim.Cost, now)
	case r.Mode != stint.ModePeek:
		sh.quickCharge(rec, usages, claim.Cost, now)
		c.ID, c.At = sh.nextSerial(), now
	}
	d.Allowed = fits
	sh.quickUsed(usages)
	return true
}

// quickOpen opens the views of the limits, if that is all it takes to decide, and reports whether
// all of them have room.
func (sh *shard) quickOpen(rec *record, limits []stint.Limit, cost, now int64) (fits, ok bool) {
	if rec == nil || now < rec.last {
		return false, false
	}
	fits = true
	for i := range limits {
		c, p := sh.usual(rec, &limits[i])
		if c == nil || c.Booked() {
			return false, false
		}
		v := &sh.quicks[i]
		v.Open(c, p, now, 0)
		fits = fits && v.Fits(cost)
	}
	return fits, true
}

// quickCharge charges a cost to the opened views.
func (sh *shard) quickCharge(rec *record, usages []stint.Usage, cost, now int64) {
	bytes := 0
	for i := range usages {
		bytes += sh.quicks[i].Charge(cost)
	}
	rec.last = now
	if bytes != 0 {
		sh.grown += int64(bytes)
	}
}

// quickDeny fills in when each of the opened views has room, and returns when all of them have.
func (sh *shard) quickDeny(usages []stint.Usage, cost, now int64) time.Duration {
	latest := now
	for i := range usages {
		if v := &sh.quicks[i]; !v.Fits(cost) {
			t := v.Earliest(now, cost)
			usages[i].RetryAfter = wait(t, now)
			latest = max(latest, t)
		}
	}
	return wait(latest, now)
}

// quickUsed fills in what is used of the opened views.
func (sh *shard) quickUsed(usages []stint.Usage) {
	for i := range usages {
		v := &sh.quicks[i]
		usages[i].Used, usages[i].ResetAfter = v.Used(), duration(v.Reset())
	}
}

// leave gives the lock back after the quick way has decided.
func (sh *shard) leave(rec *record, now int64) {
	if sh.grown != 0 {
		sh.unlockGrown(rec, now)
	} else {
		sh.mu.Unlock()
	}
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
