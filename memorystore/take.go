package memorystore

import (
	"context"
	"hash/maphash"
	"math"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// Take implements [stint.Store].
func (s *Store) Take(ctx context.Context, r stint.Request) (d stint.Decision, err error) {
	if err := s.ready(ctx, "take"); err != nil {
		return d, err
	}
	if len(r.And) == 0 && r.Subject != "" {
		s.takeOne(&r, &d)
		return d, nil
	}
	q := s.lock(&r.Claim, r.And)
	if q == nil {
		return d, r.Validate()
	}
	defer q.unlock()
	q.decide(&r, &d)
	return d, nil
}

// takeOne decides on a single claim.
func (s *Store) takeOne(r *stint.Request, d *stint.Decision) {
	h := maphash.String(s.seed, r.Subject)
	sh := &s.shards[h>>s.shift]
	hash := withScope(s.seed, h, r.Scope)
	now := s.read()
	sh.mu.Lock()
	now = sh.follow(now)
	rec := sh.find(hash, r.Subject, r.Scope)
	if sh.quick(r, rec, d, now) {
		sh.mu.Unlock()
		return
	}
	q := &sh.query
	q.begin(s, now, 1)
	q.parts[0] = part{shard: sh, rec: rec, subject: h, hash: hash}
	q.decide(r, d)
	q.unlock()
}

// decide answers a request: ban, request id, limits, charge, strike.
func (q *query) decide(r *stint.Request, d *stint.Decision) {
	d.Charge = stint.ChargeOf(r)
	if q.banned(r, d) {
		q.open(&r.Claim, r.And, true)
		q.fit(r)
		q.retries(r, d)
		q.conclude(d)
		return
	}
	if r.ID != "" && r.Cost > 0 && q.repeated(r, d) {
		q.open(&r.Claim, r.And, true)
		d.Grow(len(q.views))
		q.conclude(d)
		return
	}
	peek := r.Mode == stint.Peek
	q.open(&r.Claim, r.And, peek)
	q.fit(r)
	at := q.retries(r, d)
	if at != q.now || r.Mode == stint.Reserve {
		at = q.when(r, at)
	}
	switch {
	case at != q.now:
		d.RetryAfter = wait(at, q.now)
		d.Allowed = r.Mode == stint.Reserve && at != algorithm.Never &&
			d.RetryAfter <= r.Longest() && !q.fullyBooked()
	case r.Lease > 0 && q.promised(r, d):
		d.RetryAfter = r.Lease
	default:
		d.Allowed = true
	}
	switch {
	case !d.Allowed:
		q.deny(r, d)
	case !peek:
		q.charge(r, d, at)
	}
	if !peek && q.store.clock != nil {
		q.stepBans(r)
	}
	q.conclude(d)
}

// fit lowers the cost of a request that asks for it to what every limit has left,
// but not below one unit. Such a request has one claim.
func (q *query) fit(r *stint.Request) {
	if !r.Fit && r.Lease == 0 {
		return
	}
	for k := range q.views {
		v := &q.views[k]
		r.Cost = min(r.Cost, v.limit.Capacity()-v.used())
	}
	r.Cost = max(r.Cost, 1)
}

// promised reports whether what is left of a limit is booked: there may be room
// for the cost now, but not during all of a lease. It fills in when such limits
// are to be asked again.
func (q *query) promised(r *stint.Request, d *stint.Decision) bool {
	usages, promised := d.Usages(), false
	for k := range q.views {
		if v := &q.views[k]; v.used()+r.Cost > v.limit.Capacity() {
			usages[k].RetryAfter = r.Lease
			promised = true
		}
	}
	return promised
}

// retries fills in when each limit has room for its own. It returns when the
// last of them has.
func (q *query) retries(r *stint.Request, d *stint.Decision) int64 {
	usages := d.Grow(len(q.views))
	latest := q.now
	for i := range q.parts {
		p, cost := &q.parts[i], claimAt(&r.Claim, r.And, i).Cost
		for k := p.first; k < p.end; k++ {
			t := q.views[k].earliest(q.now, cost)
			if t != q.now {
				usages[k].RetryAfter = wait(t, q.now)
				latest = max(latest, t)
			}
		}
	}
	return latest
}

// when returns the instant from which on, in Reserve mode not before any booking,
// all limits have room at the same time, given when the last of them has.
func (q *query) when(r *stint.Request, latest int64) int64 {
	if latest == algorithm.Never || len(q.views) == 1 && r.Mode != stint.Reserve {
		return latest
	}
	at := q.now
	if r.Mode == stint.Reserve {
		for k := range q.views {
			_, last := q.views[k].bookings()
			at = max(at, last)
		}
	} else {
		at = latest
	}
	for {
		next := at
		for i := range q.parts {
			p, cost := &q.parts[i], claimAt(&r.Claim, r.And, i).Cost
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
		if n, _ := q.views[k].bookings(); n >= stint.MaxBookings {
			return true
		}
	}
	return false
}

// conclude fills in what is used.
func (q *query) conclude(d *stint.Decision) {
	usages := d.Usages()
	for k := range usages {
		v := &q.views[k]
		usages[k].Used = v.used()
		usages[k].ResetAfter = duration(v.reset())
	}
}

// deny names the claim that denied, and strikes its subject, unless that is shared.
func (q *query) deny(r *stint.Request, d *stint.Decision) {
	usages := d.Usages()
	denier := 0
search:
	for i := range q.parts {
		for k := q.parts[i].first; k < q.parts[i].end; k++ {
			if usages[k].RetryAfter != 0 {
				denier = i
				break search
			}
		}
	}
	c := claimAt(&r.Claim, r.And, denier)
	d.Decider = uint8(denier)
	if r.Bans == nil || r.Bans.After == 0 || r.Mode != stint.Take || c.Cost == 0 || c.Shared {
		return
	}
	b := q.newBan(&q.parts[denier], c)
	before := b.bytes()
	until := b.strike(r.Bans, q.now)
	q.grown += int64(b.bytes() - before)
	if until > 0 {
		d.Banned = true
		if d.RetryAfter != stint.Never {
			d.RetryAfter = max(d.RetryAfter, duration(until-q.now))
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
