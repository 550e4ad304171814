package resilience

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// outageRetry is the RetryAfter that is reported if only the store can allow the request.
const outageRetry = time.Second

// decide decides a request without the store. If it admits a request that was sent to the store, it
// returns an open debt, because a late answer may show whether the store has charged the request.
//
// There are no bookings without the store: a request with [stint.ModeReserve] that would have to
// wait is denied.
func (l *ledger) decide(r *stint.Request, sent bool) (d stint.Decision, owes *debt, err error) {
	if l.closed.Load() {
		return d, nil, errClosed
	}
	defer l.unlock(l.lock(r.Claims))
	now := l.now()
	if contract.AppliesBans(r) {
		if denied, err := l.banned(r); err != nil || denied.Banned {
			denier := denied.Denier
			l.show(r, &denied, now)
			denied.Denier = denier
			return denied, nil, err
		}
	}
	if first := l.named(r, now); first != nil {
		return l.repeat(r, first, now), nil, nil
	}
	d.Allowed = l.show(r, &d, now) || r.Mode == driver.ModeForce
	d.Charge = contract.ChargeOf(r)
	switch {
	case !d.Allowed:
		l.deny(&d)
		l.strike(r, &d)
		return d, nil, nil
	case r.Mode == stint.ModePeek:
		return d, nil, nil
	}
	return d, l.grant(r, &d, sent, now), nil
}

// show fills in the usages, and reports whether the request is within all limits. If not, show also
// sets the Denier.
func (l *ledger) show(r *stint.Request, d *stint.Decision, now int64) (fits bool) {
	fits = true
	usages := d.MakeUsages(contract.CountLimits(r.Claims))
	for i := range r.Claims {
		c := &r.Claims[i]
		rec := l.find(c)
		for j := range c.Limits {
			n, uncounted := rec.of(&c.Limits[j], j), int64(0)
			if n == nil {
				n = &count{rule: l.rule(&c.Limits[j])}
			} else {
				l.follow(n, &c.Limits[j])
				n.advance(now)
				uncounted = n.uncounted(n.heard.at, n.heard.call, now)
			}
			cost, left := n.cost(c), n.left(now, uncounted)
			usages[j] = stint.Usage{Used: n.capacity - left, ResetAfter: n.reset(now)}
			if cost > 0 && left < cost {
				usages[j].RetryAfter = n.when(now, cost, uncounted)
				if fits {
					fits, d.Denier = false, uint8(i+1)
				}
			}
		}
		usages = usages[len(c.Limits):]
	}
	return fits
}

// deny sets the RetryAfter of a denial to the longest RetryAfter of its usages.
func (l *ledger) deny(d *stint.Decision) {
	for _, u := range d.Usages() {
		d.RetryAfter = max(d.RetryAfter, u.RetryAfter)
	}
}

// grant admits a request. If the request was sent to the store, grant returns its open debt,
// otherwise nil.
func (l *ledger) grant(r *stint.Request, d *stint.Decision, sent bool, now int64) *debt {
	data, usages, age := d.Charge.Data(), d.Usages(), r.Terms().Age
	data.Fallback, data.Now = true, l.wall(now)
	if !slices.ContainsFunc(r.Claims, func(c stint.Claim) bool { return contract.Charges(&c) }) {
		return nil
	}
	data.ID, data.At = l.mark<<markShift|rand.Uint64()>>markBits, max(l.wall(now)-age.Microseconds(), 1)
	contract.NoGenerations(&d.Charge)
	owes := false
	l.make(r.Claims, now)
	for it := range l.each(r.Claims) {
		u := &usages[it.k]
		if it.Algorithm == stint.AlgorithmConcurrency {
			it.hold(data.ID, now, false)
			u.Used++
		} else if age < it.Window {
			owes = true
			it.owe(it.cost, now, now)
			u.Used += it.cost
		}
		u.ResetAfter = it.reset(now)
	}
	id := r.ID != "" && contract.Charges(&r.Claims[0])
	if id = id || r.Hold > 0; r.Hold > 0 && !sent && !l.mayAdd(l.find(&r.Claims[0])) {
		data.Hold = 0 // the units are charged in a group, so they cannot be held
	}
	switch {
	case sent:
		return l.oweAlone(r, data.ID, openDebt, now)
	case id && !owes: // the charge has only places, which heartbeats report to the store
		l.oweAlone(r, data.ID, goneDebt, now)
	case id && l.mayAdd(l.find(&r.Claims[0])):
		l.oweAlone(r, data.ID, dueDebt, now)
	case owes:
		l.oweTogether(&debt{claims: r.Claims, at: now})
	}
	return nil
}

