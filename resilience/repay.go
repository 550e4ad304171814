package resilience

import (
	crypto "crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// known settles a debt whose answer was late: the store has charged it, or not.
func (l *ledger) known(o *debt, d *stint.Decision, err error, call uint64) {
	var due repayment
	charged := err == nil && d.Allowed && (d.Charge.Data().ID != 0 || d.Repeat)
	ahead := charged && d.RetryAfter > 0 && !d.Repeat // a booking, for what is used already
	set := l.lock(o.subjects)
	switch {
	case o.state != lateDebt:
	case charged && !ahead:
		due = l.paid(o, d, call)
	case o.id == "" && l.lessen(o):
		l.remove(o, goneDebt)
		l.oweTogether(o.claims, o.at, o.resets)
	default:
		if o.state = dueDebt; o.id == "" || ahead { // the booking has its ID
			o.rename()
		}
		l.noteOwing(o.home)
	}
	l.unlock(set)
	if ahead {
		l.later.refund(d.Charge, true)
	}
	l.later.finish(due)
}

// lessen takes off a debt that the store has not charged what was given back meanwhile. It reports
// whether that were all amendments.
func (l *ledger) lessen(o *debt) bool {
	o.pending = slices.DeleteFunc(o.pending, func(a amendment) bool {
		claims := a.charge.Claims()
		raises := func(c stint.Claim) bool { return c.Cost < a.Cost }
		if a.Kind != stint.AmendSettle || slices.ContainsFunc(claims, raises) {
			return false
		}
		for it := range l.each(claims) {
			if o.resets >= it.resets {
				it.unowe(it.cost-a.Cost, o.at)
			}
		}
		for i := range o.claims {
			if slices.ContainsFunc(claims, func(c stint.Claim) bool { return sameClaim(o.claims[i], c) }) {
				o.claims[i].Cost = a.Cost
			}
		}
		return true
	})
	return len(o.pending) == 0
}

// repayment is what follows from the store's charge of a debt: amendments of it, and units that are
// to be given back.
type repayment struct {
	amendments []amendment
	backs      []backUnits
}

// backUnits is what is to be given back to the store, when it was granted, and the generation of
// the state that it was charged to; 0 if that is not known.
type backUnits struct {
	claim      stint.Claim
	at         int64
	generation uint32
}

// paid notes that the store has charged a debt.
func (l *ledger) paid(o *debt, d *stint.Decision, call uint64) (due repayment) {
	now, charge := l.now(), d.Charge
	l.remove(o, paidDebt)
	for it := range l.each(o.claims) {
		switch {
		case it.Algorithm == stint.AlgorithmConcurrency:
			if h := it.holder(o.charge); h != nil {
				h.stored = now + int64(it.Window)
			}
		case o.resets >= it.resets:
			i := max(min(it.i, len(charge.Claims())-1), 0) // some may have been left out
			it.repaid(it.cost, o.at, charge.Data().NowOf(i), call, now, o.refilled)
			if it.owed != nil && o.charge == 0 {
				it.owed.generation = charge.Data().Generation
			}
		case o.charge == 0:
			o.back = it.cost // it was reset since
		}
	}
	switch known := charge.Data().ID != 0; {
	case known && o.charge != 0:
		o.stored = charge
		for _, a := range o.pending {
			if part := partOf(&charge, &a.charge); part.Data().ID != 0 {
				due.amendments = append(due.amendments, amendment{part, a.Amendment, a.done})
			}
		}
	case known && o.back > 0:
		charge.Data().RequestID = "" // it may have been repeated
		due.amendments = []amendment{{charge: charge,
			Amendment: stint.Amendment{Kind: stint.AmendSettle, Cost: o.claims[0].Cost - o.back}}}
	case o.back > 0:
		back := backUnits{o.claims[0], o.at, charge.Data().Generation}
		back.claim.Cost = o.back
		due.backs = []backUnits{back}
	}
	o.pending = nil
	l.noteOwing(o.home)
	return due
}

// partOf returns the part of the store's charge that corresponds to a local one, or to a part of
// it.
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

// forget drops what is known and owed of limits that are reset. It returns what is being charged.
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
	reset := l.resets.Add(1)
	for it := range l.each(claims) {
		*it.count = count{rule: it.rule, resetAt: now, resets: reset}
	}
	for _, o := range rec.debts {
		if o.flying {
			flying = append(flying, o)
		}
	}
	l.noteOwing(rec)
	return flying
}

// isFlying reports whether a debt is being charged.
func (l *ledger) isFlying(o *debt) bool {
	defer l.unlock(l.lock(o.subjects))
	return o.flying
}

// owedCall is a call that charges a debt.
type owedCall struct {
	driver.Call
	debt   *debt
	ledger *ledger
	number uint64 // of the call to the store
	ended  atomic.Bool
}

var errNotSent = errors.New("not sent")

// giveUp ends calls that are not sent.
func giveUp(calls []*owedCall) {
	for _, o := range calls {
		o.Err = errNotSent
		o.end()
	}
}

// end notes the outcome of the call, once.
func (c *owedCall) end() {
	if !c.ended.CompareAndSwap(false, true) {
		return
	}
	var due repayment
	_, invalid := errors.AsType[*stint.InvalidError](c.Err)
	l, o := c.ledger, c.debt
	set := l.lock(o.subjects)
	if o.flying = false; (c.Err == nil || invalid) && o.state == dueDebt { // what is invalid would always fail
		due = l.paid(o, &c.Decision, c.number)
	}
	l.unlock(set)
	l.later.finish(due)
}

