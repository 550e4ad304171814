package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// grace is how long after its booked time a booking may still be used, under limits with a window
// of a second or longer.
const grace = 20 * ms

// tentative makes a booking that must be confirmed with [tester.tentatively] before it is used.
func (k *tester) tentative(cost int64) stint.Decision {
	k.Helper()
	r := k.request(cost)
	r.Mode, r.Terms().Tentative = stint.ModeReserve, true
	return k.decide(r)
}

// tentatively returns the decision on a second request for the units of a tentative booking, which
// must be made before they are used.
func (k *tester) tentatively(booked stint.Decision) stint.Decision {
	k.Helper()
	return k.rebook(booked, driver.Terms{Tentative: true})
}

func (k *tester) rebook(booked stint.Decision, terms driver.Terms) stint.Decision {
	k.Helper()
	terms.Booked = booked.Charge.Data()
	return k.decide(driver.WithTerms(stint.Request{Claims: booked.Charge.Claims(), Mode: stint.ModeReserve}, terms))
}

func (k *tester) move(booked stint.Decision) stint.Decision {
	k.Helper()
	return k.rebook(booked, driver.Terms{})
}

var reservations = []check{
	clocked("a booking that was reset on one limit is not confused with another", limits{stint.PerSecond(1)},
		func(k *tester) {
			both := k.with(stint.Limit{Name: "all", Max: 100, Window: time.Hour})
			both.mustTake(1)
			first := both.reserve(1, 0)
			k.wantRetry(first, s)
			k.reset()
			both.mustTake(1)
			second := both.reserve(1, 0) // at the same time as the first, which the reset forgot
			k.wantRetry(second, s)
			moved := k.move(first)
			k.wantRetry(moved, 2*s+grace)
			k.wantRetry(k.move(second), s)
			k.wantUsed(both.peek(1), 3, 4)
			k.wantApplied(k.settle(moved, 0), true)
			k.wantUsed(both.peek(1), 2, 3)
		}),
	clocked("a booking may be used until its grace has passed", nil, func(k *tester) {
		for _, x := range []struct {
			window, grace time.Duration
		}{{10 * ms, 2 * ms}, {40 * ms, 2 * ms}, {100020 * us, 5001 * us}, {s, grace}, {time.Hour, grace}} {
			k := k.other(stint.Per(1, x.window))
			k.mustTake(1)
			d := k.reserve(1, 0)
			k.wantRetry(d, x.window)
			if got, want := d.Charge.Data().At, k.Clock.Now().Add(x.window+x.grace).UnixMicro(); got != want {
				k.Errorf("%s: charged at %d, want %d", k.limit(), got, want)
			}
			k.wantRetry(k.reserve(1, 0), 2*x.window+x.grace)
			k.wantRetry(k.after(x.window).peek(1), 2*x.window+2*x.grace)
		}
	}),
	clocked("a request that does not wait is admitted if it takes nothing from waiters",
		limits{stint.PerSecond(4), stint.TokenBucket(4, 4, s)}, func(k *tester) {
			k.mustTake(2)
			d := k.after(100*ms).reserve(3, 0)
			k.wantAllowed(d, true)
			if d.RetryAfter == 0 {
				k.Fatalf("%s: no wait", k.limit())
			}
			if k.limit().Algorithm == stint.AlgorithmSliding {
				k.wantUsed(k.mustTake(1), 6) // the booking leaves one unit in the window
			}
			k.mustDeny(1)
		}),
	clocked("later waiters move up in order when one gives up", limits{stint.PerSecond(1)}, func(k *tester) {
		k.mustTake(1)
		var waiters []stint.Decision
		for i := range time.Duration(4) {
			d := k.reserve(1, 0)
			k.wantRetry(d, (i+1)*s+i*grace)
			waiters = append(waiters, d)
		}
		k.wantApplied(k.settle(waiters[1], 0), true)
		k.wantRetry(k.move(waiters[3]), 4*s+3*grace) // it does not overtake the waiter ahead of it
		k.wantRetry(k.move(waiters[0]), s)           // the first waiter stays first
		second := k.move(waiters[2])
		k.wantRetry(second, 2*s+grace)
		k.wantUsed(second, 1)
		third := k.move(waiters[3])
		k.wantRetry(third, 3*s+2*grace)
		k.wantApplied(k.settle(waiters[3], 0), false) // its old booking is gone
		k.wantRetry(k.reserve(1, 0), 4*s+3*grace)     // no gap is left
		k.wantApplied(k.settle(third, 0), true)
		k.wantUsed(k.peek(1), 4)
	}),
	clocked("the last of two hundred moves up when the others have gone", limits{
		stint.PerSecond(10), stint.PerSecond(5).BurstTimes(2), stint.TokenBucket(10, 10, s),
	}, func(k *tester) {
		var waiters []stint.Decision
		for range 200 {
			waiters = append(waiters, k.reserve(1, 0))
		}
		for _, d := range waiters[10:199] {
			k.wantApplied(k.settle(d, 0), true)
		}
		last := k.move(waiters[199])
		k.wantAllowed(last, true)
		if last.RetryAfter > s || last.RetryAfter == 0 {
			k.Errorf("%s: the last waits %v, want at most a second", k.limit(), last.RetryAfter)
		}
		if next := k.reserve(1, 0); next.RetryAfter > 1200*ms {
			k.Errorf("%s: the next waits %v, want about a second", k.limit(), next.RetryAfter)
		}
		k.wantUsed(k.peek(1), 12)
	}),
	clocked("a tentative booking counts from its use", limits{stint.PerSecond(1)}, func(k *tester) {
		k.mustTake(1)
		first, second := k.tentative(1), k.tentative(1)
		k.wantRetry(second, 2*s)
		k.Clock.Advance(s + 30*ms)
		used := k.tentatively(first)
		k.wantRetry(used, 0)
		if used.Charge.Data().At != k.Clock.micros() {
			k.Errorf("charged at %d, want now", used.Charge.Data().At)
		}
		k.Clock.Advance(970 * ms) // the second booking is due, but the first is still in the window
		second = k.tentatively(second)
		k.wantRetry(second, 30*ms)
		k.wantRetry(k.peek(1), s+30*ms)
		k.Clock.Advance(30 * ms)
		k.wantRetry(k.tentatively(second), 0)
		k.wantUsed(k.peek(1), 1)
	}),
	clocked("late waiters do not lose their places", limits{stint.PerSecond(1)}, func(k *tester) {
		k.mustTake(1)
		var line []stint.Decision
		for range 3 {
			line = append(line, k.tentative(1))
		}
		k.Clock.Advance(s + 500*ms)
		line[0] = k.tentatively(line[0])
		k.wantRetry(line[0], 0)
		k.Clock.Advance(500 * ms)
		line[1] = k.tentatively(line[1])
		k.wantRetry(line[1], 500*ms)
		k.Clock.Advance(500 * ms)
		k.wantRetry(k.tentatively(line[1]), 0)
		k.Clock.Advance(s)
		k.wantRetry(k.tentatively(line[2]), 0)
	}),
	clocked("a booking with a grace is not made late", limits{stint.PerSecond(1)}, func(k *tester) {
		k.mustTake(1)
		first, firm := k.tentative(1), k.reserve(1, 0)
		k.wantRetry(firm, 2*s)
		k.Clock.Advance(s + us)
		d := k.tentatively(first) // too late, so it is booked after the firm booking
		k.wantRetry(d, 2*s+grace-us)
		k.Clock.Advance(s)
		k.wantUsed(k.peek(1), 2)
	}),
	clocked("bookings are first come, first served", limits{stint.PerSecond(2)}, func(k *tester) {
		for i, want := range []time.Duration{0, 0, s, s, 2*s + grace, 2*s + grace} {
			d := k.reserve(1, 0)
			k.wantAllowed(d, true)
			k.wantRetry(d, want)
			at := k.Clock.Now().Add(want)
			if want > 0 {
				at = at.Add(grace)
			}
			if d.Charge.Data().At != at.UnixMicro() {
				k.Errorf("reservation %d is charged at %d, want %d", i, d.Charge.Data().At, at.UnixMicro())
			}
		}
		d := k.mustDeny(1)
		k.wantRetry(d, 3*s+2*grace) // it does not overtake the bookings
		k.wantUsed(d, 6)
		k.wantUsed(k.after(s).peek(1), 4)
	}),
	clocked("several limits are booked at one instant", nil, func(k *tester) {
		short, long, bucket := stint.PerSecond(1), stint.Per(3, 10*s), stint.TokenBucket(2, 1, 2*s)
		for i, want := range []time.Duration{0, s, 2*s + grace, 10 * s} {
			d := k.under(short, long, bucket).reserve(1, 0)
			if d.RetryAfter != want {
				k.Errorf("reservation %d waits %v, want %v", i, d.RetryAfter, want)
			}
		}
	}),
	clocked("bookings ahead are bounded", limits{stint.PerSecond(1)}, func(k *tester) {
		k.mustTake(1)
		for i := range driver.MaxBookings {
			if d := k.reserve(1, 0); !d.Allowed {
				k.Fatalf("reservation %d: %s", i, answer(d))
			}
		}
		d := k.reserve(1, 0)
		k.wantAllowed(d, false)
		k.wantRetry(d, (driver.MaxBookings+1)*s+driver.MaxBookings*grace)
		k.wantAllowed(k.after(s).reserve(1, 0), true)
	}),
	clocked("bookings of callers that died expire", limits{stint.PerSecond(2)}, func(k *tester) {
		// See fault F24b in docs/faults.md: these bookings are neither used nor canceled. Other
		// requests wait for them no longer than the longest wait plus a window.
		const longest = 2 * s
		for k.reserve(1, longest).Allowed {
		}
		k.after(longest + s).mustTake(2)
	}),
	everyStore("waiting books, sleeps and returns", limits{stint.Per(4, 60*ms)}, func(k *tester) {
		if k.Clock != nil && k.NeverOver {
			k.Skip("a lease never ends on a clock that does not move")
		}
		lim := k.limiter()
		for i := range 5 {
			d, err := lim.WaitFor(k.Context(),
				stint.Request{Claims: []stint.Claim{{Subject: k.subject, Cost: 1}}, MaxWait: 10 * s})
			if err != nil || !d.Allowed {
				k.Fatalf("wait %d: %v, %s", i, err, answer(d))
			}
		}
	}),
}
