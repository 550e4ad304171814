package resilience

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// outageRetry is after how long to try again if only the store can allow it.
const outageRetry = time.Second

// decide decides a request without the store. If it was sent, and its answer is late, what is
// granted is not owed before that is known: it is the debt that is returned.
//
// Nobody waits for a place without the store: a Reserve that would have to wait is denied.
func (l *ledger) decide(r *stint.Request, late bool) (d stint.Decision, owes *debt, err error) {
	if l.closed.Load() {
		return d, nil, errClosed
	}
	now, instances := l.now(), l.instances()
	set := l.lock(r.Claims)
	defer l.unlock(set)
	if contract.AppliesBans(r) {
		if denied, err := l.banned(r); err != nil || denied.Banned {
			denier := denied.Denier
			l.show(r, &denied, now, instances)
			denied.Denier = denier
			return denied, nil, err
		}
	}
	if first := l.named(r, now); first != nil {
		return l.repeat(r, first, now, instances), nil, nil
	}
	d.Allowed = l.show(r, &d, now, instances) || r.Mode == driver.ModeForce
	d.Charge = contract.ChargeOf(r)
	switch {
	case !d.Allowed:
		l.deny(&d)
		l.strike(r, &d)
		return d, nil, nil
	case r.Mode == stint.ModePeek:
		return d, nil, nil
	}
	return d, l.grant(r, &d, late, now, instances), nil
}

// banned answers a request of which a subject is known to be banned.
func (l *ledger) banned(r *stint.Request) (d stint.Decision, err error) {
	for i := range r.Claims {
		if r.Claims[i].Shared {
			continue
		}
		look := stint.Request{Claims: []stint.Claim{{Subject: r.Claims[i].Subject, Limits: noRoom, Cost: 1}},
			Bans: &applyBans, Mode: stint.ModePeek}
		if d, err = l.bans.Take(context.Background(), look); err != nil || d.Banned {
			d.Denier, d.Charge = uint8(i+1), contract.ChargeOf(r)
			return d, err
		}
	}
	return stint.Decision{}, nil
}

// noRoom is a limit under which everything is denied, so that bans are counted.
var noRoom = []stint.Limit{{Max: 0, Window: time.Second}}

// show fills in what is used and left, and reports whether there is room for the request.
func (l *ledger) show(r *stint.Request, d *stint.Decision, now, instances int64) (fits bool) {
	fits = true
	usages := d.MakeUsages(contract.CountLimits(r))
	k := 0
	for i := range r.Claims {
		c := &r.Claims[i]
		rec := l.find(c)
		for j := range c.Limits {
			n, cost := rec.of(&c.Limits[j], j), c.Cost
			if n == nil {
				n = &count{rule: l.rule(&c.Limits[j])}
			}
			l.follow(n, &c.Limits[j])
			if n.Algorithm == stint.AlgorithmConcurrency {
				cost = min(cost, 1)
			}
			n.advance(now)
			uncounted := n.uncounted(rec.answer(), 0, now)
			left := n.left(now, uncounted, instances)
			usages[k] = stint.Usage{Used: n.capacity - left, ResetAfter: n.reset(now, instances)}
			if cost > 0 && left < cost {
				usages[k].RetryAfter = n.when(now, cost, uncounted, instances)
				if fits {
					d.Denier = uint8(i + 1)
				}
				fits = false
			}
			k++
		}
	}
	return fits
}

// answer is the store's newest answer.
func (r *record) answer() (at int64) {
	if r == nil {
		return 0
	}
	return r.at
}

// deny completes a denial: it lasts as long as any limit denies.
func (l *ledger) deny(d *stint.Decision) {
	for _, u := range d.Usages() {
		if u.RetryAfter == stint.Never || d.RetryAfter == stint.Never {
			d.RetryAfter = stint.Never
		} else {
			d.RetryAfter = max(d.RetryAfter, u.RetryAfter)
		}
	}
}

