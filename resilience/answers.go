package resilience

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// answered records the store's answer to a request. call is the number of the answer, and now is
// the time at which it arrived. The answer may leave out units that this process granted without
// the store. If these units and those in the answer together exceed a limit, answered turns the
// decision into a denial. A late answer reports usage but grants nothing: its caller was answered
// without the store, and any units granted to that caller are a debt; see resolve.
func (l *ledger) answered(r *stint.Request, d *stint.Decision, call uint64, now int64, late bool) {
	if r.Mode == stint.ModePeek || r.Terms().Lease > 0 {
		return
	}
	if d.Banned && d.BanLeft > 0 && r.Bans != nil && d.Denier > 0 {
		age := time.Duration(max(l.wall(now)-d.Charge.Data().Now, 0)) * time.Microsecond
		l.ban(r.Claims[d.Denier-1].Subject, d.BanLeft-min(age, answerTime))
	}
	if d.Repeat || len(d.Usages()) != contract.CountLimits(r.Claims) {
		return // the answer reports no usage
	}
	defer l.unlock(l.lock(r.Claims))
	charged := d.Allowed && d.Charge.Data().ID != 0
	uncounted := l.hear(r, d, call, late, now)
	switch {
	case !charged || late:
	case r.Terms().Booked != nil && r.Terms().Booked.At == d.Charge.Data().At: // the booking did not move
	case uncounted && r.Mode != driver.ModeForce && !l.fits(d, call, now, false):
		l.overrule(r, d, now, false)
	case r.Terms().Booked != nil:
	case d.RetryAfter > 0:
		l.booked(d, now)
	default:
		l.granted(d, now, false)
		rec := l.find(&r.Claims[0])
		// Remember the ID, in case the store fails again.
		if n := rec.of(&r.Claims[0].Limits[0], 0); r.ID != "" && n != nil && n.owed != nil {
			o := &debt{home: rec, id: r.ID, life: contract.Life(r), hold: r.Hold, at: now, state: paidDebt,
				stored: d.Charge, claims: copied(d.Charge.Claims())}
			o.stored.SetClaims(o.claims)
			l.name(o, now)
		}
	}
}

// hear records the usage that the store reports for the limits of a request, unless a newer answer
// was recorded. It reports whether the answer leaves out some units that this process was granted.
func (l *ledger) hear(r *stint.Request, d *stint.Decision, call uint64, late bool, now int64) (uncounted bool) {
	data, ahead, rest := d.Charge.Data(), d.Allowed && d.RetryAfter > 0, d.Usages()
	for i := range r.Claims {
		c, at, charged := &r.Claims[i], data.NowOf(i), &stint.Claim{}
		if d.Allowed && data.ID != 0 {
			charged = &d.Charge.Claims()[i]
		}
		usages := rest[:len(c.Limits)]
		rest = rest[len(c.Limits):]
		if at == 0 && data.Others != nil && data.Others.Now != nil || slices.ContainsFunc(c.Limits, isLeased) {
			continue // the store was not asked about this claim, or leases count it
		}
		used := func(u stint.Usage) bool { return u.Used > 0 }
		if !contract.Charges(charged) && l.find(c) == nil && !slices.ContainsFunc(usages, used) {
			continue
		}
		rec := l.record(c, now)
		generation := data.GenerationAt(contract.CountStates(r.Claims[:i]))
		replaced := generation != 0 && rec.generation != 0 && generation != rec.generation && c.Limits[0].Name == rec.state
		newer := at >= rec.at || now-rec.heard > int64(time.Second) || replaced
		if newer && !ahead {
			l.keep(rec, replaced, now)
		}
		for j := range c.Limits {
			n := l.count(rec, &c.Limits[j], j)
			n.advance(now)
			more := n.uncounted(at, call, now)
			uncounted = uncounted || more > 0
			part := n.cost(charged)
			if late || r.Terms().Booked != nil { // a debt or a booking counts the charged units
				part = 0
			}
			if newer && !ahead { // the answer to a booking reports the usage at the booked time
				if rec.blind(n, rec.born) && usages[j].Used > part && n.meter != nil {
					m := n.metered(now)
					// Assume that others have used the units that were refilled so far.
					m.local = max(m.local, n.weight(more))
				}
				n.hear(&usages[j], n.cost(c), part, more, at, call, rec.born, now)
			}
		}
		if newer && !ahead {
			rec.at, rec.heard = at, now
			if generation != 0 {
				rec.generation, rec.state = generation, c.Limits[0].Name
			}
		}
	}
	return uncounted
}

// blind reports whether the usage of a limit that refills may be unknown at the time `at`, because
// an earlier process may have used the limit. This ends when the store has answered about the
// subject, or when the limit has been refilled completely since this process started.
func (r *record) blind(n *count, at int64) bool {
	return r.heard == 0 && n.unit > 0 && at < n.after(0, n.weight(n.capacity))
}

// amongOthers reports whether the charge of d is already counted among the units used by other
// processes. It is if an answer newer than d was recorded, or if heard is true: d itself was then
// recorded as usage of others, because its caller had given up.
func (it *item) amongOthers(d *stint.Decision, heard bool) bool {
	return heard || d.Charge.Data().NowOf(it.i) < it.heard.at
}

