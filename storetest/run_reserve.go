package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

var reservations = []contract{
	{name: "places are booked first come, first served", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(2), k.subject()
		for i, want := range []time.Duration{0, 0, s, s, 2 * s, 2 * s} {
			d := k.reserve(subject, 1, 0, l)
			k.wantAllowed(d, true)
			k.wantRetry(d, want)
			if at := k.Clock.Micros() + want.Microseconds(); d.Charge.At != at {
				k.Errorf("reservation %d is charged at %d, want %d", i, d.Charge.At, at)
			}
		}
		d := k.take(subject, 1, l)
		k.wantAllowed(d, false)
		k.wantRetry(d, 3*s) // nobody overtakes
		k.wantUsed(d, 6)
		k.Clock.Advance(s)
		k.wantUsed(k.peek(subject, 1, l), 4)
	}},
	{name: "a large reservation is not overtaken by a small one", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(3), k.subject()
		k.mustTake(subject, 1, l)
		k.Clock.Advance(300 * ms)
		k.wantRetry(k.reserve(subject, 3, 0, l), 700*ms)
		k.wantRetry(k.reserve(subject, 1, 0, l), 1700*ms)
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
		l, subject := stint.Limit{Max: 1, Window: s, Algorithm: stint.Fixed}, k.subject()
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
		for _, l := range []stint.Limit{stint.PerSecond(1), stint.TokenBucket(1, 1, s), {Max: 1, Window: s, Algorithm: stint.Fixed}} {
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
		for i, want := range []time.Duration{0, s, 2 * s, 10 * s} {
			d := k.reserve(subject, 1, 0, short, long, bucket)
			if d.RetryAfter != want {
				k.Errorf("reservation %d waits %v, want %v", i, d.RetryAfter, want)
			}
		}
	}},
	{name: "bookings ahead are bounded", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		k.mustTake(subject, 1, l)
		for i := range stint.MaxBookings {
			if d := k.reserve(subject, 1, 0, l); !d.Allowed {
				k.Fatalf("reservation %d: %s", i, answer(d))
			}
		}
		d := k.reserve(subject, 1, 0, l)
		k.wantAllowed(d, false)
		k.wantRetry(d, (stint.MaxBookings+1)*s)
		k.Clock.Advance(s)
		k.wantAllowed(k.reserve(subject, 1, 0, l), true)
	}},
	{name: "places of the dead come free", exact: true, clock: true, test: func(k *tester) {
		// F24b: nobody uses or cancels these. Others wait at most the longest wait
		// and a window for them.
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
		lim, err := stint.New(k.Store, stint.Per(4, 60*ms), stint.WithMaxWait(10*s))
		if err != nil {
			k.Fatal(err)
		}
		subject := k.subject()
		for i := range 5 {
			d, err := lim.Wait(k.Context(), subject)
			if err != nil || !d.Allowed {
				k.Fatalf("wait %d: %v, %s", i, err, answer(d))
			}
		}
	}},
}
