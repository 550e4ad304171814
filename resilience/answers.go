package resilience

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// answered counts the store's answer to a request, in a call, that came at an instant. If that
// exceeds a limit, since this process was granted something without the store that the answer does
// not count, the decision becomes a denial. A late answer says what is used, and grants nothing:
// its caller was answered without it, and what was granted then is a debt, see resolve.
func (l *ledger) answered(r *stint.Request, d *stint.Decision, call uint64, now int64, late bool) {
	if r.Mode == stint.ModePeek || r.Terms().Lease > 0 {
		return
	}
	if d.Banned && d.BanLeft > 0 && r.Bans != nil && d.Denier > 0 {
		age := time.Duration(max(l.wall(now)-d.Charge.Data().Now, 0)) * time.Microsecond // of the answer
		l.ban(r.Claims[d.Denier-1].Subject, d.BanLeft-min(age, answerTime))
	}
	if d.Repeat || len(d.Usages()) != contract.CountLimits(r) {
		return // there is no usage to learn from
	}
	defer l.unlock(l.lock(r.Claims))
	charged := d.Allowed && d.Charge.Data().ID != 0
	uncounted := l.hear(r, d, call, late, now)
	switch {
	case !charged || late:
	case r.Terms().Booked != nil && r.Terms().Booked.At == d.Charge.Data().At: // it has been counted
	case uncounted && r.Mode != driver.ModeForce && !l.fits(d, call, now, false):
		l.overrule(r, d, now, false)
	case r.Terms().Booked != nil:
	case d.RetryAfter > 0:
		l.booked(d, now)
	default:
		l.granted(d, now, false)
		rec := l.find(&r.Claims[0])
		if n := rec.of(&r.Claims[0].Limits[0], 0); r.ID != "" && n != nil && n.owed != nil { // it may be lost again
			o := &debt{home: rec, id: r.ID, life: contract.Life(r), hold: r.Hold, at: now, state: paidDebt,
				stored: d.Charge, claims: copied(d.Charge.Claims())}
			o.stored.SetClaims(o.claims)
			l.name(o, now)
		}
	}
}

// hear takes over what the store says of the limits of a request, if no newer answer did. It
// reports whether the answer does not count something that this process was granted.
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
			continue // it was not asked about, or leases count it
		}
		used := func(u stint.Usage) bool { return u.Used > 0 }
		if !contract.Charges(charged) && l.find(c) == nil && !slices.ContainsFunc(usages, used) {
			continue // there is nothing to know
		}
		rec := l.record(c, now)
		replaced := i == 0 && data.Generation != 0 && rec.generation != 0 && data.Generation != rec.generation &&
			c.Limits[0].Name == rec.state
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
			if late || r.Terms().Booked != nil { // its debt counts it, or it is counted as booked
				part = 0
			}
			if newer && !ahead { // else it says what is used then
				if rec.blind(n, rec.born) && usages[j].Used > part && n.meter != nil {
					m := n.metered(now)
					m.local = max(m.local, n.weight(more)) // what was refilled was not ours
				}
				n.hear(&usages[j], n.cost(c), part, more, at, call, now)
			}
		}
		if newer && !ahead {
			rec.at, rec.heard = at, now
			if i == 0 && data.Generation != 0 {
				rec.generation, rec.state = data.Generation, c.Limits[0].Name
			}
		}
	}
	return uncounted
}

// blind reports whether how much of a limit that refills was used before an instant may not be
// known: the store has not been heard of the subject, and a process before this one may have.
func (r *record) blind(n *count, at int64) bool {
	return r.heard == 0 && n.unit > 0 && at < n.after(0, n.weight(n.capacity))
}

// amongOthers reports whether a charge of the store's is counted among what others have used: the
// answer that made it was heard before, when its caller had given up, or a newer one was.
func (it *item) amongOthers(d *stint.Decision, heard bool) bool {
	return heard || d.Charge.Data().NowOf(it.i) < it.heard.at
}

// fits reports whether a charge of the store, now or ahead, is within the limits although the store
// did not count all that this process was granted. Of several processes none knows what the
// others were granted: what the store counted and what it did not must fit together.
func (l *ledger) fits(d *stint.Decision, call uint64, now int64, heard bool) bool {
	shared := l.instances() > 1
	for it := range l.each(d.Charge.Claims()) {
		more, t := it.uncounted(d.Charge.Data().NowOf(it.i), call, now), now+int64(d.RetryAfter)
		log, meter := it.cost, it.cost
		switch among := it.amongOthers(d, heard); {
		case among && it.unit > 0:
			meter = 0
		case among:
			log = 0
		}
		if shared && more > 0 && d.Usages()[it.k].Used+more > it.capacity ||
			!shared && (it.logLeft(t, more) < log || it.unit > 0 && it.meterLeft(t) < meter) {
			return false
		}
	}
	return true
}

// overrule denies what the store has charged, and refunds it.
func (l *ledger) overrule(r *stint.Request, d *stint.Decision, now int64, heard bool) {
	l.later.refund(d.Charge, heard)
	denied := stint.Decision{Degraded: true, Charge: contract.ChargeOf(r)}
	fits := l.show(r, &denied, now)
	if l.deny(&denied); fits { // only the store can allow it
		denied.Denier, denied.RetryAfter = 1, outageRetry
		denied.Usages()[0].RetryAfter = outageRetry
	}
	*d = denied
}

// granted counts a charge of the store.
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

// booked counts a booking among what others have used, until it has left its window.
func (l *ledger) booked(d *stint.Decision, now int64) {
	for it := range l.each(d.Charge.Claims()) {
		o, gone := &it.others, now+int64(d.RetryAfter)+it.bookedFor()
		if o.bookedUntil < now {
			o.booked = 0
		}
		o.booked, o.bookedUntil = o.booked+it.cost, max(o.bookedUntil, gone)
		o.units, o.from, o.until = o.at(now, false)+it.cost, now, max(o.until, gone)
		it.fill(it.cost, now, true)
		it.rec.at = max(it.rec.at, d.Charge.Data().NowOf(it.i)) // answers from before do not count it
	}
}

// adopt counts a charge of the store whose answer came when its caller had just given up.
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

// returned notes that the store has refunded a charge whose caller was not admitted, in a call that
// was sent at an instant. If the newest answer came before that, and counted the charge, it is
// taken off. The charge's own answer counts it, if it was heard.
func (l *ledger) returned(c *stint.Charge, heard bool, sent int64) {
	now := l.now()
	defer l.unlock(l.lock(c.Claims()))
	for it := range l.each(c.Claims()) {
		if at := c.Data().NowOf(it.i); it.rec.heard <= sent && (it.heard.at > at || heard && it.heard.at == at) {
			it.others.take(it.cost, now)
			it.unraise(it.cost, l.instant(c.Data().AtOf(it.i), now), now)
		}
	}
	for it := range l.each(c.Claims()) { // an answer from before the refund that is yet to come counts the charge
		it.rec.at = max(it.rec.at, l.wall(sent))
	}
}
