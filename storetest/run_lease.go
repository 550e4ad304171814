package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

// leasable is a limit of 10 of every algorithm that can be leased.
func leasable() []stint.Limit {
	all := windowed()
	return []stint.Limit{all[0], all[1], all[4]}
}

// fit takes as much of a cost as there is room for.
func (k *tester) fit(subject string, cost int64, limits ...stint.Limit) stint.Decision {
	k.Helper()
	r := k.request(subject, cost, limits...)
	r.Fit = true
	return k.decide(r)
}

// lease takes as much of a cost as there is room for, to be used for a time.
func (k *tester) lease(subject string, cost int64, during time.Duration, limits ...stint.Limit) stint.Decision {
	k.Helper()
	r := k.request(subject, cost, limits...)
	r.Lease = during
	return k.decide(r)
}

// wantCharged wants a decision allowed, and its charge to be of a cost.
func (k *tester) wantCharged(d stint.Decision, cost int64) {
	k.Helper()
	k.wantAllowed(d, true)
	if c := d.Charge; c.ID == 0 || c.Claim.Cost != cost || d.RetryAfter != 0 {
		k.Fatalf("charge is %x of %d with retry-after %v, want %d at once", c.ID, c.Claim.Cost, d.RetryAfter, cost)
	}
}

// wantUncharged wants a decision denied without a charge.
func (k *tester) wantUncharged(d stint.Decision) {
	k.Helper()
	k.wantAllowed(d, false)
	if d.Charge.ID != 0 {
		k.Fatalf("denied with charge %x", d.Charge.ID)
	}
}

// toFullSecond moves the clock to where a fixed window of a second begins.
func (k *tester) toFullSecond() {
	k.Clock.Advance(k.Clock.Now().Truncate(s).Add(s).Sub(k.Clock.Now()))
}

