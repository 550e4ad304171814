package resilience

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// learn counts the store's answer to a request. If the answer exceeds a limit, since this process
// was granted something without the store that the answer does not count, it reports false, and
// after how long to try again.
func (l *local) learn(r *stint.Request, d *stint.Decision, q *asking, now, instances int64) (
	ok bool, retry time.Duration) {
	if r.Mode == stint.ModePeek || r.Terms().Lease > 0 || anyLeased(r) {
		return true, 0
	}
	if d.Banned && d.BanLeft > 0 && r.Bans != nil && d.Denier > 0 {
		l.ban(r.Claims[d.Denier-1].Subject, d.BanLeft)
	}
	usages := d.Usages()
	if d.Repeat || len(usages) != contract.CountLimits(r) {
		return true, 0 // there is no usage to learn from
	}
	set := l.lock(r.Claims)
	defer l.unlock(set)
	charged, known := d.Allowed && d.Charge.Data().ID != 0, l.any(set)
	if known && charged && r.Mode != driver.ModeForce && r.Terms().Booked == 0 {
		if ok, retry := l.confirm(r, d, q, now, instances); !ok {
			return false, retry
		}
	}
	var own stint.Decision
	var err error
	switch {
	case !charged:
		own, err = l.own.Take(context.Background(), stint.Request{Claims: r.Claims, Mode: stint.ModePeek})
	case r.Terms().Booked != 0 && d.Charge.Data().At == r.Terms().Booked:
		return true, 0 // it stays where it is
	default:
		count := stint.Request{Claims: d.Charge.Claims(), Mode: driver.ModeForce, MaxWait: d.RetryAfter}
		count.Terms().Age, count.Terms().Refilled = r.Terms().Age, r.Terms().Refilled
		if known && r.ID != "" { // a local decision may have counted it
			count.ID, count.IDLife = r.ID, r.IDLife
		}
		if own, err = l.own.Take(context.Background(), count); err == nil && !own.Repeat {
			l.remember(r, d, &own.Charge)
			if count.ID != "" { // a repeat without the store has the local charge, and settles that of the store
				l.counterparts.add(l.marked(own.Charge.Data().ID), counterpart{store: d.Charge})
			}
		}
	}
	if err != nil || d.RetryAfter > 0 && charged {
		return true, 0 // closed, or as of a later instant
	}
	mine := own.Usages()
	if !known && !othersUsed(usages, mine) {
		return true, 0
	}
	at := d.Charge.Data().At
	if charged {
		at += r.Terms().Age.Microseconds() // when the store answered
	}
	for i := range r.Claims {
		c := &r.Claims[i]
		l.note(c, usages[:len(c.Limits)], mine[:len(c.Limits)], at,
			d.Charge.Claims()[i].Cost, q, now)
		usages, mine = usages[len(c.Limits):], mine[len(c.Limits):]
	}
	return true, 0
}

// confirm reports whether a charge of the store is within the limits although the store did not
// count what is uncharged. own decides that: other answers may be older than this one and yet to
// come. Of several processes none knows what the others were granted: what the store counted and
// what is uncharged must fit together.
func (l *local) confirm(r *stint.Request, d *stint.Decision, q *asking, now, instances int64) (
	ok bool, retry time.Duration) {
	usages := d.Usages()
	n, sure, together := 0, true, true
	for i := range r.Claims {
		c := &r.Claims[i]
		rec := l.find(c)
		for j := range c.Limits {
			if k := rec.of(&c.Limits[j]); k != nil {
				if more := k.unchargedFor(q, now); more > 0 {
					sure = false
					together = together && usages[n].Used+more <= c.Limits[j].Capacity()
				}
			}
			n++
		}
	}
	switch {
	case sure:
		return true, 0
	case instances > 1 && !together:
		return false, max(outageRetry, d.RetryAfter)
	}
	own, err := l.own.Take(context.Background(),
		stint.Request{Claims: d.Charge.Claims(), Mode: stint.ModePeek})
	switch {
	case err != nil:
		return true, 0
	case own.RetryAfter == stint.Never || own.RetryAfter > d.RetryAfter:
		return false, own.RetryAfter
	case !together && d.RetryAfter == 0 && !l.fits(&d.Charge, &own, now):
		return false, outageRetry
	}
	return true, 0
}

// fits reports whether there is room for a charge, beside what others have used, given what this
// process has.
func (l *local) fits(charge *stint.Charge, own *stint.Decision, now int64) bool {
	usages := own.Usages()
	n := 0
	for i := range charge.Claims() {
		c := &charge.Claims()[i]
		rec := l.find(c)
		for j := range c.Limits {
			if o := rec.othersOf(&c.Limits[j], now); o > 0 && usages[n].Used+o+c.Cost > c.Limits[j].Capacity() {
				return false
			}
			n++
		}
	}
	return true
}

// note remembers what others have used of a claim's limits: what the store counts, less what it
// counts of this process. Answers may come out of order: a newer one includes what an older one
// granted.
func (l *local) note(c *stint.Claim, all, mine []stint.Usage, at, cost int64, q *asking, now int64) {
	rec := l.find(c)
	if rec == nil {
		if !othersUsed(all, mine) {
			return
		}
		rec = l.record(c, now)
	}
	older := at > 0 && at < rec.at && now-rec.answeredAt < int64(time.Second)
	for j := range all {
		k := rec.limit(&c.Limits[j])
		k.answered = true
		o := &k.others
		if older {
			o.units = max(o.units-cost, 0)
			continue
		}
		units := all[j].Used - max(mine[j].Used-k.unchargedFor(q, now), 0)
		if at > 0 && at == rec.at { // in one call: the larger is the later one
			units = max(units, o.units-cost)
		}
		*o = others{units: max(units, 0), from: now, until: now + int64(min(all[j].ResetAfter, maxAhead)),
			steady: k.limit.Algorithm == stint.AlgorithmFixed || k.limit.Algorithm == stint.AlgorithmConcurrency}
	}
	if !older {
		rec.at, rec.answeredAt = max(at, 0), now
	}
}

// othersUsed reports whether more is used than by this process.
func othersUsed(all, mine []stint.Usage) bool {
	for k := range all {
		if all[k].Used > mine[k].Used {
			return true
		}
	}
	return false
}

// maxAhead is the longest that anything counts.
const maxAhead = stint.MaxWindow * stint.MaxBurst
