package resilience

import (
	crypto "crypto/rand"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
)

// resolve sets the new state of an open debt once the outcome of its request is known.
func (l *ledger) resolve(o *debt, d *stint.Decision, err error, call uint64) {
	var due []*job
	charged := err == nil && d.Allowed && (d.Charge.Data().ID != 0 || d.Repeat)
	ahead := charged && d.RetryAfter > 0 && !d.Repeat // a booking, although the units are used already
	// A raise or a release needs a charge in the store. Other settlements only lower what is owed.
	apart := func(j *job) bool { return j.done != nil || j.Amendment.Kind == stint.AmendRelease }
	set := l.lock(o.subjects)
	switch {
	case o.state != openDebt:
	case charged && !ahead:
		due = l.paid(o, d, call)
	case o.id == "" && o.hold == 0 && !slices.ContainsFunc(o.pending, apart):
		l.remove(o, goneDebt)
		l.oweTogether(o)
	default:
		if o.state, o.sent = dueDebt, true; o.id == "" || ahead { // if ahead, the old ID belongs to the booking
			o.rename()
		}
		l.noteOwing(o.home)
	}
	l.unlock(set)
	if ahead {
		l.later.refund(d.Charge, false)
	}
	l.later.finish(due)
}

// paid records that the store has charged a debt. It returns the pending amendments, which must now
// be made in the store.
func (l *ledger) paid(o *debt, d *stint.Decision, call uint64) (due []*job) {
	now, charge := l.now(), d.Charge
	l.remove(o, paidDebt)
	for it := range l.each(o.claims) {
		switch {
		case it.Algorithm == stint.AlgorithmConcurrency:
			if h := it.holder(o.charge); h != nil {
				h.stored = now + int64(it.Window)
			}
		case o.at >= it.since:
			i := max(min(it.i, len(charge.Claims())-1), 0) // l.request may have left out some claims
			charged, refilled := l.instant(charge.Data().NowOf(i), now), o.refilled
			if d.Repeat { // an earlier attempt charged the debt
				charged, refilled = l.instant(charge.Data().AtOf(i), now), 0
			}
			refilled += time.Duration(max(now-charged, 0))
			it.repaid(it.cost, o.left(it.count, it.claim), o.at, charge.Data().NowOf(i), call, now, refilled)
			if it.owed != nil && o.charge == 0 {
				it.keep(o, now)
			}
		case o.charge == 0:
			o.back = it.cost // the limit has been reset since the grant
		}
	}
	switch o.stored = charge; {
	case charge.Data().ID == 0:
	case o.charge == 0:
		if o.back > 0 {
			due = append(due, refundPart(&charge, o.back))
		}
	default:
		if o.renamed { // no caller knows the new ID, and sending the debt again must not prevent a refund
			charge.Data().RequestID, charge.Data().IDLife = "", 0
			o.stored = charge
		}
		for _, j := range o.pending {
			if part := partOf(&charge, &j.Charge); part.Data().ID != 0 {
				due = append(due, newJob(part, j.Amendment, j.done))
			}
		}
	}
	o.pending = nil
	l.noteOwing(o.home)
	return due
}

// partOf returns the part of the store's charge that corresponds to local, which is a local charge
// or a part of one.
func partOf(store, local *stint.Charge) stint.Charge {
	if len(store.Claims()) == len(local.Claims()) {
		return *store
	}
	var numbers []int
	for i := range local.Claims() {
		for k := range store.Claims() {
			if sameClaim(store.Claims()[k], local.Claims()[i]) {
				numbers = append(numbers, k)
			}
		}
	}
	return store.Part(numbers...)
}

// forget clears the counts of the limits that a reset names, and everything owed under them. It
// returns the debts that are being charged.
func (l *ledger) forget(c *stint.Command) (flying []*debt) {
	claims := commandClaims(c)
	defer l.unlock(l.lock(claims))
	rec := l.find(&claims[0])
	if rec == nil {
		return nil
	}
	now := l.now()
	rec.resetAt, rec.generation = now, 0
	l.unname(rec)
	for it := range l.each(claims) {
		*it.count = count{rule: it.rule, since: now + 1}
	}
	for _, o := range rec.debts {
		if o.flying {
			flying = append(flying, o)
		}
	}
	l.noteOwing(rec)
	return flying
}

func (l *ledger) isFlying(o *debt) bool {
	defer l.unlock(l.lock(o.subjects))
	return o.flying
}

type owedCall struct {
	driver.Call
	debt   *debt
	ledger *ledger
	number uint64 // the number of the answer; see nextCall
	first  bool   // whether this is the first attempt to charge the debt
	ended  atomic.Bool
}