// named returns the debt of an earlier request with the same ID, or nil.
func (l *ledger) named(r *stint.Request, now int64) *debt {
	if r.ID == "" || !contract.Charges(&r.Claims[0]) || r.Terms().Booked != nil {
		return nil
	}
	rec := l.find(&r.Claims[0])
	if rec == nil {
		return nil
	}
	if o := rec.named[r.ID]; o != nil && !o.refunded && now-o.seen() < int64(contract.Life(r)) {
		return o
	}
	return nil
}

// repeat answers a request whose ID was used before. first is the debt of the original request. The
// decision has the charge of that request, if both requests have the same claims and Hold.
func (l *ledger) repeat(r *stint.Request, first *debt, now int64) stint.Decision {
	d := stint.Decision{Allowed: true, Repeat: true}
	first.repeated = first.repeated || r.Mode != stint.ModePeek
	l.show(r, &d, now)
	for i := range d.Usages() {
		d.Usages()[i].RetryAfter = 0
	}
	d.Denier = 0
	d.Charge = contract.ChargeOf(r)
	switch {
	case r.Hold != first.hold || !slices.EqualFunc(r.Claims, first.claims, sameClaim):
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

// sameClaim reports whether two claims have the same subject, scope and limits.
func sameClaim(a, b stint.Claim) bool {
	return a.Subject == b.Subject && a.Scope == b.Scope && slices.EqualFunc(a.Limits, b.Limits,
		func(a, b stint.Limit) bool { return contract.SameID(&a, &b) })
}

func (l *ledger) ban(subject string, d time.Duration) {
	if d = min(d, stint.MaxWindow).Round(time.Microsecond); d >= stint.MinWindow {
		_ = l.bans.Command(context.Background(), stint.Command{Kind: stint.CommandBan, Subject: subject, For: d})
	}
}

// unban removes a ban, because another process has reset, banned or unbanned the subject. If the
// subject is still banned, the store's next answer reports the ban.
func (l *ledger) unban(subject string) {
	if subject != "" {
		_ = l.bans.Command(context.Background(), stint.Command{Kind: stint.CommandUnban, Subject: subject})
	}
}

// banned returns a denial if one of the request's subjects is known to be banned, and otherwise the
// zero decision.
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

// noRoom has a single limit, which denies everything. banned peeks under it. strike takes under it,
// because only a denied take counts toward a ban.
var noRoom = []stint.Limit{{Max: 0, Window: time.Second}}

// strike counts a denial toward a ban. If that leads to a ban, strike adds the ban to the decision.
func (l *ledger) strike(r *stint.Request, d *stint.Decision) {
	c := &r.Claims[d.Denier-1]
	if r.Mode != stint.ModeTake || !strikes(r) || !contract.Charges(c) || c.Shared {
		return
	}
	struck, err := l.bans.Take(context.Background(), stint.Request{
		Claims: []stint.Claim{{Subject: c.Subject, Limits: noRoom, Cost: 1}}, Bans: r.Bans})
	if err == nil && struck.Banned {
		d.Banned, d.BanLeft = true, struck.BanLeft
		d.RetryAfter = max(d.RetryAfter, d.BanLeft)
	}
}
