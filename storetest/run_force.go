package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/testkit"
)

// forced returns a request that charges its cost even if there is no room.
func (k *tester) forced(cost int64) stint.Request {
	r := k.request(cost)
	r.Mode = driver.ModeForce
	return r
}

// force charges the given cost even if there is no room. If ahead is not 0, it books the units that
// far in the future.
func (k *tester) force(cost int64, ahead time.Duration) stint.Decision {
	k.Helper()
	r := k.forced(cost)
	r.MaxWait = ahead
	d := k.mustDecide(r)
	k.wantRetry(d, ahead)
	return d
}

// forcing contains the checks of charges that apply even without room.
var forcing = []check{
	everyStore("force charges above the capacity", limits{
		stint.PerMinute(3), stint.PerMinute(200), stint.PerMinute(3).BurstTimes(2),
		stint.TokenBucket(3, 3, time.Minute),
		fixed(3, stint.MaxWindow), stint.PerMinute(0),
	}, func(k *tester) {
		k.force(k.limit().Capacity(), 0)
		d := k.force(300, 0)
		k.wantUsed(d, k.limit().Capacity()+300)
		k.mustDeny(1)
		k.wantUsed(k.peek(1), k.limit().Capacity()+300)
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(k.peek(1), k.limit().Capacity())
	}),
	clocked("a log keeps many forced charges", limits{stint.PerHour(2)}, func(k *tester) {
		for i := range int64(400) {
			k.wantUsed(k.force(1, 0), i+1)
			k.pass(time.Second)
		}
		k.mustDeny(1)
	}),
	clocked("force books ahead of now, between others", limits{stint.PerSecond(1)}, func(k *tester) {
		k.mustTake(1)
		later := k.reserve(1, time.Minute)
		k.wantRetry(later, time.Second)
		d := k.force(2, 500*time.Millisecond)
		k.wantUsed(d, 3) // at the time of the booking, the first unit and these two count
		if d.Charge.Data().At >= later.Charge.Data().At {
			k.Fatalf("it ends at %d, after the next one at %d", d.Charge.Data().At, later.Charge.Data().At)
		}
		k.wantUsed(k.peek(0), 4)
		k.wantApplied(k.settle(d, 1), true)
		k.wantUsed(k.peek(0), 3)
		k.wantUsed(k.after(999*time.Millisecond).peek(0), 3)
		k.wantUsed(k.after(521*time.Millisecond).peek(0), 1)
	}),
	clocked("force books where no booking is left", limits{stint.PerMinute(1)}, func(k *tester) {
		for i := range int64(driver.MaxBookings) + 5 {
			k.force(1, time.Hour+time.Duration(i)*time.Second)
		}
		k.force(1, time.Minute)
		k.wantUsed(k.peek(0), driver.MaxBookings+6)
		k.wantAllowed(k.reserve(1, 0), false)
		// Units without a separate booking were added to the last booking, and no booking is due
		// yet.
		k.pass(30 * time.Minute)
		k.wantUsed(k.peek(0), driver.MaxBookings+6)
	}),
	everyStore("force takes a place above the maximum", limits{stint.Concurrency(1, time.Minute)}, func(k *tester) {
		first := k.force(1, 0)
		second := k.force(1, 0)
		k.wantUsed(second, 2)
		k.mustDeny(1)
		k.wantApplied(k.amend(first, extend), true)
		k.wantApplied(k.amend(first, release), true)
		k.mustDeny(1)
		k.wantApplied(k.amend(second, release), true)
		k.mustTake(1)
	}),
	everyStore("force ignores bans and causes no strikes", limits{stint.PerMinute(1)}, func(k *tester) {
		r := k.forced(2)
		r.Bans = policy(1)
		k.mustDecide(r)
		k.mustDecide(r)
		k.wantBanned(k.peek(1), false)
		k.ban(time.Minute)
		k.mustDecide(r)
		k.wantBanned(k.peek(1), true)
	}),
	everyStore("a forced request id is charged once", limits{stint.PerMinute(1)}, func(k *tester) {
		r := k.forced(2)
		r.ID = "x"
		for i := range driver.MaxRepeats + 4 {
			d := k.mustDecide(r)
			k.wantUsed(d, 2)
			k.wantRepeat(d, i > 0)
		}
		other := k.forced(1)
		other.ID = "y"
		k.wantUsed(k.decide(other), 3)
	}),
	everyStore("force charges all claims", nil, func(k *tester) {
		a, b := k.other(stint.PerMinute(1)), k.other(stint.PerHour(1))
		r := and(a.forced(2), b.request(3))
		d := k.mustDecide(r)
		k.wantUsed(d, 2, 3)
		b.mustDeny(1)
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(b.peek(1), 0)
		r.ID = "x"
		k.wantUsed(k.decide(r), 2, 3)
		k.wantRepeat(k.mustDecide(r), true)
		testkit.Eventually(k.T, "a repeat charges nothing", func() bool { return b.used() == 3 })
	}),
	exact("no limit is forced above 2^52", limits{stint.PerMinute(3), stint.PerMinute(3).BurstTimes(2),
		stint.TokenBucket(3, 3, time.Minute)}, func(k *tester) {
		k.mustTake(1)
		k.force(stint.MaxUnits, 0)
		k.force(stint.MaxUnits, 0)
		k.force(stint.MaxUnits, time.Second)
		k.mustDeny(1)
	}),
}
