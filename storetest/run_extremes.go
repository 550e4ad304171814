package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

const half = stint.MaxUnits / 2

var extremes = []check{
	// See fault F23 in docs/faults.md.
	clocked("the largest and smallest limits are exact", nil, func(k *tester) {
		for _, n := range []int64{1, 125, 126, 1 << 31, 1<<53 - 1, stint.MaxUnits} {
			for _, window := range []time.Duration{stint.MinWindow, 1000003 * us, stint.MaxWindow} {
				for a := stint.AlgorithmSliding; a <= stint.AlgorithmFixed; a++ {
					l := stint.Limit{Max: n, Window: window, Algorithm: a}
					if l.Validate() != nil {
						continue // a bucket that cannot be counted exactly is refused
					}
					k.other(l).fillAndEmpty()
				}
			}
		}
		for _, l := range []stint.Limit{
			{Max: 3, Window: stint.MaxWindow, Burst: 3 * stint.MaxBurst},
			{Max: 1 << 46, Window: stint.MinWindow, Burst: stint.MaxBurst << 46},
			stint.TokenBucket(stint.MaxBurst, 1, stint.MaxWindow), stint.TokenBucket(1, stint.MaxUnits, 1024*us),
		} {
			k.other(l).fillAndEmpty()
		}
	}),
	corner("the largest costs beside bookings", limits{
		stint.PerSecond(stint.MaxUnits), fixed(stint.MaxUnits, s),
		stint.PerSecond(half).BurstTimes(2), stint.TokenBucket(stint.MaxUnits, half, s),
	}, func(k *tester) {
		k.toFull(s)
		for _, cost := range []int64{half + 1, half + 1, half, half - 1, stint.MaxUnits, 1, stint.MaxUnits - 1} {
			k.reserve(cost, 0)
			k.take(half - 1)
		}
		for range 40 {
			k.take(half)
			k.take(1)
			k.Clock.Advance(203 * ms)
		}
	}),
	corner("a debt of the largest kind beside a booking", limits{
		stint.TokenBucket(10, 10, s), stint.PerSecond(10).BurstTimes(2), stint.PerSecond(10),
	}, func(k *tester) {
		// 90,071,992,547 tokens with a weight of 100,000 each are just below 2^53.
		for _, debt := range []int64{0, 90_071_992_500, stint.MaxUnits - 100} {
			k := k.other()
			d := k.take(1)
			k.reserve(k.limit().Capacity(), 0)
			a := stint.Amendment{Kind: stint.AmendSettle, Cost: debt, MaxDebt: debt}
			if debt == 0 {
				a.Cost = stint.MaxUnits
			}
			k.amend(d, a)
			for range 3 {
				k.take(1)
				k.peek(k.limit().Capacity())
				k.reserve(1, 0)
				k.Clock.Advance(700 * ms)
			}
			k.other().mustTake(1) // no other subject is affected
		}
	}),
	// See fault F24 in docs/faults.md.
	exact("ten thousand in one microsecond are ten thousand", limits{stint.PerHour(10_000)}, func(k *tester) {
		k.wantAdmitted(k.atOnce(10, func() int { return k.admitted(1010, 1) }), 10_000)
		k.wantUsed(k.peek(1), 10_000)
	}),
	// See fault F7 in docs/faults.md.
	clocked("the clock steps back: no lockout is longer than a window", timed(), func(k *tester) {
		for k.take(1).Allowed {
		}
		d := k.after(-time.Hour).mustDeny(1)
		if span := k.limit().Window + k.limit().Window/stint.Resolution; d.RetryAfter <= 0 || d.RetryAfter > span {
			k.Errorf("%s: retry-after is %v, want at most %v", k.limit(), d.RetryAfter, span)
		}
		k.after(d.RetryAfter).mustTake(1)
	}),
	// See fault F7 in docs/faults.md.
	{name: "the clock steps forward: at most one capacity more", clock: true, under: timed(), test: func(k *tester) {
		capacity, admitted := int(k.limit().Capacity()), 0
		for range 2 {
			admitted += k.admitted(3*capacity, 1)
			k.Clock.Advance(time.Hour)
		}
		k.wantAdmitted(admitted, 2*capacity)
	}},
	clocked("the clock steps back with bookings ahead", limits{stint.PerSecond(1)}, func(k *tester) {
		for range 3 {
			k.reserve(1, 0)
		}
		k.wantRetry(k.after(-time.Hour).take(1), 3*s+2*grace)
		k.after(3*s + 2*grace).mustTake(1)
	}),
}

// timed returns limits of every kind except calendars, with a window of ten seconds.
func timed() []stint.Limit {
	return []stint.Limit{
		stint.Per(5, 10*s), stint.Per(200, 10*s), stint.Per(5, 10*s).BurstTimes(3), stint.TokenBucket(5, 5, 10*s),
		fixed(5, 10*s), stint.Concurrency(5, 10*s),
	}
}

// fillAndEmpty takes the whole capacity, and checks that more is denied and that the whole capacity
// is back at the announced time.
func (k *tester) fillAndEmpty() {
	k.Helper()
	all := k.limit().Capacity()
	k.wantUsed(k.mustTake(all-1), all-1)
	k.wantUsed(k.mustTake(1), all)
	d := k.mustDeny(1)
	if all < stint.MaxUnits {
		k.wantRetry(k.take(all+1), stint.Never)
	}
	k.Clock.Advance(d.Decisive().ResetAfter - us)
	if d := k.peek(all); d.Allowed {
		k.Errorf("%s: all came back a microsecond before its reset", k.limit())
	}
	k.wantUsed(k.after(us).mustTake(all), all)
}
