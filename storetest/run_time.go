package storetest

import (
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/oracle"
)

// retryHonesty fills limits of every kind at random, and wants a denial one microsecond before the
// announced instant and an admission at it.
func retryHonesty(k *tester) {
	const odd = 1000003 * us
	limits := []stint.Limit{
		stint.Per(7, odd), stint.Per(500, odd), stint.Per(3, odd).WithBurst(4), stint.Per(200, odd).WithBurst(2),
		{Max: 6, Window: odd, Algorithm: stint.AlgorithmFixed},
		stint.TokenBucket(11, 3, odd), stint.TokenBucket(4, 7, odd), stint.AtOnce(3, odd),
	}
	for _, l := range limits {
		subject, denials := k.subject(), 0
		for range 200 {
			cost := 1 + rand.Int64N(l.Capacity()/2+1)
			d := k.take(subject, cost, l)
			if d.Allowed {
				k.Clock.Advance(time.Duration(rand.Int64N(100_000)) * us)
				continue
			}
			denials++
			if d.RetryAfter <= 0 {
				k.Fatalf("%s: denied with retry-after %v", l, d.RetryAfter)
			}
			k.Clock.Advance(d.RetryAfter - us)
			if early := k.peek(subject, cost, l); early.Allowed || early.RetryAfter != us {
				k.Fatalf("%s: a microsecond early: %s", l, answer(early))
			}
			k.Clock.Advance(us)
			k.mustTake(subject, cost, l)
		}
		if denials == 0 {
			k.Errorf("%s: nothing was denied", l)
		}
	}
}

// roomComesBack needs no clock: it waits for as long as the store says.
func roomComesBack(k *tester) {
	const window = 50 * ms
	for _, l := range []stint.Limit{
		stint.Per(2, window), stint.Per(200, window), stint.TokenBucket(2, 2, window), stint.AtOnce(2, window),
		{Max: 2, Window: window, Algorithm: stint.AlgorithmFixed},
	} {
		subject := k.subject()
		admitted := 0
		for range 3 * l.Capacity() {
			d := k.take(subject, 1, l)
			if !d.Allowed {
				k.pass(max(d.RetryAfter, us))
				if k.level == NeverOver {
					k.pass(window)
				}
				continue
			}
			admitted++
		}
		if admitted == 0 {
			k.Errorf("%s: nothing was ever admitted", l)
		}
	}
}

// neverOver holds random load against the true log of events.
func neverOver(k *tester) {
	truth := oracle.NewTruth()
	truth.AnyDelay = k.level != Exact
	limits := [][]stint.Limit{
		{stint.PerSecond(5), stint.PerMinute(40)},
		{stint.PerSecond(300)},
		{stint.PerSecond(3).WithBurst(4), stint.Limit{Max: 20, Window: 10 * s, Algorithm: stint.AlgorithmFixed}},
		{stint.TokenBucket(10, 3, s)},
	}
	prefix := k.subject()
	for range 3000 {
		i := rand.IntN(len(limits))
		cost := rand.Int64N(1 + limits[i][0].Capacity()/3)
		r := k.request(prefix+string(rune('a'+i)), cost, limits[i]...)
		if err := truth.Took(k.Clock.micros(), r, k.decide(r)); err != nil {
			k.Fatal(err)
		}
		k.Clock.Advance(time.Duration(rand.ExpFloat64()*60_000) * us)
	}
}
