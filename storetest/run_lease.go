package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

// leasable returns those of the windowed limits that can be leased.
func leasable() []stint.Limit {
	all := windowed()
	return []stint.Limit{all[0], all[1], all[4]}
}

// fit takes the cost, or as much of it as there is room for.
func (k *tester) fit(cost int64) stint.Decision {
	k.Helper()
	r := k.request(cost)
	r.Terms().Fit = true
	return k.decide(r)
}

// lease takes the cost, or as much of it as there is room for. The process may use the units for
// the given time.
func (k *tester) lease(cost int64, during time.Duration) stint.Decision {
	k.Helper()
	r := k.request(cost)
	r.Terms().Lease = during
	return k.decide(r)
}

// wantCharged checks that a decision is allowed and that its charge has the given cost.
func (k *tester) wantCharged(d stint.Decision, cost int64) {
	k.Helper()
	k.wantAllowed(d, true)
	if c := d.Charge; c.Data().ID == 0 || c.Claims()[0].Cost != cost || d.RetryAfter != 0 {
		k.Fatalf("charge is %x of %d with retry-after %v, want %d at once", c.Data().ID, c.Claims()[0].Cost,
			d.RetryAfter, cost)
	}
}

func (k *tester) wantUncharged(d stint.Decision) {
	k.Helper()
	k.wantAllowed(d, false)
	if d.Charge.Data().ID != 0 {
		k.Fatalf("denied with charge %x", d.Charge.Data().ID)
	}
}

// toFull moves the clock to the beginning of the next fixed window.
func (k *tester) toFull(window time.Duration) {
	k.Clock.Advance(k.Clock.Now().Truncate(window).Add(window).Sub(k.Clock.Now()))
}

var leases = []check{
	exact("a cost that may be fitted is charged as far as there is room", windowed(), func(k *tester) {
		k.wantCharged(k.fit(7), 7)
		d := k.fit(5)
		k.wantCharged(d, 3)
		k.wantUsed(d, 10)
		k.wantCharged(k.other().fit(stint.MaxUnits), 10) // the cost is above the capacity
	}),
	exact("units of a lease are given back before its end", leasable(), func(k *tester) {
		d := k.lease(8, time.Minute)
		k.wantApplied(k.settle(d, 3), true)
		k.wantApplied(k.settle(d, 0), false)
		k.wantUsed(k.mustTake(7), 10)
		k.mustDeny(1)
	}),
	clocked("units that are booked are not leased", limits{stint.PerSecond(4)}, func(k *tester) {
		both := k.with(stint.PerHour(100))
		k.mustTake(3)
		booked := k.reserve(3, 0)
		k.wantRetry(booked, s)
		d := both.lease(2, 300*ms)
		k.wantUncharged(d)
		k.wantRetry(d, 300*ms)
		if a, b := d.States()[0].RetryAfter, d.States()[1].RetryAfter; a != 300*ms || b != 0 {
			k.Errorf("the limits report retry-after %v and %v, want 300ms and 0", a, b)
		}
		both.mustTake(1) // there is room now, but not during a lease
		k.wantApplied(k.settle(booked, 0), true)
		k.Clock.Advance(s)
		k.wantCharged(both.lease(9, 300*ms), 4)
	}),
	everyStore("units fitted, leased and taken do not exceed the capacity", leasable(), func(k *tester) {
		admitted := int64(0)
		for i := range int64(30) {
			r := k.request(1 + i%3)
			switch i % 3 {
			case 0:
				r.Terms().Lease = time.Minute
			case 1:
				r.Terms().Fit = true
			}
			d := k.decide(r)
			if d.Allowed {
				admitted += d.Charge.Claims()[0].Cost
			}
			if d.Charge.Claims()[0].Cost > r.Claims[0].Cost {
				k.Errorf("%s: charged %d of %d", k.limit(), d.Charge.Claims()[0].Cost, r.Claims[0].Cost)
			}
		}
		if admitted > 10 || !k.NeverOver && admitted != 10 {
			k.Errorf("%s: admitted %d, want 10", k.limit(), admitted)
		}
	}),
	everyStore("a hundred fitted and leased at once", leasable(), func(k *tester) {
		k.wantAdmitted(k.storm(100, func() stint.Request {
			r := k.request(1)
			r.Terms().Fit, r.Terms().Lease = true, time.Minute
			return r
		}), 10)
	}),
	corner("a log full of leases merges its oldest entries", limits{stint.PerSecond(1000)}, func(k *tester) {
		// Slices are 8 ms long. The first charges are older than all leases, and the later charges
		// lie between the oldest leases.
		for _, charges := range []int{0, 1, 5, 11} {
			k := k.other()
			k.toFull(s)
			for i := range time.Duration(251) {
				k.lease(1, (i*101%251*2+4)*8*ms)
			}
			for range charges {
				k.take(1)
				k.Clock.Advance(8 * ms)
			}
			k.Clock.Advance(s - 12*8*ms) // nothing has left the window yet
			for range 30 {
				k.peek(1)
				k.Clock.Advance(8 * ms)
			}
		}
	}),
	corner("a log full of leases gets more of them", limits{stint.PerSecond(1000)}, func(k *tester) {
		for i := range int64(600) {
			k.take(1)
			k.lease(1, time.Duration(i*101%251)*8*ms)
			k.Clock.Advance(ms)
		}
		for range 450 {
			k.peek(1)
			k.Clock.Advance(8 * ms)
		}
	}),
	corner("large leases beside small charges", limits{stint.PerSecond(100_000)}, func(k *tester) {
		for i := range int64(100) {
			k.take(1)
			k.lease(1+i*i%300, time.Duration(i*i%17)*100*ms+us)
			k.Clock.Advance(20 * ms)
		}
		for range 100 {
			k.take(1)
			k.Clock.Advance(33 * ms)
		}
	}),
}
