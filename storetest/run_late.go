package storetest

import (
	"math"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// lateRequest returns a request that charges units which were used age ago, and which meters have
// refilled for some time.
func (k *tester) lateRequest(cost int64, age, refilled time.Duration) stint.Request {
	r := driver.WithTerms(k.request(cost), driver.Terms{Age: age, Refilled: refilled})
	r.Mode = driver.ModeForce
	return r
}

// late makes a lateRequest, and checks that it is charged as of that time.
func (k *tester) late(cost int64, age, refilled time.Duration) stint.Decision {
	k.Helper()
	now := k.Clock.micros()
	d := k.mustDecide(k.lateRequest(cost, age, refilled))
	k.wantRetry(d, 0)
	wantSame(k, d, "at", d.Charge.Data().At, now-age.Microseconds())
	wantSame(k, d, "now", d.Charge.Data().Now, now)
	return d
}

// lateCharges are checks of forced charges for units that were used some time ago.
var lateCharges = []check{
	clocked("exact entries count from when they were used", limits{stint.PerSecond(3)}, func(k *tester) {
		k.mustTake(1)
		k.pass(600 * ms)
		k.wantUsed(k.late(2, 400*ms, s), 3)
		k.wantRetry(k.mustDeny(1), 400*ms)
		k.wantRetry(k.mustDeny(2), 600*ms)
		k.wantUsed(k.after(400*ms).peek(1), 2)
		k.wantUsed(k.after(200*ms).peek(1), 0)
		k.wantUsed(k.late(5, s, 0), 0)
		k.wantUsed(k.late(5, s-us, 0), 5)
		k.wantUsed(k.after(us).peek(1), 0)
	}),
	clocked("many late charges are in order", limits{stint.PerMinute(4)}, func(k *tester) {
		for i := range int64(300) {
			k.wantUsed(k.late(1, time.Duration(i+1)*100*ms, 0), i+1)
		}
		k.wantUsed(k.after(59900*ms).peek(1), 0)
	}),
	clocked("slices count from the one in which units were used", limits{stint.PerSecond(200)}, func(k *tester) {
		const slice = 8 * ms
		k.pass(slice - time.Duration(k.Clock.micros())*us%slice + 3*ms)
		d := k.late(2, 500*ms, 0)
		k.wantUsed(d, 2)
		left := 501 * ms // 500 ms are 62 and a half slices: the slice ends 4 ms later
		wantSame(k, d, "reset", d.States()[0].ResetAfter, left)
		k.wantUsed(k.late(3, s, 0), 5)
		k.wantUsed(k.late(7, s+4*ms, 0), 5)
		k.wantUsed(k.after(5*ms).peek(1), 2)
		k.wantUsed(k.after(left-5*ms-us).peek(1), 2)
		k.wantUsed(k.after(us).peek(1), 0)
	}),
	clocked("a fixed window counts what was used in it", limits{fixed(3, 10*s)}, func(k *tester) {
		k.pass(10*s - time.Duration(k.Clock.micros())*us%(10*s) + 4*s)
		k.wantUsed(k.late(2, 4*s, 9*s), 2)
		d := k.late(5, 4*s+us, 0) // in the window before
		k.wantUsed(d, 2)
		wantSame(k, d, "reset", d.States()[0].ResetAfter, 6*s)
		k.mustTake(1)
		k.wantRetry(k.mustDeny(1), 6*s)
	}),
	clocked("a bucket is charged what it has not refilled", limits{stint.TokenBucket(10, 1, s)}, func(k *tester) {
		k.wantUsed(k.late(8, 5*s, 5*s), 3)
		k.wantUsed(k.late(2, time.Hour, 7*s), 3)
		k.wantUsed(k.late(4, time.Hour, 0), 7)
		k.wantUsed(k.late(20, 0, 10*s), 17)
		k.wantUsed(k.after(5*s).peek(1), 12)
		k.wantUsed(k.late(1, s, 400*ms+999*time.Nanosecond), 13) // 0.6 more
		k.wantUsed(k.late(1, s, 600*ms), 13)
		k.wantUsed(k.late(1, s, s-us), 14)
	}),
	clocked("each meter has refilled as much as its rate gives back", limits{stint.TokenBucket(5, 1, s)}, func(k *tester) {
		k = k.with(stint.TokenBucket(5, 4, 2*s), stint.TokenBucket(5, 3, 24*time.Hour))
		k.wantUsed(k.late(4, s, s), 3, 2, 4)
		k.wantUsed(k.late(5, s, math.MaxInt64), 3, 2, 4)
	}),
	clocked("a burst counts late in its log, and the rest in its meter", limits{stint.PerSecond(10).WithBurst(3)},
		func(k *tester) {
			k.wantUsed(k.late(20, 500*ms, 500*ms), 20)
			k.wantUsed(k.after(500*ms).peek(1), 10)
			k.wantUsed(k.late(20, 2*s, 1500*ms), 15)
		}),
	clocked("each limit counts what is late by itself", limits{stint.PerSecond(5)}, func(k *tester) {
		k = k.with(stint.PerHour(1000), fixed(100, s), stint.TokenBucket(10, 1, s), stint.TokenBucket(5, 0, 2*s),
			stint.AtOnce(2, time.Minute))
		k.wantUsed(k.late(4, 30*s, 3*s), 0, 4, 0, 1, 0, 1)
		d := k.late(4, 30*s, 9*s)
		k.wantUsed(d, 0, 8, 0, 1, 0, 2)
		k.wantUsed(k.peek(1), 0, 8, 0, 1, 0, 2)
		k.wantApplied(k.amend(d, extend), true)
		k.wantApplied(k.amend(d, release), true)
		k.wantUsed(k.peek(1), 0, 8, 0, 1, 0, 1)
	}),
	clocked("each claim counts what is late by itself", limits{stint.PerMinute(5)}, func(k *tester) {
		other := k.other().under(stint.TokenBucket(10, 1, s))
		r := and(k.lateRequest(2, 5*s, 3*s), other.request(4))
		d := k.mustDecide(r)
		k.wantUsed(d, 2, 1)
		wantSame(k, d, "at", d.Charge.Data().AtOf(1), k.Clock.micros()-(5*s).Microseconds())
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(k.peek(1), 0)
	}),
	clocked("of what was used at least, the rest is charged", limits{stint.PerSecond(10)}, func(k *tester) {
		k = k.with(stint.PerHour(1000), fixed(100, 10*s), stint.TokenBucket(10, 1, s), stint.PerMinute(10).WithBurst(3))
		k.mustTake(3)
		atLeast := func(cost int64, age time.Duration) stint.Decision {
			r := k.lateRequest(cost, age, age)
			r.Terms().AtLeast = true
			return k.mustDecide(r)
		}
		for range 3 {
			k.wantUsed(atLeast(8, 400*ms), 8, 8, 8, 8, 8)
		}
		k.wantUsed(atLeast(7, 0), 8, 8, 8, 8, 8)
		k.wantUsed(k.after(600*ms).peek(1), 3, 8, 8, 7, 8)
		k.wantUsed(atLeast(30, 0), 30, 30, 30, 30, 30)
	}),
	clocked("a late charge has its request id from now on", limits{stint.PerHour(5)}, func(k *tester) {
		r := k.lateRequest(2, 10*time.Minute, 0)
		r.ID, r.IDLife = "x", time.Minute
		first := k.mustDecide(r)
		k.wantUsed(first, 2)
		k.pass(time.Minute - us)
		r.Terms().Age += time.Minute
		again := k.mustDecide(r)
		k.wantRepeat(again, true)
		k.wantUsed(again, 2)
		wantSame(k, again, "charge", again.Charge.Data().ID, first.Charge.Data().ID)
		wantSame(k, again, "at", again.Charge.Data().At, first.Charge.Data().At)
		d := k.after(16 * us).mustDecide(r)
		k.wantRepeat(d, false)
		k.wantUsed(d, 4)
		k.wantApplied(k.settle(d, 1), true)
		k.wantUsed(k.peek(1), 3)
	}),
	clocked("some units of a charge are refunded as a charge of their own", limits{stint.PerSecond(5),
		stint.PerSecond(200), stint.PerSecond(5).WithBurst(2), fixed(5, 1000*s)}, func(k *tester) {
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
	clocked("a late charge is settled where it counts", limits{stint.PerSecond(5), stint.PerSecond(200),
		stint.PerSecond(5).WithBurst(2), fixed(5, 1000*s)}, func(k *tester) {
		k.pass(time.Second)
		k.mustTake(1)
		d := k.late(4, 300*ms, 0)
		k.wantUsed(d, 5)
		k.wantSettled(d, stint.Amendment{Cost: 1}, 1)
		k.wantUsed(k.peek(1), 2)
		k.wantApplied(k.settle(d, 0), false)
		k.wantUsed(k.peek(1), 2)
	}),
	clocked("a late charge of a bucket is settled without what was refilled since", limits{
		stint.TokenBucket(10, 1, s)}, func(k *tester) {
		d := k.late(4, 2*s, 2*s)
		k.wantUsed(d, 2)
		k.wantSettled(d, stint.Amendment{Cost: 1}, 1)
		k.wantUsed(k.peek(1), 1)
		k.wantApplied(k.settle(k.late(4, 4*s, 4*s), 0), false)
	}),
	clocked("a charge that has left every window", limits{stint.PerSecond(5), stint.PerSecond(200), fixed(5, s)},
		func(k *tester) {
			d := k.late(4, 3*s, 0)
			k.wantUsed(d, 0)
			k.wantApplied(k.settle(d, 0), false)
			k.wantApplied(k.settle(d, 6), false)
			k.wantUsed(k.peek(1), 0)
		}),
	everyStore("what was used long ago is allowed", limits{stint.PerSecond(5), stint.PerDay(1000), fixed(5, s)},
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
