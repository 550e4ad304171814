package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/oracle"
)

var extremes = []check{
	{name: "the largest and smallest limits are exact", exact: true, clock: true, test: func(k *tester) { // F23
		for _, n := range []int64{1, 125, 126, 1 << 31, 1<<53 - 1, stint.MaxUnits} {
			for _, window := range []time.Duration{stint.MinWindow, 1000003 * us, stint.MaxWindow} {
				for a := stint.AlgorithmSliding; a <= stint.AlgorithmFixed; a++ {
					l := stint.Limit{Max: n, Window: window, Algorithm: a}
					if l.Validate() != nil {
						continue // a bucket that cannot be counted exactly is refused
					}
					k.fillAndEmpty(l)
				}
			}
		}
		k.fillAndEmpty(stint.Limit{Max: 3, Window: stint.MaxWindow, Burst: 3 * stint.MaxBurst})
		k.fillAndEmpty(stint.Limit{Max: 1 << 46, Window: stint.MinWindow, Burst: stint.MaxBurst << 46})
		k.fillAndEmpty(stint.TokenBucket(stint.MaxBurst, 1, stint.MaxWindow))
		k.fillAndEmpty(stint.TokenBucket(1, stint.MaxUnits, 1024*us))
	}},
	{name: "the largest costs beside bookings", exact: true, clock: true, test: func(k *tester) {
		const half = stint.MaxUnits / 2
		for _, l := range []stint.Limit{
			stint.PerSecond(stint.MaxUnits), {Max: stint.MaxUnits, Window: s, Algorithm: stint.AlgorithmFixed},
			stint.PerSecond(half).WithBurst(2), stint.TokenBucket(stint.MaxUnits, half, s),
		} {
			k.toFullSecond()
			w, subject := &pair{k, oracle.New(k.Clock.micros)}, k.subject()
			for _, cost := range []int64{half + 1, half + 1, half, half - 1, stint.MaxUnits, 1, stint.MaxUnits - 1} {
				w.take(stint.ModeReserve, subject, cost, l)
				w.take(stint.ModeTake, subject, half-1, l)
			}
			for range 40 {
				w.take(stint.ModeTake, subject, half, l)
				w.take(stint.ModeTake, subject, 1, l)
				w.Clock.Advance(203 * ms)
			}
		}
	}},
	{name: "a debt of the largest kind beside a booking", exact: true, clock: true, test: func(k *tester) {
		// 90,071,992,547 tokens of 100,000 each: just below 2^53.
		for _, l := range []stint.Limit{stint.TokenBucket(10, 10, s), stint.PerSecond(10).WithBurst(2),
			stint.PerSecond(10)} {
			for _, debt := range []int64{0, 90_071_992_500, stint.MaxUnits - 100} {
				subject, reference := k.subject(), oracle.New(k.Clock.micros)
				w := &pair{k, reference}
				r := k.request(subject, 1, l)
				d := k.decide(r)
				same, err := reference.Take(k.Context(), r)
				if err != nil {
					k.Fatal(err)
				}
				w.take(stint.ModeReserve, subject, l.Capacity(), l)
				a := stint.Amendment{Cost: debt, MaxDebt: debt}
				if debt == 0 {
					a.Cost = stint.MaxUnits
				}
				want, err := reference.Amend(k.Context(), same.Charge, a)
				if err != nil {
					k.Fatal(err)
				}
				k.wantApplied(k.amend(d, a), want)
				for range 3 {
					w.take(stint.ModeTake, subject, 1, l)
					w.take(stint.ModePeek, subject, l.Capacity(), l)
					w.take(stint.ModeReserve, subject, 1, l)
					k.Clock.Advance(700 * ms)
				}
				k.mustTake(k.subject(), 1, l) // nobody else is affected
			}
		}
	}},
	{name: "ten thousand in one microsecond are ten thousand", exact: true, test: func(k *tester) { // F24
		const callers, calls, limit = 10, 1010, 10_000
		l, subject := stint.Per(limit, time.Hour), k.subject()
		var admitted atomic.Int64
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range calls {
					if d, err := k.Store.Take(k.Context(), k.request(subject, 1, l)); err != nil {
						k.Error(err)
					} else if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		group.Wait()
		if n := admitted.Load(); n != limit {
			k.Errorf("admitted %d, want %d", n, limit)
		}
		k.wantUsed(k.peek(subject, 1, l), limit)
	}},
	{name: "the clock steps back: nobody is locked out for longer than a window", exact: true, clock: true, test: func(k *tester) { // F7
		for _, l := range timed() {
			subject := k.subject()
			for k.take(subject, 1, l).Allowed {
			}
			k.Clock.Advance(-time.Hour)
			d := k.take(subject, 1, l)
			k.wantAllowed(d, false)
			if span := l.Window + l.Window/stint.Resolution; d.RetryAfter <= 0 || d.RetryAfter > span {
				k.Errorf("%s: retry-after is %v, want at most %v", l, d.RetryAfter, span)
			}
			k.Clock.Advance(d.RetryAfter)
			k.wantAllowed(k.take(subject, 1, l), true)
		}
	}},
	{name: "the clock steps forward: at most one capacity more", clock: true, test: func(k *tester) { // F7
		for _, l := range timed() {
			subject, admitted := k.subject(), int64(0)
			for range 2 {
				for range 3 * l.Capacity() {
					if k.take(subject, 1, l).Allowed {
						admitted++
					}
				}
				k.Clock.Advance(time.Hour)
			}
			if admitted > 2*l.Capacity() || k.level == Exact && admitted != 2*l.Capacity() {
				k.Errorf("%s: admitted %d, want %d", l, admitted, 2*l.Capacity())
			}
		}
	}},
	{name: "the clock steps back with places booked", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		for range 3 {
			k.reserve(subject, 1, 0, l)
		}
		k.Clock.Advance(-time.Hour)
		k.wantRetry(k.take(subject, 1, l), 3*s+2*grace)
		k.Clock.Advance(3*s + 2*grace)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "the clock steps back during a ban", exact: true, clock: true, test: func(k *tester) {
		subject, l := k.subject(), stint.PerHour(1)
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Minute})
		k.Clock.Advance(-time.Hour)
		k.wantRetry(k.take(subject, 1, l), time.Minute)
		k.Clock.Advance(time.Minute)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "a peek does not move the clock's step into the state", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		k.mustTake(subject, 1, l)
		k.Clock.Advance(-time.Hour)
		k.wantRetry(k.peek(subject, 1, l), s)
		k.Clock.Advance(time.Hour)
		k.wantRetry(k.peek(subject, 1, l), s)
	}},
}

