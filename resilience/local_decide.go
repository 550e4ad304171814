package resilience

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// decide decides a request without the store.
func (l *local) decide(r *stint.Request, now, instances int64) (stint.Decision, error) {
	set := l.lock(r.Claims)
	defer l.unlock(set)
	var d stint.Decision
	var err error
	switch {
	case r.Mode == stint.ModeReserve:
		d, err = l.reserve(r, now, instances)
	case r.Mode == driver.ModeForce:
		d, err = l.own.Take(context.Background(), *r)
	default:
		d, err = l.take(r, now, instances)
	}
	if err != nil || !d.Allowed || d.Charge.Data().ID == 0 || d.Repeat {
		return d, err
	}
	for i := range r.Claims {
		c := &r.Claims[i]
		if c.Cost == 0 {
			continue
		}
		rec := l.record(c, now)
		for j := range c.Limits {
			k := rec.limit(&c.Limits[j])
			if k.limit.Algorithm == stint.AlgorithmConcurrency {
				k.places = k.placesNow(now) + 1
				k.placesAt = now
			} else {
				k.grant(c.Cost, now, now+int64(d.RetryAfter))
			}
		}
	}
	return d, nil
}

// take decides a Take or a Peek.
func (l *local) take(r *stint.Request, now, instances int64) (stint.Decision, error) {
	ctx := context.Background()
	if instances == 1 && !l.othersLeft(r, now) {
		return l.own.Take(ctx, *r)
	}
	look := *r
	look.Mode = stint.ModePeek
	peek, err := l.own.Take(ctx, look)
	if err != nil {
		return peek, err
	}
	var left units
	ok := l.left(r, &peek, now, instances, &left)
	if !peek.Allowed || peek.Repeat || ok && instances == 1 {
		d, err := l.own.Take(ctx, *r)
		l.showLeft(r, &d, &left)
		return d, err
	}
	if ok && r.Mode != stint.ModePeek {
		// The part of a limit that refills has a rate of its own.
		var part stint.Decision
		if part, err = l.since.Take(ctx, l.divide(r, instances)); err != nil {
			return part, err
		}
		if part.Allowed {
			d, err := l.own.Take(ctx, *r)
			if err == nil && d.Charge.Data().ID != 0 {
				l.counterparts.add(l.marked(d.Charge.Data().ID), counterpart{since: part.Charge})
			}
			l.showLeft(r, &d, &left)
			return d, err
		}
		for k, u := range part.Usages() {
			if u.RetryAfter != 0 {
				left[k] = 0
			}
		}
	}
	if ok && r.Mode == stint.ModePeek {
		l.showLeft(r, &peek, &left)
		return peek, nil
	}
	d := stint.Decision{Charge: contract.ChargeOf(r), RetryAfter: outageRetry}
	copy(d.MakeUsages(len(peek.Usages())), peek.Usages())
	l.showLeft(r, &d, &left)
	k := 0
	for i := range r.Claims {
		c := &r.Claims[i]
		for range c.Limits {
			if left[k] < c.Cost {
				d.Usages()[k].RetryAfter = outageRetry
				if d.Denier == 0 {
					d.Denier = uint8(i + 1)
				}
			}
			k++
		}
	}
	return d, nil
}

// reserve decides a Reserve: now if there is room, else by the part of this process, and not before
// the units of others are taken to have expired.
func (l *local) reserve(r *stint.Request, now, instances int64) (stint.Decision, error) {
	ctx := context.Background()
	ask := *r
	ask.Terms().Booked = 0
	if instances > 1 {
		var taken units
		for i := range r.Claims { // forgets what was taken before the store last answered
			l.taken(&r.Claims[i], l.find(&r.Claims[i]), instances, &taken)
		}
	}
	d, err := l.own.Take(ctx, ask)
	if err != nil || !d.Allowed || d.Repeat || d.Charge.Data().ID == 0 {
		return d, err
	}
	wait := d.RetryAfter
	if instances > 1 {
		part, err := l.since.Take(ctx, l.divide(&ask, instances))
		if err == nil && part.Allowed && l.overShare(r, &part, instances) {
			_, _ = l.since.Amend(ctx, part.Charge, stint.Amendment{Kind: stint.AmendSettle})
			part.Allowed = false
		}
		if err != nil || !part.Allowed {
			_, _ = l.own.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendSettle})
			d.Allowed, d.Charge = false, contract.ChargeOf(r)
			d.RetryAfter = max(d.RetryAfter, part.RetryAfter, outageRetry)
			return d, err
		}
		wait = max(wait, part.RetryAfter)
	}
	for i := range r.Claims {
		c := &r.Claims[i]
		if rec := l.find(c); rec != nil {
			for j := range c.Limits {
				if k := rec.of(&c.Limits[j]); k != nil {
					wait = max(wait, k.others.whenAtMost(now, c.Limits[j].Capacity()-c.Cost))
				}
			}
		}
	}
	if wait == d.RetryAfter {
		return d, nil
	}
	_, _ = l.own.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendSettle})
	if wait > contract.Longest(r) {
		d.Allowed, d.RetryAfter, d.Charge = false, wait, contract.ChargeOf(r)
		return d, nil
	}
	wait = wait.Round(time.Microsecond)
	return l.own.Take(ctx, stint.Request{Claims: r.Claims, Mode: driver.ModeForce, MaxWait: wait})
}