var errNotSent = errors.New("not sent")

// neverRan reports whether an error proves that the store has not executed a call. For a take with
// several subjects, it proves this only for the first subject, because a Cluster charges the first
// subject last.
func neverRan(err error) bool {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" || errors.Is(err, errNotSent) {
		return true
	}
	return errkind.Of(err).NothingDone()
}

// giveUp ends calls that will not be sent.
func giveUp(calls []*owedCall) {
	for _, o := range calls {
		o.Err = errNotSent
		o.end()
	}
}

// end records the outcome of the call. Only the first call to end has an effect.
func (c *owedCall) end() {
	if !c.ended.CompareAndSwap(false, true) {
		return
	}
	var due []*job
	_, invalid := errors.AsType[*stint.InvalidError](c.Err)
	l, o := c.ledger, c.debt
	set := l.lock(o.subjects)
	switch o.flying = false; {
	case (c.Err == nil || invalid) && o.state == dueDebt: // an invalid call would always fail
		due = l.paid(o, &c.Decision, c.number)
	case c.first && neverRan(c.Err):
		o.sent = false
	}
	l.unlock(set)
	l.later.finish(due)
}

// collect appends to the given slice calls that charge a record's debts, and returns the result. It
// stops when there are sendMost calls.
func (l *ledger) collect(rec *record, now int64, calls []*owedCall) []*owedCall {
	if !rec.owing {
		return calls
	}
	for i := range rec.counts {
		if n := &rec.counts[i]; n.owed != nil {
			n.owes(now)
			l.makeDebts(rec, n)
		}
	}
	before := len(calls)
	for _, o := range slices.Clone(rec.debts) {
		if len(calls) >= sendMost {
			break
		}
		if o.state != dueDebt || o.flying {
			continue
		}
		switch r, ok := l.request(o, now); {
		case ok:
			c := &owedCall{Call: driver.Call{Request: r}, debt: o, ledger: l, first: !o.sent}
			o.flying = true
			c.Call.Done = c.end
			calls = append(calls, c)
		default: // all units of the debt have left their windows
			l.remove(o, goneDebt)
			for it := range l.each(slices.DeleteFunc(slices.Clone(o.claims), rec.isOther)) {
				if o.at >= it.since {
					it.unowe(it.cost, o.at)
				}
			}
		}
	}
	for _, c := range calls[before:] {
		c.debt.sent = true
	}
	l.noteOwing(rec)
	return calls
}

// makeDebts turns the units that are due under a limit into debts, one for each part of the window.
func (l *ledger) makeDebts(rec *record, n *count) {
	for i := range n.owed.parts {
		p := &n.owed.parts[i]
		if p.due == 0 || !l.mayAdd(rec) {
			continue
		}
		claims := []stint.Claim{rec.claim(&n.Limit, min(p.due, stint.MaxUnits))}
		p.due = 0
		l.addDebt(&debt{home: rec, id: crypto.Text(), life: min(max(n.Window, minDebtLife), maxDebtLife),
			from: p.first, at: p.at, state: dueDebt, claims: claims})
	}
}

// request returns the request that charges a debt now. It also reports whether any units of the
// debt still count. The request leaves out limits that were reset after the grant.
func (l *ledger) request(o *debt, now int64) (r stint.Request, ok bool) {
	// A hold counts from its last heartbeat.
	rec, age, given, metered := o.home, max(now-o.seen(), 0), time.Duration(maxAhead), false
	claims := slices.Clone(o.claims)
	for i := range claims {
		c := &claims[i]
		reset := func(m stint.Limit) bool {
			n := rec.of(&m, 0)
			return n != nil && o.at < n.since && !rec.isOther(*c)
		}
		if slices.ContainsFunc(c.Limits, reset) {
			c.Limits = slices.DeleteFunc(slices.Clone(c.Limits), reset)
		}
		for j := range c.Limits {
			m := &c.Limits[j]
			if n := rec.of(m, j); m.Algorithm == stint.AlgorithmCalendar && n != nil &&
				n.number(o.at) == n.number(now) {
				// The store may have a different calendar. It must not count the debt in the
				// previous period.
				begin, _ := contract.Period(m, l.wall(now))
				age = max(min(age, now-l.instant(begin, now)), 0)
			}
			counts := age < int64(m.Window) && m.Algorithm != stint.AlgorithmConcurrency &&
				m.Algorithm != stint.AlgorithmBucket
			if contract.HasMeter(m) {
				back := time.Duration(0) // other processes may have used all refilled units
				if n := rec.of(m, j); l.instances() == 1 && len(claims) == 1 && n != nil && n.meter != nil &&
					n.owed != nil && !rec.blind(n, o.at) {
					back = n.givenBack(rec, o, &o.claims[i], now)
				}
				metered, given = true, min(given, back)
				counts = counts || back < maxAhead && age < meterLife(m)
			}
			counts = counts || o.hold > 0 && age < 2*int64(o.hold) // the hold can still be settled
			ok = ok || counts && c.CostOf(m) > 0
		}
	}
	if !metered {
		given = 0
	}
	claims = slices.DeleteFunc(claims, func(c stint.Claim) bool { return len(c.Limits) == 0 })
	if !o.renamed && o.charge != 0 && now-o.at >= int64(o.life) { // the store may have forgotten the ID
		o.rename()
	}
	r = stint.Request{Claims: claims, ID: o.id, IDLife: o.life, Hold: o.hold, Mode: driver.ModeForce}
	r.Terms().Age, r.Terms().Refilled = time.Duration(age).Truncate(time.Microsecond), given
	o.refilled = given
	return r, ok
}