// strike counts a denial towards a ban.
func (l *ledger) strike(r *stint.Request, d *stint.Decision) {
	c := &r.Claims[d.Denier-1]
	if r.Mode != stint.ModeTake || !strikes(r) || c.Cost == 0 || c.Shared {
		return
	}
	struck, err := l.bans.Take(context.Background(), stint.Request{
		Claims: []stint.Claim{{Subject: c.Subject, Limits: noRoom, Cost: 1}}, Bans: r.Bans})
	if err == nil && struck.Banned {
		d.Banned, d.BanLeft = true, struck.BanLeft
		if d.RetryAfter != stint.Never {
			d.RetryAfter = max(d.RetryAfter, d.BanLeft)
		}
	}
}

// grant admits a request, and returns what that owes to the store, if it has to be known apart from
// the rest.
func (l *ledger) grant(r *stint.Request, d *stint.Decision, late bool, now, instances int64) *debt {
	data := d.Charge.Data()
	data.Fallback, data.Now = true, l.wall(now)
	charged, owes := false, false
	usages, age := d.Usages(), r.Terms().Age
	k := 0
	for i := range r.Claims {
		c := &r.Claims[i]
		if c.Cost == 0 {
			k += len(c.Limits)
			continue
		}
		if !charged {
			charged = true
			data.ID, data.At = l.mark<<markShift|rand.Uint64()>>markBits, max(l.wall(now)-age.Microseconds(), 1)
		}
		rec := l.record(c, now)
		for j := range c.Limits {
			n := l.count(rec, &c.Limits[j], j)
			if n.Algorithm == stint.AlgorithmConcurrency {
				n.hold(data.ID, now, false)
				usages[k].Used++
			} else if age < c.Limits[j].Window {
				owes = true
				n.grant(c.Cost, now, l.endOf(n.rule, now), instances, false)
				n.owe(c.Cost, now)
				usages[k].Used += c.Cost
			}
			usages[k].ResetAfter = n.reset(now, instances)
			k++
		}
	}
	if charged {
		contract.NoGenerations(&d.Charge)
	}
	home := l.find(&r.Claims[0])
	switch {
	case !charged:
		return nil
	case late:
	case !owes: // heartbeats charge places
		if r.ID != "" && home != nil {
			l.name(&debt{home: home, charge: data.ID, id: r.ID, life: contract.Life(r), at: now, state: goneDebt,
				claims: copied(r.Claims)}, now)
		}
		return nil
	case r.ID == "" || r.Claims[0].Cost == 0 || len(home.debts) >= maxDebts || l.debts.Load() >= int64(l.entries.most):
		l.oweTogether(r.Claims, now, l.resets.Load())
		return nil
	}
	return l.oweAlone(r, data.ID, late, now)
}

// named returns what a request with the same ID owes.
func (l *ledger) named(r *stint.Request, now int64) *debt {
	if r.ID == "" || r.Claims[0].Cost == 0 || r.Terms().Booked != nil {
		return nil
	}
	rec := l.find(&r.Claims[0])
	if rec == nil {
		return nil
	}
	if o := rec.named[r.ID]; o != nil && !o.refunded && now-o.at < int64(contract.Life(r)) {
		return o
	}
	return nil
}

// repeat answers a request whose ID was seen before. It has the charge of the first.
func (l *ledger) repeat(r *stint.Request, first *debt, now, instances int64) stint.Decision {
	d := stint.Decision{Allowed: true, Repeat: true}
	first.repeated = first.repeated || r.Mode != stint.ModePeek
	l.show(r, &d, now, instances)
	for i := range d.Usages() {
		d.Usages()[i].RetryAfter = 0
	}
	d.Denier = 0
	d.Charge = contract.ChargeOf(r)
	switch {
	case !sameClaims(r.Claims, first.claims):
	case first.charge == 0:
		d.Charge = first.stored
	default:
		d.Charge.SetClaims(first.claims)
		data := d.Charge.Data()
		data.ID, data.At, data.Now, data.Fallback = first.charge, l.wall(first.at), l.wall(now), true
		contract.NoGenerations(&d.Charge)
	}
	return d
}

// sameClaims reports whether claims are of the same subjects, scopes and limits.
func sameClaims(a, b []stint.Claim) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Subject != b[i].Subject || a[i].Scope != b[i].Scope || len(a[i].Limits) != len(b[i].Limits) {
			return false
		}
		for k := range a[i].Limits {
			if !contract.SameID(&a[i].Limits[k], &b[i].Limits[k]) {
				return false
			}
		}
	}
	return true
}

