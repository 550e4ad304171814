package memorystore

import (
	"context"
	"hash/maphash"
	"math"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// Take implements [stint.Store].
func (s *Store) Take(ctx context.Context, r stint.Request) (d stint.Decision, err error) {
	if err := s.ready(ctx, "take"); err != nil {
		return d, err
	}
	if len(r.Claims) == 1 && r.Claims[0].Subject != "" {
		s.takeOne(&r, &d)
		return d, nil
	}
	if len(r.Claims) == 0 {
		return d, r.Validate()
	}
	q := s.lock(r.Claims)
	if q == nil {
		return d, r.Validate()
	}
	defer q.unlock()
	q.decide(&r, &d)
	return d, nil
}

// takeOne decides on a single claim.
func (s *Store) takeOne(r *stint.Request, d *stint.Decision) {
	h := maphash.String(s.seed, r.Claims[0].Subject)
	sh := &s.shards[h>>s.shift]
	name := ""
	if len(r.Claims[0].Limits) > 0 {
		name = r.Claims[0].Limits[0].Name
	}
	hash := withScope(s.seed, h, r.Claims[0].Scope, name)
	now := s.read()
	sh.mu.Lock()
	now = sh.follow(now)
	rec := sh.find(hash, r.Claims[0].Subject, r.Claims[0].Scope, name)
	if sh.quick(r, rec, d, now) {
		sh.leave(rec, now)
		return
	}
	q := &sh.query
	q.begin(s, now, 1)
	if name == "" {
		q.parts[0] = part{shard: sh, rec: rec, subject: h, hash: hash}
	} else {
		q.find(0, sh, h, &r.Claims[0])
	}
	q.decide(r, d)
	q.unlock()
}

// decide answers a request: ban, request id, limits, charge, strike.
func (q *query) decide(r *stint.Request, d *stint.Decision) {
	d.Charge = contract.ChargeOf(r)
	if r.Mode == driver.ModeForce {
		q.force(r, d)
		return
	}
	if q.banned(r, d) {
		q.open(r.Claims, true)
		q.fit(r)
		q.earliest(r, true, d)
		q.conclude(d, q.now)
		return
	}
	if r.ID != "" && r.Claims[0].Cost > 0 && r.Terms().Booked == nil && q.repeated(r, d) {
		q.open(r.Claims, true)
		d.MakeUsages(len(q.views))
		q.conclude(d, q.now)
		return
	}
	peek := r.Mode == stint.ModePeek
	q.open(r.Claims, peek)
	q.fit(r)
	old := q.behind(r)
	come := old == 0 && !peek && q.giveUp(r)
	at := q.earliest(r, come, d)
	if come {
		q.only(algorithm.Never)
	}
	switch {
	case at != q.now:
		d.RetryAfter = wait(at, q.now)
		d.Allowed = r.Mode == stint.ModeReserve && at != algorithm.Never &&
			d.RetryAfter <= contract.Longest(r) && (come || !q.fullyBooked())
	case r.Terms().Lease > 0 && q.promised(r, d):
		d.RetryAfter = r.Terms().Lease
	default:
		d.Allowed = true
	}
	switch {
	case old > 0 && (!d.Allowed || at >= old):
		at = old
		q.stay(r, d, at)
	case !d.Allowed:
		at = q.now
		q.deny(r, d)
	case !peek:
		q.charge(r, d, at, come)
		if old > 0 {
			q.only(algorithm.Never)
		}
	}
	if !peek && q.store.clock != nil {
		q.stepBans(r)
	}
	q.conclude(d, at)
	q.noteID(r, d, at)
}

// force charges a request whether or not there is room: now, or so long from now.
func (q *query) force(r *stint.Request, d *stint.Decision) {
	repeat := r.ID != "" && r.Claims[0].Cost > 0 && q.repeated(r, d)
	q.open(r.Claims, repeat)
	d.MakeUsages(len(q.views))
	at := q.now
	if !repeat {
		at += (r.MaxWait + time.Microsecond - 1).Microseconds()
		d.Allowed, d.RetryAfter = true, duration(at-q.now)
		q.charge(r, d, at, false)
	}
	q.conclude(d, at)
	q.noteID(r, d, at)
}

// fit lowers the cost of a request that asks for it to what every limit has left, but not below one
// unit. Such a request has one claim.
func (q *query) fit(r *stint.Request) {
	if !r.Terms().Fit && r.Terms().Lease == 0 {
		return
	}
	c := r.Claims[0]
	for k := range q.views {
		v := &q.views[k]
		c.Cost = min(c.Cost, v.limit.Capacity()-v.used())
	}
	c.Cost = max(c.Cost, 1)
	r.Claims = []stint.Claim{c} // those of the caller stay as they are
}

// promised reports whether what is left of a limit is booked: there may be room for the cost now,
// but not during all of a lease. It fills in when such limits are to be asked again.
func (q *query) promised(r *stint.Request, d *stint.Decision) bool {
	usages, promised := d.Usages(), false
	for k := range q.views {
		if v := &q.views[k]; v.used()+r.Claims[0].Cost > v.limit.Capacity() {
			usages[k].RetryAfter = r.Terms().Lease
			promised = true
		}
	}
	return promised
}

// earliest returns the first instant at which all limits have room, in Reserve mode not before any
// booking, unless the request goes ahead of them. It fills in when each limit has room for its own.
func (q *query) earliest(r *stint.Request, ahead bool, d *stint.Decision) int64 {
	usages := d.MakeUsages(len(q.views))
	from, latest, fits := q.now, q.now, true
	for i := range q.claims {
		p, cost := &q.parts[i], r.Claims[i].Cost
		for k := p.first; k < p.end; k++ {
			v := &q.views[k]
			n, last := v.bookings()
			from = max(from, last)
			if v.fits(cost) && (n == 0 || ahead || r.Mode != stint.ModeReserve) {
				continue
			}
			fits = false
			t := v.earliest(max(q.now, last), cost)
			usages[k].RetryAfter = wait(t, q.now)
			latest = max(latest, t)
		}
	}
	if fits || latest == algorithm.Never || len(q.views) == 1 {
		return latest
	}
	return q.together(r, max(from, latest))
}

// together returns the first instant, not before one that no booking comes after, at which all
// limits have room at the same time.
func (q *query) together(r *stint.Request, at int64) int64 {
	for {
		next := at
		for i := range q.claims {
			p, cost := &q.parts[i], r.Claims[i].Cost
			for k := p.first; k < p.end; k++ {
				next = max(next, q.views[k].earliest(at, cost))
			}
		}
		if next == at || next == algorithm.Never {
			return next
		}
		at = next
	}
}

func (q *query) fullyBooked() bool {
	for k := range q.views {
		if n, _ := q.views[k].bookings(); n >= storebounds.MaxBookings {
			return true
		}
	}
	return false
}

// conclude fills in what is used, now or at the instant of a booking, and as of when.
func (q *query) conclude(d *stint.Decision, at int64) {
	d.Charge.Data().Now = q.now
	if !d.Repeat || d.Charge.IsZero() { // else it has the generations of the first request
		q.eachState(d.Charge.Claims(), func(i int, p *part) {
			generation := uint32(0)
			if p.rec != nil {
				generation = p.rec.generation
			}
			contract.SetGeneration(&d.Charge, i, generation)
		})
	}
	usages := d.Usages()
	for k := range usages {
		v, used, reset := &q.views[k], int64(0), int64(0)
		if at > q.now && !v.holds() {
			used, reset = v.count.At(at)
		} else {
			used, reset = v.used(), v.reset()
		}
		usages[k].Used, usages[k].ResetAfter = used, duration(reset)
	}
}

// deny names the claim that denied, and strikes its subject, unless that is shared.
func (q *query) deny(r *stint.Request, d *stint.Decision) {
	usages := d.Usages()
	denier := 0
search:
	for i := range q.claims {
		for k := q.parts[i].first; k < q.parts[i].end; k++ {
			if usages[k].RetryAfter != 0 {
				denier = i
				break search
			}
		}
	}
	c := &r.Claims[denier]
	d.Denier = uint8(denier + 1)
	if r.Bans == nil || r.Bans.After == 0 || r.Mode != stint.ModeTake || c.Cost == 0 || c.Shared {
		return
	}
	b := q.newBan(&q.parts[denier], c)
	before := b.bytes()
	until := b.strike(r.Bans, q.now)
	q.grown += int64(b.bytes() - before)
	if until > 0 {
		d.Banned, d.BanLeft = true, duration(until-q.now)
		if d.RetryAfter != stint.Never {
			d.RetryAfter = max(d.RetryAfter, d.BanLeft)
		}
	}
}

// wait is the time from now until an instant.
func wait(at, now int64) time.Duration {
	if at == algorithm.Never {
		return stint.Never
	}
	return duration(at - now)
}

// duration turns microseconds into a duration, the longest there is if need be.
func duration(us int64) time.Duration {
	if us > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}
