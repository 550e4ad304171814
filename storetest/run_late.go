package storetest

import (
	"math"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// lateRequest returns a request that charges units after their use. age is the time since they were
// used. refilled is the time for which meters have been giving them back.
func (k *tester) lateRequest(cost int64, age, refilled time.Duration) stint.Request {
	return driver.WithTerms(k.forced(cost), driver.Terms{Age: age, Refilled: refilled})
}

// late makes the request that lateRequest returns, and checks that the charge has the time at which
// the units were used.
func (k *tester) late(cost int64, age, refilled time.Duration) stint.Decision {
	k.Helper()
	now := k.Clock.micros()
	d := k.mustDecide(k.lateRequest(cost, age, refilled))
	k.wantRetry(d, 0)
	wantSame(k, d, "at", d.Charge.Data().At, now-age.Microseconds())
	wantSame(k, d, "now", d.Charge.Data().Now, now)
	return d
}

// lateCharges contains the checks of forced charges for units that were used some time ago.
var lateCharges = []check{
	clocked("many late charges are in order", limits{stint.PerMinute(4)}, func(k *tester) {
		for i := range int64(300) {
			k.wantUsed(k.late(1, time.Duration(i+1)*100*ms, 0), i+1)
		}
		k.wantUsed(k.after(59900*ms).peek(1), 0)
	}),
	clocked("a bucket is charged what it has not refilled", limits{stint.TokenBucket(10, 1, s)}, func(k *tester) {
		k.wantUsed(k.late(8, 5*s, 5*s), 3)
		k.wantUsed(k.late(2, time.Hour, 7*s), 3)
		k.wantUsed(k.late(4, time.Hour, 0), 7)
		k.wantUsed(k.late(20, 0, 10*s), 17)
		k.wantUsed(k.after(5*s).peek(1), 12)
		k.wantUsed(k.late(1, s, 400*ms+999*time.Nanosecond), 13) // charges 0.6 units more
		k.wantUsed(k.late(1, s, 600*ms), 13)
		k.wantUsed(k.late(1, s, s-us), 14)
	}),
	clocked("some units of a charge are refunded as a separate charge", limits{stint.PerSecond(5),
		stint.PerSecond(200), stint.PerSecond(5).BurstTimes(2), fixed(5, 1000*s)}, func(k *tester) {
		k.pass(time.Second)
		k.mustTake(1)
		d := k.late(4, 300*ms, 0)
		for id := range uint64(3) {
			part := d
			claim := d.Charge.Claims()[0]
			claim.Cost = 1
			part.Charge.SetClaims([]stint.Claim{claim})
			part.Charge.Data().ID = 1<<63 + id
			k.wantApplied(k.settle(part, 0), true)
			k.wantApplied(k.settle(part, 0), false)
		}
		k.wantUsed(k.peek(1), 2)
	}),
	everyStore("a charge for units used long ago is allowed", limits{stint.PerSecond(5), stint.PerDay(1000), fixed(5, s)},
		func(k *tester) {
			d := k.mustDecide(k.lateRequest(10, math.MaxInt64, 0))
			k.wantUsed(d, 0)
			wantSame(k, d, "at", d.Charge.Data().At, 1)
			if d.Charge.IsZero() {
				k.Fatal("it has no charge")
			}
			k.wantApplied(k.settle(d, 0), false)
		}),
}