// amended counts an amendment of a charge that the store made.
func (l *ledger) amended(c *stint.Charge, a stint.Amendment, charged int64) {
	now, instances := l.now(), l.instances()
	l.each(c.Claims(), func(i int, _ *record, n *count) {
		at := l.instant(c.Data().AtOf(i), now)
		switch cost := c.Claims()[i].Cost; {
		case a.Kind != stint.AmendSettle || n.Algorithm == stint.AlgorithmConcurrency || at < n.resetAt:
		case charged > cost:
			n.grant(charged-cost, now, l.endOf(n.rule, now), instances, true)
			n.heard.used, n.heard.until = n.heard.used+charged-cost, max(n.heard.until, now+int64(n.Window))
		case a.Cost < cost:
			n.giveBack(cost-a.Cost, at, now, instances, true)
		}
	})
}

// raise counts a raise that the store is yet to charge. It returns what is to be called when it
// has.
func (l *ledger) raise(c *stint.Charge, a stint.Amendment) (charged func(stint.Amended)) {
	now, instances := l.now(), l.instances()
	l.each(c.Claims(), func(i int, _ *record, n *count) {
		if n.Algorithm != stint.AlgorithmConcurrency {
			l.raiseBy(n, min(a.Cost-c.Claims()[i].Cost, n.mostRaise(a.MaxDebt, now, instances)), now, instances)
		}
	})
	return l.whenRaised(c.Claims(), a.Cost, now)
}

// whenRaised returns what is to be called when the store has charged a raise that was counted at an
// instant.
func (l *ledger) whenRaised(claims []stint.Claim, cost, now int64) func(stint.Amended) {
	claims = copied(claims)
	return func(stint.Amended) {
		later := l.now()
		l.each(claims, func(i int, _ *record, n *count) {
			if n.Algorithm != stint.AlgorithmConcurrency {
				n.repaid(cost-claims[i].Cost, now, l.wall(later), 0, later, 0)
			}
		})
	}
}

// raiseBy counts units of a raise, which the store does not.
func (l *ledger) raiseBy(n *count, units, now, instances int64) {
	if units > 0 {
		n.grant(units, now, l.endOf(n.rule, now), instances, false)
		n.owe(units, now)
	}
}

// each calls f with what is known of each limit of the claims that cost something, with their
// locks.
func (l *ledger) each(claims []stint.Claim, f func(i int, rec *record, n *count)) {
	set := l.lock(claims)
	defer l.unlock(set)
	for i := range claims {
		c := &claims[i]
		rec := l.find(c)
		for j := range c.Limits {
			if n := rec.of(&c.Limits[j], j); n != nil && c.Cost > 0 {
				f(i, rec, n)
			}
		}
	}
}

// stillIn is how many units that were charged at an instant, both in the store's clock, surely
// still count in a limit.
func stillIn(r *rule, units, at, now int64) int64 {
	window := r.Window.Microseconds()
	switch age := max(now-at, 0); {
	case r.Algorithm == stint.AlgorithmConcurrency || age >= window ||
		r.Algorithm == stint.AlgorithmFixed && at/window != now/window:
		return 0
	case r.Algorithm == stint.AlgorithmBucket:
		units -= int64(math.Ceil(float64(age) / float64(window) * float64(r.Max)))
	}
	return max(units, 0)
}

// settlement is what settling a local charge means: what to tell the caller, the store's charge if
// that is to be settled, what to give back to the store, and what to call when it has counted a
// raise.
type settlement struct {
	done    stint.Amended
	stored  stint.Charge
	backs   []giveBackUnits
	charged func(stint.Amended)
}

