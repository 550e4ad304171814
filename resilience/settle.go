package resilience

import (
	"context"
	"math"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// amended records that a charge made by the store was amended. charged is the cost that remains
// charged. sent is the time at which the amendment was sent: an answer that arrived later may
// already reflect it.
func (l *ledger) amended(c *stint.Charge, a stint.Amendment, charged, sent int64) {
	now, dropped := l.now(), max(contract.Total(&a)-charged, 0)
	defer l.unlock(l.lock(c.Claims()))
	for it := range l.each(c.Claims()) {
		at := l.instant(c.Data().AtOf(it.i), now)
		truth, named := contract.TotalOf(&a, it.Name)
		truth = min(truth, max(it.cost, truth-dropped))
		switch {
		case a.Kind != stint.AmendSettle || it.Algorithm == stint.AlgorithmConcurrency || it.wasReset(at) || !named:
		case truth > it.cost:
			it.grant(truth-it.cost, at, now, true)
		case truth < it.cost:
			before := it.rec.heard <= sent
			if c.Data().AtOf(it.i) > c.Data().NowOf(it.i) { // a booking is counted as used by others
				it.others.unbook(it.cost-truth, before)
			} else if gone := it.ungrant(it.cost-truth, at, now); !before {
				it.others.units += gone // hear subtracted them, although the reported usage may have lacked them
			}
			if before {
				it.drain(it.cost-truth, at, now, true)
			}
		}
	}
}

// wasReset reports whether the limit was reset after a charge made at the given time, which is
// exact only to the microsecond.
func (c *count) wasReset(at int64) bool { return at+int64(time.Microsecond) <= c.since }

// raise counts the units by which an amendment raises a charge, before the store has charged them.
// It returns a function to call when the store has charged them.
func (l *ledger) raise(c *stint.Charge, a stint.Amendment) (charged func(stint.Amended)) {
	defer l.unlock(l.lock(c.Claims()))
	now := l.now()
	for it := range l.each(c.Claims()) {
		truth, _ := contract.TotalOf(&a, it.Name)
		if it.Algorithm != stint.AlgorithmConcurrency && truth > it.cost {
			it.owe(min(truth-it.cost, it.mostRaise(a.MaxDebt, now)), l.instant(c.Data().AtOf(it.i), now), now)
		}
	}
	return l.whenRaised(*c, a, now)
}

// whenRaised returns a function to call when the store has charged a raise that was counted at the
// time `now`.
func (l *ledger) whenRaised(c stint.Charge, a stint.Amendment, now int64) func(stint.Amended) {
	c.SetClaims(copied(c.Claims()))
	return func(done stint.Amended) {
		later, dropped := l.now(), int64(0)
		if done.Changed { // a limit that refills might not take the whole raise
			dropped = max(contract.Total(&a)-done.Charged, 0)
		}
		defer l.unlock(l.lock(c.Claims()))
		for it := range l.each(c.Claims()) {
			truth, _ := contract.TotalOf(&a, it.Name)
			charged := truth - dropped
			if truth <= it.cost {
				continue
			}
			at := l.instant(c.Data().AtOf(it.i), later)
			it.repaid(charged-it.cost, charged-it.cost, now, l.wall(later), 0, later, time.Duration(later-now))
			if it.advance(later); it.number(at) <= it.newest-parts && it.number(at) > it.number(now)-parts {
				it.add(charged-it.cost, later) // the charge has left its window in the meantime
			}
		}
	}
}

// stillIn returns how many of the units charged at the given time are certain to still count under
// a limit. Both times are in microseconds, by the store's clock.
func stillIn(r *stint.Limit, units, at, now int64) int64 {
	window, begin := r.Window.Microseconds(), int64(0)
	if r.Algorithm == stint.AlgorithmFixed || r.Algorithm == stint.AlgorithmCalendar {
		begin, _ = contract.Period(r, now)
	}
	switch age := max(now-at, 0); {
	case r.Algorithm == stint.AlgorithmConcurrency || age >= window || at < begin:
		return 0
	case r.Algorithm == stint.AlgorithmBucket:
		units -= int64(math.Ceil(float64(age) / float64(window) * float64(r.Max)))
	}
	return max(units, 0)
}

// settlement is the outcome of settling a local charge. done is the answer to the caller. stored is
// the store's charge, if it must be settled too. backs are jobs that give back units of groups.
// charged is a function to call when the store has charged a raise.
type settlement struct {
	done    stint.Amended
	stored  stint.Charge
	backs   []*job
	charged func(stint.Amended)
}

// settle settles a local charge, or a part of it, or releases its place. held reports whether it
// had a place. o is the separate debt of the charge, or nil. The store's charge of that debt is
// amended too, once it exists.
func (l *ledger) settle(o *debt, c *stint.Charge, a stint.Amendment, held bool) (s settlement) {
	subjects := c.Claims()
	if o != nil {
		subjects = o.subjects
	}
	defer l.unlock(l.lock(subjects))
	now := l.now()
	if a.Kind == stint.AmendRelease {
		if s.done.Changed = held; held {
			l.noteAll(c, &a)
		}
	} else {
		if o != nil && a.Cost == 0 && a.Costs == nil {
			if o.repeated {
				return s
			}
			o.refunded = true
		}
		if l.settleHere(o, c, a, now, &s); !s.done.Changed {
			return settlement{}
		}
	}
	if o == nil {
		return s
	}
	if a.Kind == stint.AmendSettle && raises(c, &a) {
		s.charged = l.whenRaised(*c, a, now)
	}
	switch o.state {
	case paidDebt:
		s.stored = partOf(&o.stored, c)
	case openDebt, dueDebt:
		o.pending = append(o.pending, newJob(*c, a, s.charged))
	}
	return s
}

// settleHere records the effect of settling a local charge in this process. Units without a
// separate debt will be charged in groups.
func (l *ledger) settleHere(o *debt, c *stint.Charge, a stint.Amendment, now int64, s *settlement) {
	claims, at := c.Claims(), l.instant(c.Data().At, now)
	alone := o != nil && o.state != goneDebt
	changed := make([]bool, len(claims))
	s.done.Charged = contract.Total(&a)
	l.make(claims, now)
	for it := range l.each(claims) {
		if !ends(&a, &it.Limit) || l.isSettled(c, it.claim, &it.Limit, &a) {
			continue
		}
		truth, _ := contract.TotalOf(&a, it.Name)
		units, changes := truth-it.cost, alone
		switch {
		case it.Algorithm == stint.AlgorithmConcurrency:
			changes = true
		case it.wasReset(at):
		case units > 0 && (c.Data().Hold > 0 || stillIn(&it.Limit, it.cost, c.Data().At, l.wall(now)) > 0):
			most := it.mostRaise(a.MaxDebt, now)
			s.done.Charged = min(s.done.Charged, contract.Total(&a)-max(units-most, 0))
			units, changes = min(units, most), true
			if alone { // the debt is charged as of the time `at`
				it.owe(units, at, now)
			} else {
				it.owe(units, now, now)
				it.together(units, now)
			}
		case units <= 0 && stillIn(&it.Limit, it.cost, c.Data().At, l.wall(now)) > 0:
			changes = true
			stored := int64(0) // units that the store has charged
			if alone && o.state == paidDebt {
				stored = -units
			} else if !alone && units < 0 {
				for _, j := range l.forgive(it.rec, it.count, -units, at) {
					stored += j.Charge.Claims()[0].Cost
					s.backs = append(s.backs, j)
				}
			}
			it.drain(stored, at, now, true)
			it.drain(-units-stored, at, now, false)
			it.ungrant(-units, at, now)
		}
		changed[it.i] = changed[it.i] || changes
		l.noteOwing(it.rec)
	}
	for i := range claims { // not in the loop above, because two claims may have the same subject and scope
		if changed[i] {
			s.done.Changed = true
			l.noteSettled(c, &claims[i], &a)
		}
	}
}

// placeState is the prefix of the names under which released places are remembered.
const placeState = "place "

// isSettled reports whether the units that a charge took from a limit are known to be settled. A
// hold is settled limit by limit, any other charge claim by claim. A place can also be released
// separately.
func (l *ledger) isSettled(c *stint.Charge, claim *stint.Claim, limit *stint.Limit, a *stint.Amendment) bool {
	id, place := c.Data().ID, limit.Algorithm == stint.AlgorithmConcurrency
	switch {
	case place && l.settled.HasState(id, claim, placeState+limit.Name):
		return true
	case place && (c.Data().Hold > 0 || a.Kind == stint.AmendRelease):
		return false
	case c.Data().Hold == 0:
		return l.settled.Has(id, claim)
	}
	return l.settled.HasState(id, claim, limit.Name)
}

// noteSettled remembers that a settlement or a release ends the use of some limits by a claim; see
// ends.
func (l *ledger) noteSettled(c *stint.Charge, claim *stint.Claim, a *stint.Amendment) {
	for i := range claim.Limits {
		switch limit := &claim.Limits[i]; {
		case !ends(a, limit):
		case c.Data().Hold == 0 && a.Kind == stint.AmendSettle:
			l.settled.Add(c.Data().ID, claim)
		case limit.Algorithm == stint.AlgorithmConcurrency:
			l.settled.AddState(c.Data().ID, claim, placeState+limit.Name)
		default:
			l.settled.AddState(c.Data().ID, claim, limit.Name)
		}
	}
}

// noteAll remembers that a charge is settled or released, or will be. A repeat of the amendment
// then changes nothing, even if the store is unavailable.
func (l *ledger) noteAll(c *stint.Charge, a *stint.Amendment) {
	for i := range c.Claims() {
		l.noteSettled(c, &c.Claims()[i], a)
	}
}

// ends reports whether a settlement or a release ends the charge's use of a limit. A settlement to
// 0 gives up a place; any other keeps it.
func ends(a *stint.Amendment, limit *stint.Limit) bool {
	truth, named := contract.TotalOf(a, limit.Name)
	if limit.Algorithm == stint.AlgorithmConcurrency {
		return a.Kind == stint.AmendRelease || named && truth == 0
	}
	return a.Kind == stint.AmendSettle && named
}

// isOpen reports whether a settlement or a release may still change something, and whether it can
// only change places, because the rest has been settled.
func (l *ledger) isOpen(c *stint.Charge, a *stint.Amendment) (open, onlyPlaces bool) {
	var places, states, settled bool
	for claim, limit := range contract.Limits(c.Claims()) {
		switch place := limit.Algorithm == stint.AlgorithmConcurrency; {
		case !ends(a, limit):
		case l.isSettled(c, claim, limit, a):
			settled = settled || !place
		case place:
			places = true
		default:
			states = true
		}
	}
	return places || states, places && !states && settled
}

// unsettled returns a charge in which the claims that are known to be settled cost nothing. If the
// charge has a hold or only one claim, or is released, unsettled returns it unchanged.
func (l *ledger) unsettled(c stint.Charge, a *stint.Amendment) stint.Charge {
	if len(c.Claims()) == 1 || a.Kind != stint.AmendSettle || c.Data().Hold > 0 {
		return c
	}
	c.SetClaims(c.Claims()) // copies the claims
	for i := range c.Claims() {
		if claim := &c.Claims()[i]; l.settled.Has(c.Data().ID, claim) {
			claim.Cost, claim.Costs = 0, nil
		}
	}
	return c
}

// raises reports whether an amendment raises the cost of a charge under any limit.
func raises(c *stint.Charge, a *stint.Amendment) bool {
	for claim, l := range contract.Limits(c.Claims()) {
		if truth, named := contract.TotalOf(a, l.Name); named && contract.Charges(claim) && truth > claim.CostOf(l) {
			return true
		}
	}
	return false
}

// mostRaise returns the maximum number of units by which a charge may be raised. Under a limit that
// refills, that is the number of units that are left plus maxDebt, or plus the capacity if maxDebt
// is 0.
func (c *count) mostRaise(maxDebt, now int64) int64 {
	if c.unit == 0 {
		return stint.MaxUnits
	}
	if maxDebt == 0 {
		maxDebt = c.capacity
	}
	return max(c.left(now, c.uncounted(math.MaxInt64, 0, now)), 0) + maxDebt
}

// commanded applies a command in this process. sent is the time at which the command was sent: an
// answer that arrived later may already reflect it. done reports whether the store has executed it.
// Units must be given back only once. So if the store has given units back, and has yet to charge
// units that were granted here, none are given back here.
func (l *ledger) commanded(c *stint.Command, done bool, sent int64) {
	_ = l.bans.Command(context.Background(), *c) // fails only after l.bans is closed
	if c.Kind != stint.CommandGiveBack {
		return
	}
	now, claims := l.now(), commandClaims(c)
	defer l.unlock(l.lock(claims))
	for it := range l.each(claims) {
		if done && it.uncounted(math.MaxInt64, 0, now) > 0 {
			continue
		}
		it.advance(now)
		gone := it.take(c.Units, it.newest-parts) // the oldest first, as in the store
		if done && it.rec.heard > sent {
			it.others.units += gone
			continue
		}
		if it.drain(c.Units, now, now, done); !done {
			it.cancel(c.Units, 0, now)
			l.noteOwing(it.rec)
		}
	}
}

func commandClaims(c *stint.Command) []stint.Claim {
	return []stint.Claim{{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits, Cost: max(c.Units, 1)}}
}
