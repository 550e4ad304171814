package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// force charges whether or not there is room, ahead of now if asked to.
func (k *tester) force(subject string, cost int64, ahead time.Duration, limits ...stint.Limit) stint.Decision {
	k.Helper()
	r := k.request(subject, cost, limits...)
	r.Mode, r.MaxWait = stint.ModeForce, ahead
	d := k.decide(r)
	k.wantAllowed(d, true)
	k.wantRetry(d, ahead)
	return d
}

// forcing is what holds for charges that need no room.
var forcing = []check{
	{name: "force charges above the capacity", test: func(k *tester) {
		for _, limit := range []stint.Limit{
			stint.PerMinute(3), stint.PerMinute(200), stint.PerMinute(3).WithBurst(2),
			stint.TokenBucket(3, 3, time.Minute),
			{Max: 3, Window: stint.MaxWindow, Algorithm: stint.AlgorithmFixed}, stint.PerMinute(0),
		} {
			subject := k.subject()
			k.force(subject, limit.Capacity(), 0, limit)
			d := k.force(subject, 300, 0, limit)
			k.wantUsed(d, limit.Capacity()+300)
			k.wantAllowed(k.take(subject, 1, limit), false)
			k.wantUsed(k.peek(subject, 1, limit), limit.Capacity()+300)
			k.wantApplied(k.settle(d, 0), true)
			k.wantUsed(k.peek(subject, 1, limit), limit.Capacity())
		}
	}},
	{name: "what was forced leaves the window like any charge", exact: true, clock: true, test: func(k *tester) {
		subject, limit := k.subject(), stint.PerSecond(3)
		k.force(subject, 7, 0, limit)
		k.wantRetry(k.take(subject, 1, limit), time.Second)
		k.pass(time.Second)
		k.wantUsed(k.mustTake(subject, 3, limit), 3)
	}},
	{name: "a bucket repays what was forced", exact: true, clock: true, test: func(k *tester) {
		subject, limit := k.subject(), stint.TokenBucket(2, 1, time.Second)
		k.force(subject, 5, 0, limit)
		k.wantRetry(k.take(subject, 1, limit), 4*time.Second)
		k.pass(4 * time.Second)
		k.wantUsed(k.mustTake(subject, 1, limit), 2)
	}},
	{name: "a log keeps many forced charges", exact: true, clock: true, test: func(k *tester) {
		subject, limit := k.subject(), stint.PerHour(2)
		for i := range int64(400) {
			k.wantUsed(k.force(subject, 1, 0, limit), i+1)
			k.pass(time.Second)
		}
		k.wantAllowed(k.take(subject, 1, limit), false)
	}},
	{name: "force books ahead of now, between others", exact: true, clock: true, test: func(k *tester) {
		subject, limit := k.subject(), stint.PerSecond(1)
		k.mustTake(subject, 1, limit)
		later := k.reserve(subject, 1, time.Minute, limit)
		k.wantRetry(later, time.Second)
		d := k.force(subject, 2, 500*time.Millisecond, limit)
		k.wantUsed(d, 3) // as of then: the first, and these
		if d.Charge.At >= later.Charge.At {
			k.Fatalf("it ends at %d, after the next one at %d", d.Charge.At, later.Charge.At)
		}
		k.wantUsed(k.peek(subject, 0, limit), 4)
		k.wantApplied(k.settle(d, 1), true)
		k.wantUsed(k.peek(subject, 0, limit), 3)
		k.pass(999 * time.Millisecond)
		k.wantUsed(k.peek(subject, 0, limit), 3)
		k.pass(521 * time.Millisecond)
		k.wantUsed(k.peek(subject, 0, limit), 1)
	}},
	{name: "force books where all places are taken", exact: true, clock: true, test: func(k *tester) {
		subject, limit := k.subject(), stint.PerMinute(1)
		for i := range int64(driver.MaxBookings) + 5 {
			k.force(subject, 1, time.Hour+time.Duration(i)*time.Second, limit)
		}
		k.force(subject, 1, time.Minute, limit)
		k.wantUsed(k.peek(subject, 0, limit), driver.MaxBookings+6)
		if r, err := k.Store.Take(k.Context(), stint.Request{Mode: stint.ModeReserve,
			Claim: stint.Claim{Subject: subject, Cost: 1, Limits: []stint.Limit{limit}}}); err != nil || r.Allowed {
			k.Fatalf("reserve: %s, %v; want that it is denied", answer(r), err)
		}
	}},
	{name: "force takes a place above the maximum", test: func(k *tester) {
		subject, limit := k.subject(), stint.AtOnce(1, time.Minute)
		first := k.force(subject, 1, 0, limit)
		second := k.force(subject, 1, 0, limit)
		k.wantUsed(second, 2)
		k.wantAllowed(k.take(subject, 1, limit), false)
		k.wantApplied(k.amend(first, stint.Amendment{Kind: stint.AmendExtend}), true)
		k.wantApplied(k.amend(first, stint.Amendment{Kind: stint.AmendRelease}), true)
		k.wantAllowed(k.take(subject, 1, limit), false)
		k.wantApplied(k.amend(second, stint.Amendment{Kind: stint.AmendRelease}), true)
		k.wantAllowed(k.take(subject, 1, limit), true)
	}},
	{name: "force neither obeys bans nor strikes", test: func(k *tester) {
		subject, limit := k.subject(), stint.PerMinute(1)
		r := k.request(subject, 2, limit)
		r.Mode = stint.ModeForce
		r.Bans = &stint.BanPolicy{After: 1, Within: time.Minute, Durations: []time.Duration{time.Minute}}
		k.wantAllowed(k.decide(r), true)
		k.wantAllowed(k.decide(r), true)
		if d := k.peek(subject, 1, limit); d.Banned {
			k.Fatal("a force led to a ban")
		}
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Minute})
		k.wantAllowed(k.decide(r), true)
		if d := k.peek(subject, 1, limit); !d.Banned {
			k.Fatal("a force ended a ban")
		}
	}},
	{name: "a forced request id is charged once", test: func(k *tester) {
		subject, limit := k.subject(), stint.PerMinute(1)
		r := k.request(subject, 2, limit)
		r.Mode, r.ID = stint.ModeForce, "x"
		for i := range driver.MaxRepeats + 4 {
			d := k.decide(r)
			k.wantAllowed(d, true)
			k.wantUsed(d, 2)
			if d.Repeat != (i > 0) {
				k.Fatalf("repeat is %v after %d", d.Repeat, i)
			}
		}
		other := k.request(subject, 1, limit)
		other.Mode, other.ID = stint.ModeForce, "y"
		k.wantUsed(k.decide(other), 3)
	}},
	{name: "force charges all claims", test: func(k *tester) {
		a, b := k.subject(), k.subject()
		limit := stint.PerMinute(1)
		r := k.request(a, 2, limit)
		r.Mode, r.And = stint.ModeForce, []stint.Claim{{Subject: b, Limits: []stint.Limit{stint.PerHour(1)}, Cost: 3}}
		d := k.decide(r)
		k.wantAllowed(d, true)
		k.wantUsed(d, 2, 3)
		k.wantAllowed(k.take(b, 1, stint.PerHour(1)), false)
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(k.peek(b, 1, stint.PerHour(1)), 0)
		r.ID = "x"
		k.wantUsed(k.decide(r), 2, 3)
		d = k.decide(r)
		if !d.Repeat || !d.Allowed {
			k.Fatalf("a repeat: %s", answer(d))
		}
		k.eventually("a repeat charges nothing", func() bool {
			d := k.peek(b, 1, stint.PerHour(1))
			return d.Usages()[0].Used == 3
		})
	}},
	{name: "no limit is forced above 2^52", exact: true, test: func(k *tester) {
		for _, limit := range []stint.Limit{stint.PerMinute(3), stint.PerMinute(3).WithBurst(2),
			stint.TokenBucket(3, 3, time.Minute)} {
			subject := k.subject()
			k.mustTake(subject, 1, limit)
			k.force(subject, stint.MaxUnits, 0, limit)
			k.force(subject, stint.MaxUnits, 0, limit)
			k.force(subject, stint.MaxUnits, time.Second, limit)
			k.wantAllowed(k.take(subject, 1, limit), false)
		}
	}},
}
