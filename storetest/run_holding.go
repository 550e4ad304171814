package storetest

import "github.com/stint-limiter/stint"

var (
	extend  = stint.Amendment{Kind: stint.Extend}
	release = stint.Amendment{Kind: stint.Release}
)

var holding = []contract{
	{name: "a released place is free", exact: true, test: func(k *tester) {
		l, subject := stint.AtOnce(2, 3600*s), k.subject()
		first := k.mustTake(subject, 1, l)
		k.mustTake(subject, 1, l)
		k.wantAllowed(k.take(subject, 1, l), false)
		k.wantApplied(k.amend(first, release), true)
		k.wantApplied(k.amend(first, release), false)
		k.wantApplied(k.amend(first, extend), false)
		k.wantUsed(k.mustTake(subject, 1, l), 2)
		k.wantAllowed(k.take(subject, 1, l), false)
	}},
	{name: "a refund gives a place back too", exact: true, test: func(k *tester) {
		l, subject := stint.AtOnce(1, 3600*s), k.subject()
		d := k.mustTake(subject, 1, l)
		k.wantApplied(k.settle(d, 5), false)
		k.wantApplied(k.settle(d, 0), true)
		k.wantApplied(k.settle(d, 0), false)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "release leaves what other limits charged", exact: true, test: func(k *tester) {
		hold, rate, subject := stint.AtOnce(5, 3600*s), stint.PerHour(10), k.subject()
		d := k.mustTake(subject, 3, hold, rate)
		k.wantUsed(d, 1, 3)
		k.wantApplied(k.amend(d, release), true)
		k.wantUsed(k.peek(subject, 1, hold, rate), 0, 3)
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(k.peek(subject, 1, hold, rate), 0, 0)
	}},
	{name: "a heartbeat keeps a place, silence loses it", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.AtOnce(1, s), k.subject()
		d := k.mustTake(subject, 1, l)
		for range 5 {
			k.Clock.Advance(s - us)
			k.wantApplied(k.amend(d, extend), true)
			k.wantRetry(k.take(subject, 1, l), s)
		}
		k.Clock.Advance(s)
		k.wantApplied(k.amend(d, extend), false)
		k.wantApplied(k.amend(d, release), false)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "never more holders than places", test: func(k *tester) {
		l, subject := stint.AtOnce(3, 3600*s), k.subject()
		var held []stint.Decision
		for i := range 50 {
			if d := k.take(subject, 1, l); d.Allowed {
				held = append(held, d)
			}
			if len(held) > 3 {
				k.Fatalf("%d holders of 3 places", len(held))
			}
			if i%3 == 2 && len(held) > 0 {
				k.amend(held[0], release)
				k.amend(held[0], release)
				held = held[1:]
			}
		}
	}},
}
