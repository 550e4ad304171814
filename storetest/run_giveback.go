package storetest

import (
	"errors"
	"time"

	"github.com/stint-limiter/stint"
)

// giveBack gives units back to a subject without a scope.
func (k *tester) giveBack(subject string, units int64, limits ...stint.Limit) {
	k.Helper()
	k.command(stint.Command{Kind: stint.CommandGiveBack, Subject: subject, Limits: limits, Units: units})
}

var givingBack = []check{
	{name: "units are given back, as far as they were used", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			subject := k.subject()
			k.mustTake(subject, 3, l)
			k.mustTake(subject, 4, l)
			k.giveBack(subject, 2, l)
			k.wantUsed(k.peek(subject, 1, l), 5)
			k.wantUsed(k.mustTake(subject, 5, l), 10)
			k.giveBack(subject, stint.MaxUnits, l)
			k.wantUsed(k.peek(subject, 1, l), 0)
			k.wantUsed(k.mustTake(subject, 10, l), 10)
			k.wantAllowed(k.take(subject, 1, l), false)
		}
	}},
	{name: "giving back twice gives back twice", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			subject := k.subject()
			k.mustTake(subject, 9, l)
			k.giveBack(subject, 2, l)
			k.giveBack(subject, 2, l)
			k.wantUsed(k.peek(subject, 1, l), 5)
		}
	}},
	{name: "every limit gives back what it has", exact: true, test: func(k *tester) {
		day, named, subject := stint.PerDay(100), stint.PerDay(100).WithName("other"), k.subject()
		bucket := stint.TokenBucket(100, 1, 24*time.Hour)
		k.mustTake(subject, 10, day)
		k.mustTake(subject, 3, day, named, bucket)
		k.giveBack(subject, 5, named, day, bucket)
		k.wantUsed(k.peek(subject, 1, day, named, bucket), 8, 0, 0)
	}},
	{name: "the oldest units are given back first", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(10), k.subject()
		for _, units := range []int64{4, 3, 3} {
			k.mustTake(subject, units, l)
			k.pass(300 * ms)
		}
		k.giveBack(subject, 5, l) // four of the first, one of the second
		k.wantUsed(k.mustTake(subject, 5, l), 10)
		d := k.take(subject, 1, l)
		k.wantAllowed(d, false)
		k.wantRetry(d, 400*ms)
		k.pass(400 * ms)
		k.wantUsed(k.mustTake(subject, 2, l), 10)
		k.wantRetry(k.take(subject, 1, l), 300*ms)
	}},
	{name: "the oldest slices are given back first", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1000), k.subject() // in slices of 8 ms
		for _, units := range []int64{400, 300, 300} {
			k.mustTake(subject, units, l)
			k.pass(304 * ms)
		}
		k.giveBack(subject, 500, l)
		k.wantUsed(k.peek(subject, 1, l), 500)
		k.pass(400 * ms) // the second have left
		k.wantUsed(k.peek(subject, 1, l), 300)
	}},
	{name: "a long log is given back in part", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerMinute(100), k.subject()
		for range 100 {
			k.mustTake(subject, 1, l)
			k.pass(100 * ms)
		}
		for used := int64(100); used > 30; used -= 30 {
			k.giveBack(subject, 31, l)
			k.wantUsed(k.mustTake(subject, 1, l), used-30)
		}
	}},
	{name: "a burst gives back to its log and its meter", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(2).WithBurst(3), k.subject()
		k.mustTake(subject, 6, l)
		k.pass(s) // four are left in the meter, none in the log
		k.giveBack(subject, 3, l)
		k.wantUsed(k.peek(subject, 1, l), 1)
		k.mustTake(subject, 5, l)
		k.giveBack(subject, 2, l)
		k.wantUsed(k.peek(subject, 1, l), 4)
	}},
	{name: "debts are given back first", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			subject := k.subject()
			k.settle(k.mustTake(subject, 5, l), 20)
			k.giveBack(subject, 9, l)
			d := k.take(subject, 1, l)
			k.wantAllowed(d, false)
			k.wantUsed(d, 11)
			k.giveBack(subject, 4, l)
			k.wantUsed(k.mustTake(subject, 3, l), 10)
		}
	}},
	{name: "bookings are not given back", exact: true, clock: true, test: func(k *tester) {
		for _, l := range []stint.Limit{stint.PerSecond(10), stint.TokenBucket(10, 10, s)} {
			subject := k.subject()
			k.mustTake(subject, 10, l)
			booked := k.reserve(subject, 10, 0, l)
			k.wantRetry(booked, s)
			k.giveBack(subject, stint.MaxUnits, l)
			k.wantUsed(k.peek(subject, 1, l), 10)
			k.wantApplied(k.settle(booked, 0), true)
			k.wantUsed(k.peek(subject, 1, l), 0)
		}
	}},
	{name: "leases are not given back before their end", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(10), k.subject()
		k.mustTake(subject, 3, l)
		k.wantCharged(k.lease(subject, 5, 100*ms, l), 5)
		k.giveBack(subject, 10, l)
		k.wantUsed(k.peek(subject, 1, l), 5)
		k.pass(100 * ms)
		k.giveBack(subject, 10, l)
		k.wantUsed(k.peek(subject, 1, l), 0)
	}},
	{name: "places are not given back", exact: true, test: func(k *tester) {
		l, places, subject := stint.PerHour(10), stint.AtOnce(2, time.Hour), k.subject()
		d := k.mustTake(subject, 1, l, places)
		k.giveBack(subject, 5, l, places)
		k.wantUsed(k.peek(subject, 1, l, places), 0, 1)
		k.wantApplied(k.amend(d, stint.Amendment{Kind: stint.AmendRelease}), true)
	}},
	{name: "what was given back is not settled", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		d := k.mustTake(subject, 4, l)
		k.giveBack(subject, 4, l)
		k.wantApplied(k.settle(d, 0), false)
		k.wantUsed(k.peek(subject, 1, l), 0)
	}},
	{name: "giving back touches no other scope, request id or ban", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		r := k.request(subject, 4, l)
		r.ID = "once"
		k.wantAllowed(k.decide(r), true)
		scoped := k.request(subject, 4, l)
		scoped.Scope = "reports"
		k.wantAllowed(k.decide(scoped), true)
		k.command(stint.Command{Kind: stint.CommandGiveBack, Subject: subject, Scope: "reports",
			Limits: []stint.Limit{l}, Units: 3})
		k.wantUsed(k.peek(subject, 1, l), 4)
		scoped.Mode = stint.ModePeek
		k.wantUsed(k.decide(scoped), 1)
		k.giveBack(subject, 4, l)
		if d := k.decide(r); !d.Repeat {
			k.Errorf("the id was forgotten: %s", answer(d))
		}
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Hour})
		k.giveBack(subject, 4, l)
		if d := k.take(subject, 1, l); !d.Banned {
			k.Errorf("the ban is gone: %s", answer(d))
		}
	}},
	{name: "giving back to a stranger is nothing special", exact: true, test: func(k *tester) {
		for _, l := range eachAlgorithm(2) {
			subject := k.subject()
			k.giveBack(subject, 5, l)
			k.wantUsed(k.mustTake(subject, 1, l), 1)
		}
	}},
	{name: "what cannot be given back is refused", test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		k.mustTake(subject, 4, l)
		for name, c := range map[string]stint.Command{
			"nothing":       {Subject: subject, Limits: []stint.Limit{l}},
			"less":          {Subject: subject, Limits: []stint.Limit{l}, Units: -1},
			"too much":      {Subject: subject, Limits: []stint.Limit{l}, Units: stint.MaxUnits + 1},
			"no subject":    {Limits: []stint.Limit{l}, Units: 1},
			"no limits":     {Subject: subject, Units: 1},
			"a limit twice": {Subject: subject, Limits: []stint.Limit{l, stint.PerHour(20)}, Units: 1},
			"a wrong limit": {Subject: subject, Limits: []stint.Limit{{Max: -1}}, Units: 1},
		} {
			c.Kind = stint.CommandGiveBack
			var invalid *stint.InvalidError
			if err := k.Store.Command(k.Context(), c); !errors.As(err, &invalid) {
				k.Errorf("%s: got %v, want an InvalidError", name, err)
			}
		}
		if err := k.Store.Command(cancelled(k.Context()), stint.Command{
			Kind: stint.CommandGiveBack, Subject: subject, Limits: []stint.Limit{l}, Units: 1}); err == nil {
			k.Error("a context that has ended: no error")
		}
		if k.level == Exact {
			k.wantUsed(k.peek(subject, 1, l), 4)
		}
	}},
}