// timed is a limit of every kind with a window of seconds.
func timed() []stint.Limit {
	return []stint.Limit{
		stint.Per(5, 10*s), stint.Per(200, 10*s), stint.Per(5, 10*s).WithBurst(3), stint.TokenBucket(5, 5, 10*s),
		{Max: 5, Window: 10 * s, Algorithm: stint.AlgorithmFixed}, stint.AtOnce(5, 10*s),
	}
}

// fillAndEmpty takes all there is, wants the rest denied, and all of it back when the limit says
// so.
func (k *tester) fillAndEmpty(l stint.Limit) {
	k.Helper()
	subject, all := k.subject(), l.Capacity()
	k.wantUsed(k.mustTake(subject, all-1, l), all-1)
	k.wantUsed(k.mustTake(subject, 1, l), all)
	d := k.take(subject, 1, l)
	k.wantAllowed(d, false)
	if all < stint.MaxUnits {
		k.wantRetry(k.take(subject, all+1, l), stint.Never)
	}
	k.Clock.Advance(d.Decisive().ResetAfter - us)
	if d := k.peek(subject, all, l); d.Allowed {
		k.Errorf("%s: all came back a microsecond before its reset", l)
	}
	k.Clock.Advance(us)
	k.wantUsed(k.mustTake(subject, all, l), all)
}
