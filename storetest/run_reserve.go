package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// grace is how long after its instant a place under a limit per second, or longer, may be used.
const grace = 20 * ms

// move asks for an earlier place for a booking.
func (k *tester) move(booked stint.Decision) stint.Decision {
	k.Helper()
	r := stint.Request{Claim: booked.Charge.Claim, And: booked.Charge.And, Mode: stint.ModeReserve,
		Booked: booked.Charge.At}
	return k.decide(r)
}

var reservations = []check{
	{name: "a booking's usage is as of its instant", exact: true, clock: true, test: func(k *tester) {
		for _, x := range []struct {
			limit stint.Limit
			used  int64
			reset time.Duration
		}{
			{stint.PerSecond(4), 2, s + grace},
			{stint.PerSecond(2).WithBurst(2), 4, 2 * s}, // refilled by two
			{stint.TokenBucket(4, 2, s), 4, 2 * s},
			{stint.Limit{Max: 4, Window: s, Algorithm: stint.AlgorithmFixed}, 2, s},
		} {
			k.toFullSecond()
			subject := k.subject()
			k.mustTake(subject, 4, x.limit)
			d := k.reserve(subject, 2, 0, x.limit)
			k.wantRetry(d, s)
			if got := d.States()[0]; got.Used != x.used || got.ResetAfter != x.reset {
				k.Errorf("%s: used %d, reset after %v; want %d, %v", x.limit, got.Used, got.ResetAfter, x.used, x.reset)
			}
		}
	}},
	{name: "a place may be used until its grace has passed", exact: true, clock: true, test: func(k *tester) {
		for _, x := range []struct {
			window, grace time.Duration
		}{{10 * ms, 2 * ms}, {40 * ms, 2 * ms}, {100020 * us, 5001 * us}, {s, grace}, {time.Hour, grace}} {
			l, subject := stint.Per(1, x.window), k.subject()
			k.mustTake(subject, 1, l)
			d := k.reserve(subject, 1, 0, l)
			k.wantRetry(d, x.window)
			if got, want := d.Charge.At, k.Clock.Now().Add(x.window+x.grace).UnixMicro(); got != want {
				k.Errorf("%s: charged at %d, want %d", l, got, want)
			}
			k.wantRetry(k.reserve(subject, 1, 0, l), 2*x.window+x.grace)
			k.Clock.Advance(x.window)
			k.wantRetry(k.peek(subject, 1, l), 2*x.window+2*x.grace)
		}
	}},
	{name: "who does not wait goes where nobody waits", exact: true, clock: true, test: func(k *tester) {
		for _, l := range []stint.Limit{stint.PerSecond(4), stint.TokenBucket(4, 4, s)} {
			subject := k.subject()
			k.mustTake(subject, 2, l)
			k.Clock.Advance(100 * ms)
			d := k.reserve(subject, 3, 0, l)
			k.wantAllowed(d, true)
			if d.RetryAfter == 0 {
				k.Fatalf("%s: no wait", l)
			}
			if l.Algorithm == stint.AlgorithmSliding {
				k.wantUsed(k.mustTake(subject, 1, l), 6) // the booking leaves one unit in the window
			}
			k.wantAllowed(k.take(subject, 1, l), false)
		}
	}},
	{name: "those behind move up in their order when one gives up", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		k.mustTake(subject, 1, l)
		var waiters []stint.Decision
		for i := range time.Duration(4) {
			d := k.reserve(subject, 1, 0, l)
			k.wantRetry(d, (i+1)*s+i*grace)
			waiters = append(waiters, d)
		}
		k.wantApplied(k.settle(waiters[1], 0), true)
		k.wantRetry(k.move(waiters[3]), 4*s+3*grace) // nobody overtakes the one before
		k.wantRetry(k.move(waiters[0]), s)           // who is the first stays so
		second := k.move(waiters[2])
		k.wantRetry(second, 2*s+grace)
		k.wantUsed(second, 1)
		third := k.move(waiters[3])
		k.wantRetry(third, 3*s+2*grace)
		k.wantApplied(k.settle(waiters[3], 0), false)         // its old place is gone
		k.wantRetry(k.reserve(subject, 1, 0, l), 4*s+3*grace) // no hole is left
		k.wantApplied(k.settle(third, 0), true)
		k.wantUsed(k.peek(subject, 1, l), 4)
	}},
	{name: "the last of two hundred moves up when the others have gone", exact: true, clock: true, test: func(k *tester) {
		for _, l := range []stint.Limit{stint.PerSecond(10), stint.PerSecond(5).WithBurst(2),
			stint.TokenBucket(10, 10, s)} {
			subject := k.subject()
			var waiters []stint.Decision
			for range 200 {
				waiters = append(waiters, k.reserve(subject, 1, 0, l))
			}
			for _, d := range waiters[10:199] {
				k.wantApplied(k.settle(d, 0), true)
			}
			last := k.move(waiters[199])
			k.wantAllowed(last, true)
			if last.RetryAfter > s || last.RetryAfter == 0 {
				k.Errorf("%s: the last waits %v, want at most a second", l, last.RetryAfter)
			}
			if next := k.reserve(subject, 1, 0, l); next.RetryAfter > 1200*ms {
				k.Errorf("%s: the next waits %v, want about a second", l, next.RetryAfter)
			}
			k.wantUsed(k.peek(subject, 1, l), 12)
		}
	}},
	{name: "who moves up may go at once", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(4), k.subject()
		first := k.mustTake(subject, 4, l)
		booked := k.reserve(subject, 3, 0, l)
		k.wantRetry(booked, s)
		k.wantApplied(k.settle(first, 0), true)
		d := k.move(booked)
		k.wantAllowed(d, true)
		k.wantRetry(d, 0)
		k.wantUsed(d, 3)
		if d.Charge.At != k.Clock.micros() {
			k.Errorf("charged at %d, want now", d.Charge.At)
		}
		k.wantUsed(k.mustTake(subject, 1, l), 4)
		k.wantApplied(k.settle(d, 0), true)
	}},
	{name: "a place that cannot be earlier stays as it is", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(2), k.subject()
		k.mustTake(subject, 2, l)
		booked := k.reserve(subject, 2, 0, l)
		k.Clock.Advance(400 * ms)
		for range 3 {
			d := k.move(booked)
			k.wantAllowed(d, true)
			k.wantRetry(d, 600*ms)
			k.wantUsed(d, 2)
			if d.Charge.At != booked.Charge.At || d.Charge.ID == 0 {
				k.Errorf("charged at %d, want %d", d.Charge.At, booked.Charge.At)
			}
		}
		k.wantUsed(k.peek(subject, 1, l), 4)
		r := stint.Request{Claim: booked.Charge.Claim, Mode: stint.ModeReserve, MaxWait: us, Booked: booked.Charge.At}
		k.wantRetry(k.decide(r), 600*ms) // has what it has, however short it would wait
		k.wantApplied(k.settle(k.move(booked), 0), true)
		k.wantUsed(k.peek(subject, 1, l), 2)
	}},
	{name: "who has no place books one", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		k.mustTake(subject, 1, l)
		booked := k.reserve(subject, 1, 0, l)
		k.wantApplied(k.settle(booked, 0), true)
		k.reserve(subject, 1, 0, stint.PerSecond(2)) // at once
		d := k.move(booked)
		k.wantAllowed(d, true)
		k.wantRetry(d, s)
		k.wantUsed(k.peek(subject, 1, l), 3)
	}},
	{name: "several limits move up together", exact: true, clock: true, test: func(k *tester) {
		second, minute, named, subject := stint.PerSecond(1), stint.PerMinute(10), stint.Per(3, 2*s).WithName(
			"n"), k.subject()
		first := k.mustTake(subject, 1, second, minute, named)
		a, b := k.reserve(subject, 1, 0, second, minute, named), k.reserve(subject, 1, 0, second, minute, named)
		k.wantRetry(b, 2*s+grace)
		k.wantApplied(k.settle(a, 0), true)
		k.wantApplied(k.settle(first, 0), true)
		b = k.move(b)
		k.wantRetry(b, 0)
		k.wantUsed(b, 1, 1, 1)
		k.wantUsed(k.peek(subject, 1, second, minute, named), 1, 1, 1)
	}},
	{name: "places are booked first come, first served", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(2), k.subject()
		for i, want := range []time.Duration{0, 0, s, s, 2*s + grace, 2*s + grace} {
			d := k.reserve(subject, 1, 0, l)
			k.wantAllowed(d, true)
			k.wantRetry(d, want)
			at := k.Clock.Now().Add(want)
			if want > 0 {
				at = at.Add(grace)
			}
			if d.Charge.At != at.UnixMicro() {
				k.Errorf("reservation %d is charged at %d, want %d", i, d.Charge.At, at.UnixMicro())
			}
		}
		d := k.take(subject, 1, l)
		k.wantAllowed(d, false)
		k.wantRetry(d, 3*s+2*grace) // nobody overtakes
		k.wantUsed(d, 6)
		k.Clock.Advance(s)
		k.wantUsed(k.peek(subject, 1, l), 4)
	}},
	{name: "a large reservation is not overtaken by a small one", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(3), k.subject()
		k.mustTake(subject, 1, l)
		k.Clock.Advance(300 * ms)
		k.wantRetry(k.reserve(subject, 3, 0, l), 700*ms)
		k.wantRetry(k.reserve(subject, 1, 0, l), 1700*ms+grace)
	}},
	{name: "a bucket is booked at the pace of its refill", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.TokenBucket(2, 4, s), k.subject()
		for _, want := range []time.Duration{0, 0, 250 * ms, 500 * ms, 750 * ms} {
			k.wantRetry(k.reserve(subject, 1, 0, l), want)
		}
		k.Clock.Advance(750*ms - us)
		k.wantRetry(k.take(subject, 1, l), 250*ms+us)
		k.Clock.Advance(250*ms + us)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "a fixed window is booked window by window", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.Limit{Max: 1, Window: s, Algorithm: stint.AlgorithmFixed}, k.subject()
		k.Clock.Advance(k.Clock.Now().Truncate(s).Add(s + 400*ms).Sub(k.Clock.Now()))
		for _, want := range []time.Duration{0, 600 * ms, 1600 * ms} {
			k.wantRetry(k.reserve(subject, 1, 0, l), want)
		}
	}},
	{name: "the longest wait is kept", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		k.wantAllowed(k.reserve(subject, 1, s, l), true)
		d := k.reserve(subject, 1, s-us, l)
		k.wantAllowed(d, false)
		k.wantRetry(d, s)
		k.wantUsed(k.peek(subject, 1, l), 1)
		k.wantAllowed(k.reserve(subject, 1, s, l), true)
		k.wantAllowed(k.reserve(subject, 1, s, l), false)
	}},
	{name: "a cancelled reservation gives its place back", exact: true, clock: true, test: func(k *tester) {
		for _, l := range []stint.Limit{stint.PerSecond(1), stint.TokenBucket(1, 1, s),
			{Max: 1, Window: s, Algorithm: stint.AlgorithmFixed}} {
			subject := k.subject()
			k.Clock.Advance(k.Clock.Now().Truncate(s).Add(s).Sub(k.Clock.Now()))
			k.mustTake(subject, 1, l)
			first := k.reserve(subject, 1, 0, l)
			k.wantRetry(first, s)
			k.wantApplied(k.settle(first, 0), true)
			k.wantApplied(k.settle(first, 0), false)
			k.wantUsed(k.peek(subject, 1, l), 1)
			k.wantRetry(k.reserve(subject, 1, 0, l), s)
		}
	}},
	{name: "a cost that never fits is never booked", exact: true, test: func(k *tester) {
		d := k.reserve(k.subject(), 11, 0, stint.PerHour(10))
		k.wantAllowed(d, false)
		k.wantRetry(d, stint.Never)
	}},
	{name: "several limits are booked at one instant", exact: true, clock: true, test: func(k *tester) {
		short, long, bucket := stint.PerSecond(1), stint.Per(3, 10*s), stint.TokenBucket(2, 1, 2*s)
		subject := k.subject()
		for i, want := range []time.Duration{0, s, 2*s + grace, 10 * s} {
			d := k.reserve(subject, 1, 0, short, long, bucket)
			if d.RetryAfter != want {
				k.Errorf("reservation %d waits %v, want %v", i, d.RetryAfter, want)
			}
		}
	}},
	{name: "bookings ahead are bounded", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		k.mustTake(subject, 1, l)
		for i := range driver.MaxBookings {
			if d := k.reserve(subject, 1, 0, l); !d.Allowed {
				k.Fatalf("reservation %d: %s", i, answer(d))
			}
		}
		d := k.reserve(subject, 1, 0, l)
		k.wantAllowed(d, false)
		k.wantRetry(d, (driver.MaxBookings+1)*s+driver.MaxBookings*grace)
		k.Clock.Advance(s)
		k.wantAllowed(k.reserve(subject, 1, 0, l), true)
	}},
	{name: "places of the dead come free", exact: true, clock: true, test: func(k *tester) {
		// F24b: nobody uses or cancels these. Others wait at most the longest wait and a window for
		// them.
		const longest = 2 * s
		l, subject := stint.PerSecond(2), k.subject()
		for k.reserve(subject, 1, longest, l).Allowed {
		}
		k.Clock.Advance(longest + s)
		k.wantAllowed(k.take(subject, 2, l), true)
	}},
	{name: "waiting books, sleeps and returns", test: func(k *tester) {
		if k.Clock != nil && k.level != Exact {
			k.Skip("a lease on a clock that stands still never ends")
		}
		lim, err := stint.New(k.Store, stint.Per(4, 60*ms))
		if err != nil {
			k.Fatal(err)
		}
		subject := k.subject()
		for i := range 5 {
			d, err := lim.WaitFor(k.Context(),
				stint.Request{Claim: stint.Claim{Subject: subject, Cost: 1}, MaxWait: 10 * s})
			if err != nil || !d.Allowed {
				k.Fatalf("wait %d: %v, %s", i, err, answer(d))
			}
		}
	}},
}