// othersLeft reports whether others are known to have used something of a request's limits.
func (l *local) othersLeft(r *stint.Request, now int64) bool {
	for i := range r.Claims {
		if rec := l.find(&r.Claims[i]); rec != nil && rec.most(now) > 0 {
			return true
		}
	}
	return false
}

// units are those of each limit of a request.
type units [stint.MaxTotal]int64

// left fills in how many units this process may take of each limit, given what it has used of them,
// and reports whether all of them have room for the request.
func (l *local) left(r *stint.Request, own *stint.Decision, now, instances int64, left *units) (ok bool) {
	usages := own.Usages()
	ok = true
	k := 0
	var since units
	for i := range r.Claims {
		c := &r.Claims[i]
		rec := l.find(c)
		l.taken(c, rec, instances, &since)
		for j := range c.Limits {
			used, o := usages[k].Used, rec.othersOf(&c.Limits[j], now)
			all := c.Limits[j].Capacity()
			if instances == 1 {
				left[k] = all - used - o
			} else {
				left[k] = ceilDiv(all-max(used-since[j], 0)-o, instances) - since[j]
			}
			left[k] = max(left[k], 0)
			ok = ok && left[k] >= c.Cost
			k++
		}
	}
	return ok
}

// taken fills in what this process has taken of a claim's limits since the store last answered.
func (l *local) taken(c *stint.Claim, rec *record, instances int64, taken *units) {
	clear(taken[:len(c.Limits)])
	if instances == 1 {
		return
	}
	ctx := context.Background()
	if rec.answeredSince(c.Limits) {
		_ = l.since.Command(ctx, stint.Command{Kind: stint.CommandReset, Subject: c.Subject, Scope: c.Scope,
			Limits: c.Limits})
		return
	}
	part := l.parts.of(c.Limits, instances)
	s, _ := l.identify(c)
	s.parts = append(s.parts[:0], stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: part.parts})
	d, err := l.since.Take(ctx, stint.Request{Claims: s.parts, Mode: stint.ModePeek})
	if err == nil {
		for k, u := range d.Usages() {
			taken[k] = u.Used
		}
	}
}

// divide returns a request for this process's part of the limits, without bans and request ids,
// which own deals with. It is valid until the lock, which is held, is given back.
func (l *local) divide(r *stint.Request, instances int64) stint.Request {
	s, _ := l.identify(&r.Claims[0])
	s.parts = append(s.parts[:0], r.Claims...)
	part := stint.Request{Claims: s.parts, Mode: r.Mode, MaxWait: r.MaxWait}
	for i := range part.Claims {
		part.Claims[i].Limits = l.parts.of(r.Claims[i].Limits, instances).parts
	}
	return part
}

// overShare reports whether what this process took is more than its part. That may be with a burst,
// whose parts are rounded up before they are multiplied.
func (l *local) overShare(r *stint.Request, part *stint.Decision, instances int64) bool {
	k := 0
	for i := range r.Claims {
		c := &r.Claims[i]
		for j := range c.Limits {
			if part.Usages()[k].Used > ceilDiv(c.Limits[j].Capacity(), instances) {
				return true
			}
			k++
		}
	}
	return false
}

// showLeft shows usages in terms of what this process has left.
func (l *local) showLeft(r *stint.Request, d *stint.Decision, left *units) {
	usages := d.Usages()
	if len(usages) != contract.CountLimits(r) {
		return
	}
	k := 0
	for i := range r.Claims {
		c := &r.Claims[i]
		for j := range c.Limits {
			rest := left[k]
			if d.Allowed && !d.Repeat && r.Mode != stint.ModePeek {
				rest = max(rest-c.Cost, 0)
			}
			usages[k].Used = max(usages[k].Used, c.Limits[j].Capacity()-rest)
			k++
		}
	}
}
