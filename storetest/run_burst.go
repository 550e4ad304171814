package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

var bursts = []check{
	clocked("a burst admits its capacity in any window, and the limit in the long run", nil, func(k *tester) {
		for _, x := range []struct{ limit, times int64 }{{10, 2}, {30, 2}, {100, 3}, {150, 5}} {
			k := k.other(stint.PerMinute(x.limit).BurstTimes(x.times))
			k.toFull(time.Minute)
			start := k.Clock.Now()
			slice := time.Duration(0)
			if k.limit().Capacity() > stint.Resolution {
				slice = time.Minute / stint.Resolution
			}
			var admitted []time.Time
			var longest time.Duration
			for k.Clock.Now().Sub(start) < 10*time.Minute { // take as fast as possible
				d := k.take(1)
				if d.Allowed {
					admitted = append(admitted, k.Clock.Now())
					continue
				}
				longest = max(longest, d.RetryAfter)
				k.Clock.Advance(d.RetryAfter)
			}
			first, most := 0, 0
			for i := range admitted {
				for !admitted[first].After(admitted[i].Add(-time.Minute)) {
					first++
				}
				most = max(most, i-first+1)
			}
			if int64(most) != k.limit().Capacity() {
				k.Errorf("%s: %d within a minute, want %d", k.limit(), most, k.limit().Capacity())
			}
			if n, want := int64(len(admitted)), k.limit().Capacity()+10*x.limit; n > want || n < want-x.limit {
				k.Errorf("%s: %d in ten minutes, want about %d", k.limit(), n, want)
			}
			if longest > time.Minute+slice {
				k.Errorf("%s: waited %v, want at most %v", k.limit(), longest, time.Minute+slice)
			}
		}
	}),
	clocked("no wait is longer than a window for a cost up to the limit", limits{
		stint.PerMinute(10).BurstTimes(2), stint.PerMinute(500).BurstTimes(5), stint.PerSecond(3).BurstTimes(100),
	}, func(k *tester) {
		slice := (k.limit().Window + stint.Resolution - 1) / stint.Resolution
		for i := range int64(400) {
			cost := 1 + i*i%k.limit().Max
			d := k.take(cost)
			if d.RetryAfter > k.limit().Window+slice {
				k.Fatalf("%s: %d units wait %v", k.limit(), cost, d.RetryAfter)
			}
			if i%3 == 0 {
				k.Clock.Advance(d.RetryAfter)
			}
		}
	}),
	clocked("a window after a burst the whole limit is free at once, then single units",
		limits{stint.PerMinute(10).BurstTimes(2)}, func(k *tester) {
			k.mustTake(20)
			k.wantRetry(k.take(1), time.Minute)
			k.Clock.Advance(time.Minute)
			for range 10 {
				k.mustTake(1)
			}
			for range 30 {
				k.wantRetry(k.take(1), 6*s)
				k.after(6 * s).mustTake(1)
			}
			k.Clock.Advance(time.Minute) // half of the burst is refilled
			k.mustDeny(11)
			k.mustTake(10)
			k.after(2 * time.Minute).mustTake(20)
		}),
}

var states = []check{
	clocked("limits come and go", nil, func(k *tester) {
		second, minute, bucket := stint.PerSecond(5), stint.PerMinute(20), stint.TokenBucket(10, 1, s)
		k.under(second, minute).mustTake(5)
		k.under(bucket).mustTake(5)
		k.wantUsed(k.after(s).under(second, bucket).mustTake(2), 2, 6)
		k.wantUsed(k.under(minute).mustTake(1), 6)
		k.wantUsed(k.after(s).under(second, minute, bucket).peek(1), 0, 6, 5)
	}),
	exact("one charge carries what every state needs", nil, func(k *tester) {
		limits := []stint.Limit{stint.PerHour(10), stint.PerHour(10).WithName("a"), stint.PerDay(10),
			stint.PerHour(10).WithName("b")}
		k, other := k.under(limits...), k.other(limits[1], limits[0])
		r := and(k.request(4), other.request(4))
		d := k.mustDecide(r)
		if err := (stint.Amendment{Kind: stint.AmendSettle}).Validate(&d.Charge); err != nil {
			k.Error(err)
		}
		k.wantApplied(k.settle(d, 1), true)
		k.wantUsed(k.peek(1), 1, 1, 1, 1)
		k.wantUsed(other.peek(1), 1, 1)
	}),
	exact("a charge of another generation is not settled", nil, func(k *tester) {
		k = k.under(stint.PerHour(10), stint.PerHour(10).WithName("b"))
		d := k.mustTake(4)
		contract.SetGeneration(&d.Charge, 1, d.Charge.Data().GenerationAt(1)+1)
		k.wantApplied(k.settle(d, 1), true)
		k.wantUsed(k.peek(1), 1, 4)
	}),
}