// fits reports whether the limits admit the charge of d, made now or booked for later, even when
// the units that the store did not count are included. If there are several processes, none of them
// knows how many units the others were granted without the store. So fits then checks only that the
// units that the store counted and this process's own uncounted units together do not exceed the
// capacity. For heard, see amongOthers.
func (l *ledger) fits(d *stint.Decision, call uint64, now int64, heard bool) bool {
	shared := l.instances() > 1
	for it := range l.each(d.Charge.Claims()) {
		more, t := it.uncounted(d.Charge.Data().NowOf(it.i), call, now), now+int64(d.RetryAfter)
		log, meter := it.cost, it.cost
		switch among := it.amongOthers(d, heard); {
		case among && it.unit > 0:
			meter = 0
		case among: // only the part of the charge that exceeds the units of others must still fit
			log = max(it.cost-it.others.at(t, it.evenly()), 0)
		}
		if shared && more > 0 && d.Usages()[it.k].Used+more > it.capacity ||
			!shared && (it.logLeft(t, more) < log || it.unit > 0 && it.meterLeft(t) < meter) {
			return false
		}
	}
	return true
}

// overrule turns d into a denial, although the store has charged the request, and refunds the
// charge. Until the refund arrives, the store counts the charge, and units that a limit refills in
// the meantime are not refunded. So the charge is counted as used by others.
func (l *ledger) overrule(r *stint.Request, d *stint.Decision, now int64, heard bool) {
	charge := d.Charge
	denied := stint.Decision{Degraded: true, Charge: contract.ChargeOf(r)}
	fits := l.show(r, &denied, now)
	if l.deny(&denied); fits { // no limit is known to deny r, but only the store can allow it
		denied.Denier, denied.RetryAfter = 1, outageRetry
		denied.Usages()[0].RetryAfter = outageRetry
	}
	*d = denied
	for it := range l.each(charge.Claims()) {
		if !heard && it.heard.at == charge.Data().NowOf(it.i) {
			it.others.units += it.cost
			it.fillOverruled(it.cost, now)
		}
	}
	l.later.refund(charge, true)
}

// granted counts the charge of d, which the store made for this process. For heard, see
// amongOthers.
func (l *ledger) granted(d *stint.Decision, now int64, heard bool) {
	for it := range l.each(d.Charge.Claims()) {
		if it.amongOthers(d, heard) {
			it.ours(it.cost, d.Charge.Data().NowOf(it.i), now)
		}
		if it.Algorithm == stint.AlgorithmConcurrency {
			it.hold(d.Charge.Data().ID, now, true)
		} else {
			it.grant(it.cost, now, now, true)
		}
	}
}

// booked counts a booking of this process as used by others until it has left its window.
func (l *ledger) booked(d *stint.Decision, now int64) {
	for it := range l.each(d.Charge.Claims()) {
		o, gone := &it.others, now+int64(d.RetryAfter)+it.bookedFor()
		if o.bookedUntil < now {
			o.booked = 0
		}
		o.booked, o.bookedUntil = o.booked+it.cost, max(o.bookedUntil, gone)
		o.units, o.from, o.until = o.at(now, false)+it.cost, now, max(o.until, gone)
		it.fill(it.cost, now, true)
		it.hearBooked(&d.Usages()[it.k], d.RetryAfter, now)
		it.rec.at = max(it.rec.at, d.Charge.Data().NowOf(it.i)) // earlier answers do not count the booking
	}
}

// adopt counts a charge of the store if the answer came just after the deadline, but before the
// request was decided without the store. Like answered, adopt may turn the decision into a denial.
func (l *ledger) adopt(r *stint.Request, d *stint.Decision, call uint64) {
	if d.Charge.Data().ID == 0 || d.Repeat || d.RetryAfter > 0 || !d.Allowed || r.Terms().Lease > 0 ||
		r.Terms().Booked != nil {
		return
	}
	now, uncounted := l.now(), false
	defer l.unlock(l.lock(r.Claims))
	l.make(r.Claims, now)
	for it := range l.each(r.Claims) {
		uncounted = uncounted || it.uncounted(d.Charge.Data().NowOf(it.i), call, now) > 0
	}
	if uncounted && r.Mode != driver.ModeForce && !l.fits(d, call, now, true) {
		l.overrule(r, d, now, true)
		return
	}
	l.granted(d, now, true)
}

// returned records that the store has refunded c, which it had charged for a caller that was not
// admitted. sent is the time at which the refund was sent. heard is true if the answer that
// contains the charge was recorded. If the newest recorded answer arrived before the refund was
// sent and includes the charge, returned subtracts the charge from the units of others.
func (l *ledger) returned(c *stint.Charge, heard bool, sent int64) {
	now := l.now()
	defer l.unlock(l.lock(c.Claims()))
	for it := range l.each(c.Claims()) {
		if at := c.Data().NowOf(it.i); it.rec.heard <= sent && (it.heard.at > at || heard && it.heard.at == at) {
			it.others.take(it.cost, now)
			it.unraise(it.cost, l.instant(c.Data().AtOf(it.i), now), now)
		}
	}
	for it := range l.each(c.Claims()) { // answers from before the refund count the charge, so they are outdated
		it.rec.at = max(it.rec.at, l.wall(sent))
	}
}
