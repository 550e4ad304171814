package storetest

import (
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// A store may forget usage that no longer counts; the reference never does. The two differ when
// such usage counts again, under a slower refill or after the clock steps back; when an empty meter
// starts again with the units in its log; when an inspection shows the beginning of a calendar
// period; and when an empty state begins again with another generation. The rules leave these cases
// open. So a history resets such limits in the store and in the reference before it uses them, and
// no longer amends charges to such states unless the charges have left their windows.

type subjectScope struct{ subject, scope string }

type stateKey struct {
	subjectScope
	limit stint.Limit // with only the fields that identify the limit
}

func subjectScopeOf(c *stint.Claim) subjectScope { return subjectScope{c.Subject, c.Scope} }

// calm resets the limits of r under which the store may have forgotten usage that the reference
// still knows. It forgets charges to states that the store may have forgotten. It records all
// limits of r.
func (w *world) calm(r stint.Request) error {
	for c, limit := range contract.Limits(r.Claims) {
		l := *limit
		look := stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: []stint.Limit{l}}
		d, err := w.oracle.Take(w.t.Context(), stint.Request{Claims: []stint.Claim{look}, Mode: stint.ModePeek})
		if err != nil {
			return err
		}
		plain := l.Algorithm == stint.AlgorithmSliding && !contract.HasMeter(&l)
		// These fields do not identify the limit.
		l.Max, l.Burst, l.Leased, l.Start, l.Zone = 0, 0, false, 0, ""
		l.HoldThrough, l.ChargeExpired = false, false
		key := stateKey{subjectScopeOf(c), l}
		if w.oracle.Idle(&look, &l) && (d.States()[0].Used > 0 || plain && w.oracle.HasMeter(&look, &l) ||
			l.Algorithm == stint.AlgorithmCalendar) {
			if err := w.reset(key); err != nil {
				return err
			}
		}
		if l.Algorithm != stint.AlgorithmConcurrency && w.oracle.IdleState(&look, &l) {
			w.forgetCharges(func(c *stint.Charge, claim *stint.Claim) bool {
				return subjectScopeOf(claim) == key.subjectScope &&
					slices.Contains(contract.StateNames(claim, nil), l.Name) && !w.hasLeft(c) && c.Data().Hold == 0
			})
		}
		w.limits[key] = true
	}
	return nil
}

// hasLeft reports whether a charge has certainly left the windows of all its limits. It checks
// every claim of the charge, because a store compares the generations of all their states before it
// uses a booking.
func (w *world) hasLeft(c *stint.Charge) bool {
	for _, l := range contract.Limits(c.Claims()) {
		if l.Algorithm == stint.AlgorithmBucket || c.Data().At+2*l.Window.Microseconds() > w.h.Clock.micros() {
			return false
		}
	}
	return true
}

// forgetCharges forgets every charge with a claim that the given function selects.
func (w *world) forgetCharges(is func(*stint.Charge, *stint.Claim) bool) {
	w.charges = slices.DeleteFunc(w.charges, func(c chargePair) bool {
		for i := range c.oracle.Claims() {
			claim := &c.oracle.Claims()[i]
			if is(&c.oracle, claim) {
				return true
			}
		}
		return false
	})
}

func (w *world) reset(key stateKey) error {
	return w.both(stint.Command{Kind: stint.CommandReset, Subject: key.subject, Scope: key.scope,
		Limits: []stint.Limit{key.limit}})
}

// calmAll resets the limits and lifts the bans whose old data would count again after the clock
// steps back. It also forgets the charges that would count again.
func (w *world) calmAll() error {
	now := w.h.Clock.micros()
	var idle []stateKey
	for key := range w.limits {
		c := stint.Claim{Subject: key.subject, Scope: key.scope}
		if w.oracle.Idle(&c, &key.limit) || w.oracle.HoldExpired(&c, &key.limit) {
			idle = append(idle, key)
		}
	}
	for p, ends := range w.ids {
		if slices.Min(ends) <= now+16 {
			idle = append(idle, stateKey{p, w.plan.families[0][0]})
		}
	}
	for _, key := range idle {
		if err := w.reset(key); err != nil {
			return err
		}
		// The store may also have forgotten whether a charge of the subject was settled.
		w.forgetCharges(func(_ *stint.Charge, c *stint.Claim) bool { return subjectScopeOf(c) == key.subjectScope })
	}
	// A step back would return charges to their windows, possibly with another generation, and
	// revive holds that have ended or expired.
	w.forgetCharges(func(c *stint.Charge, _ *stint.Claim) bool { return w.hasLeft(c) || c.Data().Hold > 0 })
	for n := range w.plan.subjects {
		subject := w.subject(n)
		banned, err := w.banned(subject)
		if err != nil {
			return err
		}
		at, struck := w.denied[subject]
		if w.wasBanned[subject] && !banned || struck && now-at >= w.plan.bans.Within.Microseconds() {
			if err := w.both(stint.Command{Kind: stint.CommandUnban, Subject: subject}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) banned(subject string) (bool, error) {
	claim := stint.Claim{Subject: subject, Limits: w.plan.families[0][:1]}
	d, err := w.oracle.Take(w.t.Context(),
		stint.Request{Claims: []stint.Claim{claim}, Mode: stint.ModePeek, Bans: w.plan.bans})
	return d.Banned, err
}