// collect adds calls that charge what a record owes, so many in all.
func (l *ledger) collect(rec *record, now int64, calls []*owedCall) []*owedCall {
	if !rec.owing {
		return calls
	}
	for i := range rec.counts {
		if n := &rec.counts[i]; n.owed != nil {
			l.makeDebts(rec, n)
			n.refilled(rec, now)
		}
	}
	for _, o := range slices.Clone(rec.debts) {
		if len(calls) >= sendMost {
			break
		}
		if o.state != dueDebt {
			continue
		}
		r, ok := l.request(o, now)
		switch {
		case o.flying:
		case ok:
			o.flying = true
			c := &owedCall{Call: driver.Call{Request: r}, debt: o, ledger: l}
			c.Call.Done = c.end
			calls = append(calls, c)
		default: // all of it has left its windows
			l.remove(o, goneDebt)
			for it := range l.each(slices.DeleteFunc(slices.Clone(o.claims), rec.isOther)) {
				if o.resets >= it.resets {
					it.unowe(it.cost, o.at)
				}
			}
		}
	}
	l.noteOwing(rec)
	return calls
}

// makeDebts makes debts of the groups of a limit.
func (l *ledger) makeDebts(rec *record, n *count) {
	for len(n.owed.groups) > 0 && l.mayAdd(rec) {
		g := n.owed.groups[0]
		n.owed.groups = slices.Delete(n.owed.groups, 0, 1)
		claims := []stint.Claim{rec.claim(&n.Limit, min(g.units, stint.MaxUnits))}
		l.addDebt(&debt{home: rec, id: crypto.Text(), life: min(max(n.Window, minDebtLife), maxDebtLife), at: g.at,
			resets: l.resets.Load(), state: dueDebt, claims: claims})
	}
}

// refilled notes the weight that the meter has given back of what is owed.
func (c *count) refilled(rec *record, now int64) {
	if c.meter == nil {
		return
	}
	units := c.owed.uncharged
	for _, o := range rec.debts {
		if o.charge == 0 && contract.SameID(&o.claims[0].Limits[0], &c.Limit) {
			units -= o.back
		}
	}
	c.owed.refilled = max(c.weight(units)-c.metered(now).local, 0)
}

// request is what charges a debt now, and whether anything of it still counts. Limits that were
// reset since are left out. What meters have given back is taken off the oldest debts first.
func (l *ledger) request(o *debt, now int64) (r stint.Request, ok bool) {
	rec, age, given := o.home, max(now-o.at, 0), time.Duration(maxAhead)
	claims, meters, metered, blind := slices.Clone(o.claims), []*count(nil), false, false
	alone := l.instances() == 1 && len(claims) == 1
	for i := range claims {
		c := &claims[i]
		reset := func(m stint.Limit) bool {
			n := rec.of(&m, 0)
			return n != nil && o.resets < n.resets && !rec.isOther(*c)
		}
		if slices.ContainsFunc(c.Limits, reset) {
			c.Limits = slices.DeleteFunc(slices.Clone(c.Limits), reset)
		}
		for j := range c.Limits {
			m := &c.Limits[j]
			if c.Cost == 0 || m.Algorithm == stint.AlgorithmConcurrency {
				continue
			}
			ok = ok || m.Algorithm != stint.AlgorithmBucket && age < int64(m.Window)
			if !contract.HasMeter(m) {
				continue
			}
			n := rec.of(m, j)
			metered = true
			switch {
			case n == nil || n.meter == nil || n.owed == nil || !alone || rec.blind(n, o.at):
				blind = true // others may have used all that was refilled
				ok = ok || age < meterLife(m)
			case o.at >= n.owed.since:
				meters = append(meters, n)
				if left := n.owed.refilled; left < n.weight(c.Cost) {
					given = min(given, time.Duration(left/n.rate*n.tick)*time.Microsecond)
				}
			}
		}
	}
	if blind || !metered {
		given = 0
	}
	for _, n := range meters {
		weight := n.weight(o.claims[0].Cost)
		ok = ok || !blind && n.owed.refilled < weight
		n.owed.refilled -= min(weight, n.given(given))
	}
	claims = slices.DeleteFunc(claims, func(c stint.Claim) bool { return len(c.Limits) == 0 })
	if !o.flying && !o.renamed && o.charge != 0 && now-o.at >= int64(o.life) { // the store may have forgotten the ID
		o.rename()
	}
	r = stint.Request{Claims: claims, ID: o.id, IDLife: o.life, Mode: driver.ModeForce}
	r.Terms().Age, r.Terms().Refilled = time.Duration(age).Truncate(time.Microsecond), given
	if !o.flying {
		o.refilled = given
	}
	return r, ok
}

// meterLife is how long a unit may count in a limit that refills, if how much of it was refilled is
// not known: what others used may take all that is refilled. So it is a few times what it takes to
// refill all of it.
func meterLife(m *stint.Limit) int64 {
	return int64(m.Window) * min(4*max(ceilDiv(m.Capacity(), max(m.Max, 1)), 1), int64(maxAhead/stint.MaxWindow))
}

// collectSome returns calls that charge what is owed, of as many subjects as fit in a batch, going
// on where the last batch ended.
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
			l.next.Add(^uint32(0)) // there may be more
			break
		}
	}
	return calls
}

// carry returns calls that charge what is owed under the claims of a request.
func (l *ledger) carry(r *stint.Request) (calls []*owedCall) {
	defer l.unlock(l.lock(r.Claims))
	for i := range r.Claims {
		if rec := l.find(&r.Claims[i]); rec != nil {
			calls = l.collect(rec, l.now(), calls)
		}
	}
	return calls
}
