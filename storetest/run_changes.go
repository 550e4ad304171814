package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

var changes = []check{
	exact("a limit changes at the next decision and keeps its history", nil, func(k *tester) {
		for _, a := range []stint.Algorithm{stint.AlgorithmSliding, stint.AlgorithmBucket, stint.AlgorithmFixed,
			stint.AlgorithmConcurrency} {
			of := func(n int64) stint.Limit { return stint.Limit{Max: n, Window: 24 * time.Hour, Algorithm: a} }
			k := k.other()
			for range 4 {
				k.under(of(4)).mustTake(1)
			}
			k.under(of(4)).mustDeny(1)
			k.wantUsed(k.under(of(6)).mustTake(1), 5)
			k.wantUsed(k.under(of(2)).take(1), 5)
			k.under(of(5)).mustDeny(1)
			k.wantUsed(k.under(of(6)).mustTake(1), 6)
		}
	}),
	exact("a small limit becomes a large one and back", nil, func(k *tester) {
		for range 5 {
			k.under(stint.PerHour(5)).mustTake(1)
		}
		k.wantUsed(k.under(stint.PerHour(1000)).mustTake(300), 305)
		k.wantUsed(k.under(stint.PerHour(5)).take(1), 305)
	}),
	exact("names and windows tell limits apart", nil, func(k *tester) {
		hour := stint.PerHour(1)
		for _, l := range []stint.Limit{hour, hour.WithName("a"), hour.WithName("b"), stint.PerMinute(1),
			stint.TokenBucket(1, 1, time.Hour)} {
			k.wantUsed(k.under(l).mustTake(1), 1)
		}
	}),
	// See fault F24c in docs/faults.md.
	clocked("a used-up day outlives short limits", nil, func(k *tester) {
		day, short := stint.PerDay(2), stint.PerSecond(10)
		k.under(day, short).mustTake(2)
		for range 100 {
			k.after(10 * time.Minute).under(short).mustTake(1)
		}
		k.wantRetry(k.under(day, short).mustDeny(1), 24*time.Hour-1000*time.Minute)
	}),
	exact("reset forgets the limits that it names", eachAlgorithm(2), func(k *tester) {
		other := k.limit().WithName("other")
		k.with(other).mustTake(1)
		k.with(other).mustTake(1)
		k.mustDeny(1)
		k.reset()
		k.wantUsed(k.take(1), 1)
		k.under(other).mustDeny(1)
	}),
	exact("a charge from before a reset is not settled", limits{stint.PerHour(10)}, func(k *tester) {
		d := k.mustTake(5)
		k.reset()
		k.wantApplied(k.settle(d, 0), false)
		k.wantUsed(k.peek(1), 0)
	}),
	exact("an unknown subject can be reset and unbanned", nil, func(k *tester) {
		k.under(stint.PerHour(1)).reset()
		k.unban()
		k.under(stint.PerHour(1)).mustTake(1)
	}),
}