var leases = []check{
	{name: "a cost that may be fitted is charged as far as there is room", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			subject := k.subject()
			k.wantCharged(k.fit(subject, 7, l), 7)
			d := k.fit(subject, 5, l)
			k.wantCharged(d, 3)
			k.wantUsed(d, 10)
			k.wantCharged(k.fit(k.subject(), stint.MaxUnits, l), 10) // above the capacity
		}
	}},
	{name: "a fitted cost is no less than one unit", exact: true, clock: true, test: func(k *tester) {
		for _, x := range []struct {
			limit stint.Limit
			retry time.Duration
		}{
			{stint.PerSecond(4), s}, {stint.TokenBucket(4, 4, s), s / 4},
			{stint.Limit{Max: 4, Window: s, Algorithm: stint.AlgorithmFixed}, s},
		} {
			k.toFullSecond()
			subject := k.subject()
			k.mustTake(subject, 4, x.limit)
			d := k.fit(subject, 3, x.limit)
			k.wantUncharged(d)
			k.wantRetry(d, x.retry)
			k.wantUsed(d, 4)
			k.Clock.Advance(x.retry - us)
			k.wantRetry(k.fit(subject, 3, x.limit), us)
			k.Clock.Advance(us)
			k.wantAllowed(k.fit(subject, 3, x.limit), true)
			k.wantRetry(k.fit(k.subject(), 3, stint.Limit{Window: s, Algorithm: x.limit.Algorithm}), stint.Never)
		}
	}},
	{name: "a bucket is fitted in whole tokens", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.TokenBucket(10, 10, s), k.subject()
		k.mustTake(subject, 10, l)
		k.Clock.Advance(399 * ms)
		k.wantCharged(k.fit(subject, 10, l), 3)
		k.wantRetry(k.fit(subject, 10, l), ms)
	}},
	{name: "the fullest of several limits says how much is charged", exact: true, test: func(k *tester) {
		hour, day, bucket, subject := stint.PerHour(10), stint.PerDay(5), stint.TokenBucket(
			20, 1, time.Hour), k.subject()
		k.mustTake(subject, 2, day)
		d := k.fit(subject, 9, hour, day, bucket)
		k.wantCharged(d, 3)
		k.wantUsed(d, 3, 5, 3)
		d = k.fit(subject, 9, hour, day, bucket)
		k.wantUncharged(d)
		for i, state := range d.States() {
			if (state.RetryAfter != 0) != (i == 1) {
				k.Errorf("%s says retry-after %v", state.Limit, state.RetryAfter)
			}
		}
	}},
	{name: "booked places are not left for a fitted cost", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(10), k.subject()
		k.mustTake(subject, 6, l)
		k.wantRetry(k.reserve(subject, 5, 0, l), s)
		k.wantUsed(k.fit(subject, 4, l), 12) // 11 are used: it is one unit, which has room now
		k.wantCharged(k.fit(subject, 4, l), 1)
	}},
	{name: "what was fitted is given back as charged", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			subject := k.subject()
			k.mustTake(subject, 6, l)
			d := k.fit(subject, 100, l)
			k.wantApplied(k.settle(d, 1), true)
			k.wantUsed(k.peek(subject, 1, l), 7)
			k.wantApplied(k.settle(d, 0), false)
		}
	}},
	{name: "a fitted request is repeated by its id", exact: true, test: func(k *tester) {
		r := k.request(k.subject(), 20, stint.PerHour(10))
		r.Fit, r.ID = true, "x"
		k.wantCharged(k.decide(r), 10)
		d := k.decide(r)
		k.wantAllowed(d, true)
		if k.wantUsed(d, 10); !d.Repeat || d.Charge.ID != 0 {
			k.Errorf("repeat %v, charge %x", d.Repeat, d.Charge.ID)
		}
	}},
	{name: "a lease counts from now until a span after its end", exact: true, clock: true, test: func(k *tester) {
		for _, x := range []struct {
			limit         stint.Limit
			lease, counts time.Duration
		}{
			{stint.PerSecond(10), 500 * ms, 1500 * ms},
			{stint.PerSecond(10), us, s + us},
			{stint.PerSecond(10), time.Hour, time.Hour + s},
			{stint.PerSecond(1000), 501 * ms, 1504 * ms}, // slices of 8 ms
			{stint.PerSecond(5).WithBurst(2), 500 * ms, 1500 * ms},
			{stint.Limit{Max: 10, Window: s, Algorithm: stint.AlgorithmFixed}, 999 * ms, s},
			{stint.Limit{Max: 10, Window: s, Algorithm: stint.AlgorithmFixed}, 1500 * ms, 2 * s},
		} {
			k.toFullSecond()
			subject := k.subject()
			d := k.lease(subject, 4, x.lease, x.limit)
			k.wantCharged(d, 4)
			k.wantUsed(d, 4)
			if end := k.Clock.micros() + x.lease.Microseconds(); d.Charge.At != end {
				k.Errorf("%s: charged at %d, want the lease's end %d", x.limit, d.Charge.At, end)
			}
			if d.Decisive().ResetAfter != x.counts {
				k.Errorf("%s: reset after %v, want %v", x.limit, d.Decisive().ResetAfter, x.counts)
			}
			k.Clock.Advance(x.counts - us)
			k.wantUsed(k.take(subject, x.limit.Capacity(), x.limit), 4)
			k.wantRetry(k.take(subject, x.limit.Capacity(), x.limit), us)
			k.Clock.Advance(us)
			k.mustTake(subject, x.limit.Capacity(), x.limit)
		}
	}},
	{name: "a lease gets what there is room for", exact: true, clock: true, test: func(k *tester) {
		for _, l := range leasable() {
			subject := k.subject()
			k.mustTake(subject, 7, l)
			d := k.lease(subject, 5, s, l)
			k.wantCharged(d, 3)
			k.wantUsed(d, 10)
			full := k.lease(subject, 5, s, l)
			k.wantUncharged(full)
			if want := k.take(subject, 1, l).RetryAfter; want == 0 || full.RetryAfter != want {
				k.Errorf("%s: retry-after is %v, want that of one unit: %v", l, full.RetryAfter, want)
			}
		}
	}},
	{name: "a lease is charged to every limit", exact: true, clock: true, test: func(k *tester) {
		second, minute, subject := stint.PerSecond(10), stint.PerMinute(5), k.subject()
		d := k.lease(subject, 9, 2*s, second, minute)
		k.wantCharged(d, 5)
		k.wantUsed(d, 5, 5)
		k.Clock.Advance(3 * s)
		k.wantUsed(k.peek(subject, 1, second, minute), 0, 5)
		k.wantApplied(k.settle(d, 4), true) // no longer found in one of them
		k.wantUsed(k.lease(subject, 9, 2*s, second, minute), 1, 5)
		k.Clock.Advance(time.Minute - s)
		k.wantUsed(k.peek(subject, 1, second, minute), 0, 1)
	}},
	{name: "leases end each at its own time", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(10), k.subject()
		for _, during := range []time.Duration{3 * s, s, 2 * s} {
			k.wantCharged(k.lease(subject, 2, during, l), 2)
		}
		for _, want := range []int64{6, 6, 4, 2, 0} {
			k.wantUsed(k.peek(subject, 1, l), want)
			k.Clock.Advance(s)
		}
	}},
	{name: "a charge beside a lease is given back exactly", exact: true, clock: true, test: func(k *tester) {
		for _, l := range []stint.Limit{stint.PerSecond(10), stint.PerSecond(1000)} {
			subject := k.subject()
			k.lease(subject, 3, 10*s, l)
			first := k.mustTake(subject, 4, l)
			k.Clock.Advance(100 * ms)
			k.mustTake(subject, 2, l)
			k.wantApplied(k.settle(first, 0), true)
			d := k.peek(subject, 1, l)
			k.wantUsed(d, 5)
			if d.Decisive().ResetAfter < 10*s {
				k.Errorf("%s: reset after %v, before the lease's end", l, d.Decisive().ResetAfter)
			}
			k.Clock.Advance(1100 * ms)
			k.wantUsed(k.peek(subject, 1, l), 3)
		}
	}},
	{name: "units of a lease are given back before its end", exact: true, test: func(k *tester) {
		for _, l := range leasable() {
			subject := k.subject()
			d := k.lease(subject, 8, time.Minute, l)
			k.wantApplied(k.settle(d, 3), true)
			k.wantApplied(k.settle(d, 0), false)
			k.wantUsed(k.mustTake(subject, 7, l), 10)
			k.wantAllowed(k.take(subject, 1, l), false)
		}
	}},
	{name: "units of a lease are given back after its end", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(10), k.subject()
		early, late := k.lease(subject, 4, s, l), k.lease(subject, 6, s, l)
		k.Clock.Advance(2*s - us)
		k.wantApplied(k.settle(early, 1), true)
		k.wantUsed(k.mustTake(subject, 3, l), 10)
		k.Clock.Advance(us)
		k.wantApplied(k.settle(late, 0), false) // counts no more
		k.wantUsed(k.peek(subject, 1, l), 3)
	}},
	{name: "a lease may be settled upwards", exact: true, test: func(k *tester) {
		for _, l := range leasable() {
			subject := k.subject()
			k.wantApplied(k.settle(k.lease(subject, 8, time.Minute, l), 12), true)
			k.wantUsed(k.take(subject, 1, l), 12)
		}
	}},
	{name: "places that are booked are not leased", exact: true, clock: true, test: func(k *tester) {
		l, hour, subject := stint.PerSecond(4), stint.PerHour(100), k.subject()
		k.mustTake(subject, 3, l)
		booked := k.reserve(subject, 3, 0, l)
		k.wantRetry(booked, s)
		d := k.lease(subject, 2, 300*ms, l, hour)
		k.wantUncharged(d)
		k.wantRetry(d, 300*ms)
		if a, b := d.States()[0].RetryAfter, d.States()[1].RetryAfter; a != 300*ms || b != 0 {
			k.Errorf("the limits say retry-after %v and %v, want 300ms and 0", a, b)
		}
		k.mustTake(subject, 1, l, hour) // now is not during
		k.wantApplied(k.settle(booked, 0), true)
		k.Clock.Advance(s)
		k.wantCharged(k.lease(subject, 9, 300*ms, l, hour), 4)
	}},
	{name: "a place is booked beside a lease", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(4), k.subject()
		k.lease(subject, 3, 2*s, l)
		k.wantRetry(k.reserve(subject, 1, 0, l), 0)
		k.wantRetry(k.reserve(subject, 1, 0, l), s)
		k.wantRetry(k.reserve(subject, 2, 0, l), 3*s)
	}},
	{name: "the clock steps back during a lease", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(4), k.subject()
		k.lease(subject, 4, 2*s, l)
		k.Clock.Advance(-time.Hour)
		k.wantRetry(k.take(subject, 1, l), 3*s)
		k.Clock.Advance(3 * s)
		k.mustTake(subject, 4, l)
	}},
	{name: "a banned subject gets no lease", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(4), k.subject()
		k.mustTake(subject, 3, l)
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Minute})
		d := k.lease(subject, 9, s, l)
		k.wantUncharged(d)
		k.wantRetry(d, time.Minute)
		if r := d.States()[0].RetryAfter; r != 0 || !d.Banned { // one unit would fit
			k.Errorf("banned %v, the limit says retry-after %v, want 0", d.Banned, r)
		}
	}},
	{name: "whatever is fitted, leased or taken is no more than the capacity", test: func(k *tester) {
		for _, l := range leasable() {
			subject, admitted := k.subject(), int64(0)
			for i := range int64(30) {
				r := k.request(subject, 1+i%3, l)
				switch i % 3 {
				case 0:
					r.Lease = time.Minute
				case 1:
					r.Fit = true
				}
				d := k.decide(r)
				if d.Allowed {
					admitted += d.Charge.Claim.Cost
				}
				if d.Charge.Claim.Cost > r.Cost {
					k.Errorf("%s: charged %d of %d", l, d.Charge.Claim.Cost, r.Cost)
				}
			}
			if admitted > 10 || k.level == Exact && admitted != 10 {
				k.Errorf("%s: admitted %d, want 10", l, admitted)
			}
		}
	}},
	{name: "a hundred fitted and leased at once", test: func(k *tester) {
		for _, l := range leasable() {
			subject := k.subject()
			k.wantAdmitted(k.storm(100, func() stint.Request {
				r := k.request(subject, 1, l)
				r.Fit, r.Lease = true, time.Minute
				return r
			}), 10)
		}
	}},
	{name: "what cannot be fitted or leased is not a request", test: func(k *tester) {
		hour, bucket, holders := stint.PerHour(10), stint.TokenBucket(1, 1, s), stint.AtOnce(1, s)
		for _, x := range []struct {
			name        string
			limits      []stint.Limit
			change      func(r *stint.Request)
			fits, lease bool // whether the request is one with Fit, and with Lease
		}{
			{"one log", []stint.Limit{hour}, func(*stint.Request) {}, true, true},
			{"a bucket beside it", []stint.Limit{hour, bucket}, func(*stint.Request) {}, true, false},
			{"holders beside it", []stint.Limit{hour, holders}, func(*stint.Request) {}, false, false},
			{"an id", []stint.Limit{hour}, func(r *stint.Request) { r.ID = "x" }, true, false},
			{"another claim", []stint.Limit{hour}, func(r *stint.Request) {
				r.And = []stint.Claim{{Subject: "b", Limits: []stint.Limit{hour}, Cost: 1}}
			}, false, false},
			{"a peek", []stint.Limit{hour}, func(r *stint.Request) { r.Mode = stint.ModePeek }, false, false},
			{"a reservation", []stint.Limit{hour}, func(r *stint.Request) { r.Mode = stint.ModeReserve }, false, false},
			{"no cost", []stint.Limit{hour}, func(r *stint.Request) { r.Cost = 0 }, false, false},
		} {
			for _, during := range []time.Duration{0, s} {
				r := k.request("a", 1, x.limits...)
				r.Fit, r.Lease = true, during
				x.change(&r)
				want := during == 0 && x.fits || during > 0 && x.lease
				if err := r.Validate(); (err == nil) != want {
					k.Errorf("%s, lease %v: error %v", x.name, during, err)
				}
			}
		}
		for _, during := range []time.Duration{-s, 1, us + 1, stint.MaxWindow + us} {
			r := k.request("a", 1, hour)
			if r.Lease = during; r.Validate() == nil {
				k.Errorf("a lease of %v is a request", during)
			}
		}
	}},
	corner("a log full of leases merges its oldest entries", func(w *pair) {
		l := stint.PerSecond(1000) // slices of 8 ms
		for charges := range 12 {  // before all leases, then among the oldest
			subject := w.subject()
			w.toFullSecond()
			for i := range time.Duration(251) {
				w.lease(subject, 1, (i*101%251*2+4)*8*ms, l)
			}
			for range charges {
				w.take(stint.ModeTake, subject, 1, l)
				w.Clock.Advance(8 * ms)
			}
			w.Clock.Advance(s - 12*8*ms) // nothing has left the window yet
			for range 30 {
				w.take(stint.ModePeek, subject, 1, l)
				w.Clock.Advance(8 * ms)
			}
		}
	}),
	corner("a log full of leases gets more of them", func(w *pair) {
		l, subject := stint.PerSecond(1000), w.subject()
		for i := range int64(600) {
			w.take(stint.ModeTake, subject, 1, l)
			w.lease(subject, 1, time.Duration(i*101%251)*8*ms, l)
			w.Clock.Advance(ms)
		}
		for range 450 {
			w.take(stint.ModePeek, subject, 1, l)
			w.Clock.Advance(8 * ms)
		}
	}),
	corner("large leases beside small charges", func(w *pair) {
		l, subject := stint.PerSecond(100_000), w.subject()
		for i := range int64(100) {
			w.take(stint.ModeTake, subject, 1, l)
			w.lease(subject, 1+i*i%300, time.Duration(i*i%17)*100*ms+us, l)
			w.Clock.Advance(20 * ms)
		}
		for range 100 {
			w.take(stint.ModeTake, subject, 1, l)
			w.Clock.Advance(33 * ms)
		}
	}),
}