// settle settles a local charge, or a part of it, which may have a debt of its own.
func (l *ledger) settle(o *debt, c *stint.Charge, a stint.Amendment) (s settlement) {
	now, instances := l.now(), l.instances()
	subjects := c.Claims()
	if o != nil {
		subjects = o.subjects
	}
	set := l.lock(subjects)
	defer l.unlock(set)
	if o != nil && a.Cost == 0 {
		if o.repeated {
			return s
		}
		o.refunded = true
	}
	at := l.instant(c.Data().At, now)
	open := make([]bool, len(c.Claims())) // two may be of one subject and scope
	for i := range open {
		open[i] = c.Claims()[i].Cost > 0 && !l.settled.Has(c.Data().ID, &c.Claims()[i])
	}
	s.done.Charged = a.Cost
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		if !open[i] {
			continue
		}
		rec, changed := l.record(claim, now), o != nil
		for j := range claim.Limits {
			n := l.count(rec, &claim.Limits[j], j)
			units := a.Cost - claim.Cost
			switch {
			case n.Algorithm == stint.AlgorithmConcurrency:
				changed = changed || a.Cost == 0
			case at < n.resetAt:
			case units > 0 && now-at < int64(lateRaise):
				units, changed = min(units, n.mostRaise(a.MaxDebt, now, instances)), true
				s.done.Charged = min(s.done.Charged, claim.Cost+units)
				l.raiseBy(n, units, now, instances)
				if o == nil {
					l.owe(rec, n, units, now)
				}
			case units <= 0 && stillIn(n.rule, claim.Cost, c.Data().At, l.wall(now)) > 0:
				changed = true
				n.giveBack(-units, at, now, instances, o != nil && o.state == paidDebt)
				if o == nil && units < 0 {
					s.backs = l.forgive(rec, n, -units, at, s.backs)
				}
			}
		}
		if changed {
			l.settled.Add(c.Data().ID, claim)
			s.done.Changed = true
		}
		l.clearOwing(rec)
	}
	if !s.done.Changed {
		return settlement{}
	}
	if o != nil {
		l.amendDebt(o, c, a, &s)
	}
	return s
}

// amendDebt has the store's charge of a debt amended, now or when there is one.
func (l *ledger) amendDebt(o *debt, c *stint.Charge, a stint.Amendment, s *settlement) {
	if a.Kind == stint.AmendSettle && a.Cost > c.Claims()[0].Cost {
		s.charged = l.whenRaised(c.Claims(), a.Cost, l.now())
	}
	switch o.state {
	case paidDebt:
		s.stored = partOf(&o.stored, c)
	case lateDebt, dueDebt:
		o.pending = append(o.pending, amendment{*c, a, s.charged, s.done.Charged})
	}
}

// release has a place given back whose charge has a debt.
func (l *ledger) release(o *debt, c *stint.Charge, a stint.Amendment) (stored stint.Charge) {
	set := l.lock(o.subjects)
	defer l.unlock(set)
	var s settlement
	l.amendDebt(o, c, a, &s)
	return s.stored
}

// lateRaise is until when after a charge its cost can be raised.
const lateRaise = time.Hour

// mostRaise is by how many units a charge may be raised: of a limit that refills to a debt.
func (c *count) mostRaise(maxDebt, now, instances int64) int64 {
	if c.unit == 0 {
		return stint.MaxUnits
	}
	if maxDebt == 0 {
		maxDebt = c.capacity
	}
	return max(c.left(now, c.uncounted(math.MaxInt64, 0, now), instances), 0) + maxDebt
}

// commanded applies a command here that the store has executed, or failed to. Units are given back
// once: not here if the store gave them back, and is yet to be charged with what was granted here.
func (l *ledger) commanded(c *stint.Command, done bool) {
	_ = l.bans.Command(context.Background(), *c) // fails only once it is closed
	if c.Kind != stint.CommandGiveBack {
		return
	}
	now, instances := l.now(), l.instances()
	claims := []stint.Claim{{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}}
	set := l.lock(claims)
	defer l.unlock(set)
	rec := l.find(&claims[0])
	for j := range c.Limits {
		n := rec.of(&c.Limits[j], j)
		if n == nil || done && n.uncounted(math.MaxInt64, 0, now) > 0 {
			continue
		}
		n.giveBack(c.Units, now, now, instances, done)
		for g, units := 0, c.Units; !done && g < len(rec.groups); g++ {
			units -= rec.groups[g].take(n, units)
		}
	}
	if rec != nil {
		l.clearOwing(rec)
	}
}