// givenBack returns how long the meter has been refilling the units of a debt, or maxAhead if it
// has refilled all of them. The result is at most the time since the grant. The oldest units are
// refilled first. So the weight that is left of a debt is the local level minus the weight of all
// newer units. If a debt may have been charged, units that certainly were not charged count as
// newer, because the refill since the charge has lowered the store's level and not the level of the
// uncharged units.
func (c *count) givenBack(rec *record, o *debt, claim *stint.Claim, now int64) time.Duration {
	newer, before := c.owed.due(), !o.sent
	for _, d := range rec.debts {
		if d == o {
			before = false
			continue
		}
		for i := range d.claims {
			same := func(l stint.Limit) bool { return contract.SameID(&l, &c.Limit) }
			if !before && d.state == dueDebt && !d.sent && !rec.isOther(d.claims[i]) &&
				slices.ContainsFunc(d.claims[i].Limits, same) {
				newer += d.left(c, &d.claims[i])
			}
		}
	}
	truth, units := o.left(c, claim), c.cost(claim)
	left := c.weight(truth) - max(c.metered(now).local-c.weight(newer), 0)
	left = max(min(left, c.given(time.Duration(now-o.from))), 0)
	// rest is the weight of the units in excess of truth. The store gives them back only if they
	// still count there.
	switch age, rest := now-o.seen(), c.weight(units-truth); {
	case c.Algorithm == stint.AlgorithmBucket:
		left += min(rest, c.given(time.Duration(age)))
	case age >= int64(c.Window)+c.part: // the debt has left the log
		left += rest
	}
	if left >= c.weight(units) {
		return maxAhead
	}
	return time.Duration(left/c.rate*c.tick) * time.Microsecond
}

// left returns how many units will count under a limit for a claim of the debt, once the debt is
// charged and its pending amendments are made.
func (o *debt) left(c *count, claim *stint.Claim) int64 {
	units := c.cost(claim) - o.back
	for _, j := range o.pending {
		of := func(other stint.Claim) bool { return sameClaim(other, *claim) }
		truth, named := contract.TotalOf(&j.Amendment, c.Name)
		if j.Amendment.Kind == stint.AmendSettle && named && slices.ContainsFunc(j.Charge.Claims(), of) {
			units = min(units, truth)
		}
	}
	return units
}

// meterLife returns how long a unit may count in a limit that refills, if others may have used the
// refilled units. It is four times as long as a full refill takes.
func meterLife(m *stint.Limit) int64 {
	return int64(m.Window) * min(4*max(ceilDiv(m.Capacity(), max(m.Max, 1)), 1), int64(maxAhead/stint.MaxWindow))
}

// collectSome returns at most one batch of calls that charge debts. It begins with the subjects
// after those of the previous batch.
func (l *ledger) collectSome() (calls []*owedCall) {
	now := l.now()
	for range l.stripes {
		s := &l.stripes[l.next.Add(1)%stripes]
		s.mu.Lock()
		for rec := range s.owing {
			if calls = l.collect(rec, now, calls); len(calls) >= sendMost {
				break
			}
		}
		s.mu.Unlock()
		if len(calls) >= sendMost {
			l.next.Add(^uint32(0)) // the stripe may have more debts
			break
		}
	}
	return calls
}

// carry returns calls that charge the debts of a request's subjects, to be sent along with the
// request.
func (l *ledger) carry(r *stint.Request) (calls []*owedCall) {
	defer l.unlock(l.lock(r.Claims))
	for i := range r.Claims {
		if rec := l.find(&r.Claims[i]); rec != nil {
			calls = l.collect(rec, l.now(), calls)
		}
	}
	return calls
}
