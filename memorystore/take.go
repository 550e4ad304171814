package memorystore

import (
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// Take implements [stint.Store].
func (s *Store) Take(ctx context.Context, r stint.Request) (d stint.Decision, err error) {
	if err := s.ready(ctx, "take"); err != nil {
		return d, err
	}
	if len(r.Claims) > 0 && s.takePlain(ctx, &r, &d) {
		return d, nil
	}
	q := s.lock(r.Claims)
	if q == nil {
		return d, r.Validate()
	}
	q.decide(&r, &d)
	q.unlock()
	return d, nil
}

// decide answers a request. In this order, it checks for a ban, looks for a repeat of the request
// id, checks the limits, and charges the request or, if it is denied, may add a strike.
func (q *query) decide(r *stint.Request, d *stint.Decision) {
	d.Charge = contract.ChargeOf(r)
	if r.Mode == driver.ModeForce {
		q.force(r, d)
		return
	}
	if q.banned(r, d) {
		q.open(true)
		q.fit(r)
		q.earliest(r, true, d)
		q.conclude(d, q.now)
		return
	}
	if r.ID != "" && contract.Charges(&r.Claims[0]) && r.Terms().Booked == nil && q.repeated(r, d) {
		q.open(true)
		d.MakeUsages(len(q.views))
		q.conclude(d, q.now)
		return
	}
	peek := r.Mode == stint.ModePeek
	q.open(peek)
	q.fit(r)
	old := q.behind(r)
	come := old == 0 && !peek && q.giveUp(r)
	at := q.delayHold(r, d, q.earliest(r, come, d))
	if come {
		q.only(algorithm.Never)
	}
	switch {
	case at != q.now:
		d.RetryAfter = wait(at, q.now)
		d.Allowed = r.Mode == stint.ModeReserve && at != algorithm.Never &&
			d.RetryAfter <= contract.Longest(r) && (come || !q.fullyBooked()) && at < q.horizon()
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

// force charges a request whether or not there is room, at the end of its MaxWait, which is now if
// MaxWait is 0. It does not charge a repeat.
func (q *query) force(r *stint.Request, d *stint.Decision) {
	repeat := r.ID != "" && contract.Charges(&r.Claims[0]) && q.repeated(r, d)
	q.open(repeat)
	d.MakeUsages(len(q.views))
	at := q.now
	if !repeat {
		at += (r.MaxWait + time.Microsecond - 1).Microseconds()
		d.Allowed, d.RetryAfter = true, contract.Duration(at-q.now)
		q.charge(r, d, at, false)
	}
	q.conclude(d, at)
	q.noteID(r, d, at)
}

// fit lowers the cost of a request with Fit or Lease (see [driver.Terms]) to the number of units
// that are left under every limit, but not below one. Such a request has one claim.
func (q *query) fit(r *stint.Request) {
	if !r.Terms().Fit && r.Terms().Lease == 0 {
		return
	}
	c := r.Claims[0]
	for k := range q.views {
		v := &q.views[k]
		c.Cost = min(c.Cost, v.limit.Capacity()-v.Used())
	}
	c.Cost = max(c.Cost, 1)
	r.Claims = []stint.Claim{c} // a copy: the caller's claims stay unchanged
	q.claims[0].Claim = &r.Claims[0]
	for k := range q.views {
		q.views[k].cost = c.Cost
	}
}

// promised reports whether any limit has room for the lease now but will lack it before the lease
// ends, because of bookings. It sets the RetryAfter of each such limit.
func (q *query) promised(r *stint.Request, d *stint.Decision) bool {
	usages, promised := d.Usages(), false
	for k := range q.views {
		if v := &q.views[k]; v.Used()+r.Claims[0].Cost > v.limit.Capacity() {
			usages[k].RetryAfter = r.Terms().Lease
			promised = true
		}
	}
	return promised
}

// earliest returns the first instant at which all limits have room. If that is not now, it is not
// before the last booking. In ModeReserve, a limit with bookings has room now only if ahead is
// true. earliest also sets the RetryAfter of each limit to the wait until that limit alone has
// room.
func (q *query) earliest(r *stint.Request, ahead bool, d *stint.Decision) int64 {
	usages := d.MakeUsages(len(q.views))
	from, latest, fits := q.now, q.now, true
	for k := range q.views {
		v := &q.views[k]
		if r.Mode == stint.ModeReserve {
			v.Books()
		}
		n, last := v.Bookings()
		from = max(from, last)
		if v.Fits(v.cost) && (n == 0 || ahead || r.Mode != stint.ModeReserve) {
			continue
		}
		fits = false
		t := v.Earliest(max(q.now, last), v.cost)
		usages[k].RetryAfter = wait(t, q.now)
		latest = max(latest, t)
	}
	if fits || latest == algorithm.Never || len(q.views) == 1 {
		return latest
	}
	return q.together(max(from, latest))
}

// together returns the first instant at which all limits have room, but no earlier than `at`. No
// booking may be later than `at`.
func (q *query) together(at int64) int64 {
	for {
		next := at
		for k := range q.views {
			v := &q.views[k]
			next = max(next, v.Earliest(at, v.cost))
		}
		if next == at || next == algorithm.Never {
			return next
		}
		at = next
	}
}

// horizon returns the first instant that cannot be booked, or algorithm.Never.
func (q *query) horizon() int64 {
	at := algorithm.Never
	for k := range q.views {
		at = min(at, q.views[k].Horizon())
	}
	return at
}

func (q *query) fullyBooked() bool {
	for k := range q.views {
		if n, _ := q.views[k].Bookings(); n >= driver.MaxBookings {
			return true
		}
	}
	return false
}

// conclude fills in the time of the decision, the generations of the records, and the usages. The
// argument at is the instant of a booking, or q.now.
func (q *query) conclude(d *stint.Decision, at int64) {
	d.Charge.Data().Now = q.now
	// An allowed repeat may have the charge of the original request, which already has its
	// generations.
	if !d.Repeat || d.Charge.IsZero() {
		n := 0
		for k := range q.views {
			if v := &q.views[k]; v.leads {
				contract.SetGeneration(&d.Charge, n, q.parts[v.part].generation())
				n++
			}
		}
	}
	usages := d.Usages()
	for k := range usages {
		v := &q.views[k]
		used, reset := v.Used(), v.Reset()
		if at > q.now {
			used, reset = v.At(at)
		}
		usages[k].Used, usages[k].ResetAfter = used, contract.Duration(reset)
	}
}

// deny sets d.Denier to the number of the claim that denied the request. In ModeTake under a ban
// policy that counts denials, it also adds a strike to the claim's subject, unless the claim is
// shared or costs nothing.
func (q *query) deny(r *stint.Request, d *stint.Decision) {
	c := &q.claims[0]
	if k := slices.IndexFunc(d.Usages(), func(u stint.Usage) bool { return u.RetryAfter != 0 }); k >= 0 {
		c = q.views[k].claim
	}
	d.Denier = uint8(c.number + 1)
	if r.Bans == nil || r.Bans.After == 0 || r.Mode != stint.ModeTake || !contract.Charges(c.Claim) || c.Shared {
		return
	}
	if until := q.newBan(c).strike(r.Bans, q.now); until > 0 {
		d.Banned, d.BanLeft = true, contract.Duration(until-q.now)
		d.RetryAfter = max(d.RetryAfter, d.BanLeft)
	}
}

// wait returns the time from now until the instant `at`, or stint.Never if at is algorithm.Never.
func wait(at, now int64) time.Duration {
	if at == algorithm.Never {
		return stint.Never
	}
	return contract.Duration(at - now)
}
