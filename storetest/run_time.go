package storetest

import (
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/oracle"
)

// retryLimits are limits of every kind except calendars. Their window cannot be divided into equal
// slices.
var retryLimits = limits{
	stint.Per(7, odd), stint.Per(500, odd), stint.Per(3, odd).BurstTimes(4), stint.Per(200, odd).BurstTimes(2),
	fixed(6, odd), stint.TokenBucket(11, 3, odd), stint.TokenBucket(4, 7, odd), stint.Concurrency(3, odd),
}

const odd = 1000003 * us

// retryHonesty fills a limit at random, and checks that a request is denied one microsecond before
// the announced instant and admitted at that instant.
func retryHonesty(k *tester) {
	denials := 0
	for range 100 {
		cost := 1 + rand.Int64N(k.limit().Capacity()/2+1)
		d := k.take(cost)
		if d.Allowed {
			k.Clock.Advance(time.Duration(rand.Int64N(100_000)) * us)
			continue
		}
		denials++
		if d.RetryAfter <= 0 {
			k.Fatalf("%s: denied with retry-after %v", k.limit(), d.RetryAfter)
		}
		k.Clock.Advance(d.RetryAfter - us)
		if early := k.peek(cost); early.Allowed || early.RetryAfter != us {
			k.Fatalf("%s: a microsecond early: %s", k.limit(), answer(early))
		}
		k.after(us).mustTake(cost)
	}
	if denials == 0 {
		k.Errorf("%s: nothing was denied", k.limit())
	}
}

var comebackLimits = limits{
	stint.Per(2, 50*ms), stint.Per(200, 50*ms), stint.TokenBucket(2, 2, 50*ms), stint.Concurrency(2, 50*ms),
	fixed(2, 50*ms),
}

// roomComesBack tries to take three times the capacity, and waits after each denial as long as the
// answer says. It needs no Clock.
func roomComesBack(k *tester) {
	admitted, capacity := int64(0), k.limit().Capacity()
	for range 3 * capacity {
		d := k.take(1)
		if !d.Allowed {
			k.pass(max(d.RetryAfter, us))
			if k.NeverOver {
				k.pass(k.limit().Window)
			}
			continue
		}
		admitted++
	}
	if admitted <= capacity {
		k.Errorf("%s: %d requests were admitted, want more than the capacity", k.limit(), admitted)
	}
}

// neverOver checks the store's decisions under random load against the true log of events.
func neverOver(k *tester) {
	truth := oracle.NewTruth()
	truth.AnyDelay = k.NeverOver
	limits := []limits{
		{stint.PerSecond(5), stint.PerMinute(40)},
		{stint.PerSecond(300)},
		{stint.PerSecond(3).BurstTimes(4), fixed(20, 10*s)},
		{stint.TokenBucket(10, 3, s)},
	}
	for range 1500 {
		i := rand.IntN(len(limits))
		cost := rand.Int64N(1 + limits[i][0].Capacity()/3)
		r := k.as(k.subject+string(rune('a'+i)), limits[i]...).request(cost)
		if err := truth.Took(k.Clock.micros(), r, k.decide(r)); err != nil {
			k.Fatal(err)
		}
		k.Clock.Advance(time.Duration(rand.ExpFloat64()*60_000) * us)
	}
}
