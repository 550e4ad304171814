package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

var (
	extend  = stint.Amendment{Kind: stint.AmendExtend}
	renew   = stint.Amendment{Kind: stint.AmendExtend, KnownOnly: true}
	release = stint.Amendment{Kind: stint.AmendRelease}
)

var holding = []check{
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
		k.wantApplied(k.amend(d, extend), false)
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
		k.wantApplied(k.amend(d, renew), false)
		k.wantApplied(k.amend(d, release), false)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "a heartbeat takes a forgotten place back, above the maximum if need be", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.AtOnce(1, s), k.subject()
		old := k.mustTake(subject, 1, l)
		k.Clock.Advance(s)
		k.wantApplied(k.amend(old, renew), false)
		other := k.mustTake(subject, 1, l)
		k.wantApplied(k.amend(old, extend), true)
		k.wantUsed(k.peek(subject, 1, l), 2)
		k.wantApplied(k.amend(other, release), true)
		k.wantAllowed(k.take(subject, 1, l), false) // until it is free
		k.Clock.Advance(s - us)
		k.wantApplied(k.amend(old, extend), true)
		k.wantApplied(k.amend(old, release), true)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "no heartbeat takes back what was given up", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.AtOnce(2, s), k.subject()
		released, refunded, late := k.mustTake(subject, 1, l), k.mustTake(subject, 1, l), k.subject()
		gone := k.mustTake(late, 1, l)
		k.wantApplied(k.amend(released, release), true)
		k.wantApplied(k.settle(refunded, 0), true)
		for range 3 {
			k.wantApplied(k.amend(released, extend), false)
			k.wantApplied(k.amend(refunded, extend), false)
			k.wantUsed(k.peek(subject, 1, l), 0)
			k.Clock.Advance(s)
		}
		k.wantApplied(k.amend(gone, release), false)
		k.wantApplied(k.amend(gone, extend), false)
	}},
	{name: "after a reset heartbeats from before it say that the place is lost", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.AtOnce(1, s), k.subject()
		reset := stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{l}}
		forgotten := k.mustTake(subject, 1, l)
		k.Clock.Advance(s)
		old := k.mustTake(subject, 1, l)
		k.Clock.Advance(time.Millisecond)
		k.command(reset)
		k.wantApplied(k.amend(old, extend), false)
		k.wantApplied(k.amend(forgotten, extend), false)
		k.Clock.Advance(us)
		since := k.mustTake(subject, 1, l)
		k.wantApplied(k.amend(since, extend), true)
		k.Clock.Advance(s - 2*us)
		k.wantApplied(k.amend(old, extend), false)
		k.wantApplied(k.amend(since, extend), true)
		k.Clock.Advance(us)
		k.wantApplied(k.amend(old, extend), true) // its holder has been told
		k.wantUsed(k.peek(subject, 1, l), 2)
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject,
			Limits: []stint.Limit{stint.AtOnce(1, 2*s)}})
		k.wantUsed(k.peek(subject, 1, l), 2)
	}},
	{name: "a heartbeat is answered for all places of a charge", exact: true, clock: true, test: func(k *tester) {
		l, other, a, b := stint.AtOnce(1, s), stint.AtOnce(1, s).WithName("n"), k.subject(), k.subject()
		r := k.request(a, 1, l, other, stint.PerHour(10))
		r.And = []stint.Claim{{Subject: b, Limits: []stint.Limit{l}, Cost: 1},
			{Subject: b, Scope: "s", Limits: []stint.Limit{l}}}
		if k.SplitSubjects {
			r.And = nil
		}
		d := k.decide(r)
		k.wantAllowed(d, true)
		k.wantApplied(k.amend(d, extend), true)
		k.command(stint.Command{Kind: stint.CommandReset, Subject: a, Limits: []stint.Limit{other}})
		k.wantApplied(k.amend(d, extend), false)
		k.wantUsed(k.peek(a, 1, l, other), 1, 0)
		k.Clock.Advance(s)
		k.wantApplied(k.amend(d, extend), true)
		k.wantUsed(k.peek(a, 1, l, other), 1, 1)
		if !k.SplitSubjects {
			k.wantUsed(k.peek(b, 1, l), 1)
		}
		k.wantApplied(k.amend(k.mustTake(k.subject(), 1, stint.PerHour(1)), extend), false)
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
