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
	exact("a released place is free", limits{stint.Concurrency(2, 3600*s)}, func(k *tester) {
		first := k.mustTake(1)
		k.mustTake(1)
		k.mustDeny(1)
		k.wantApplied(k.amend(first, release), true)
		k.wantApplied(k.amend(first, release), false)
		k.wantApplied(k.amend(first, extend), false)
		k.wantUsed(k.mustTake(1), 2)
		k.mustDeny(1)
	}),
	exact("release leaves what other limits charged", nil, func(k *tester) {
		hold, rate := stint.Concurrency(5, 3600*s), stint.PerHour(10)
		d := k.under(hold, rate).mustTake(3)
		k.wantUsed(d, 1, 3)
		k.wantApplied(k.amend(d, release), true)
		k.wantUsed(k.under(hold, rate).peek(1), 0, 3)
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(k.under(hold, rate).peek(1), 0, 0)
	}),
	clocked("a heartbeat keeps a place, which is lost without heartbeats", limits{stint.Concurrency(1, s)}, func(k *tester) {
		d := k.mustTake(1)
		for range 5 {
			k.wantApplied(k.after(s-us).amend(d, extend), true)
			k.wantRetry(k.take(1), s)
		}
		k.wantApplied(k.after(s).amend(d, renew), false)
		k.wantApplied(k.amend(d, release), false)
		k.mustTake(1)
	}),
	clocked("a heartbeat takes a forgotten place back, above the maximum if necessary",
		limits{stint.Concurrency(1, s)}, func(k *tester) {
			old := k.mustTake(1)
			k.wantApplied(k.after(s).amend(old, renew), false)
			other := k.mustTake(1)
			k.wantApplied(k.amend(old, extend), true)
			k.wantUsed(k.peek(1), 2)
			k.wantApplied(k.amend(other, release), true)
			k.mustDeny(1) // old has the only place
			k.wantApplied(k.after(s-us).amend(old, extend), true)
			k.wantApplied(k.amend(old, release), true)
			k.mustTake(1)
		}),
	clocked("after a reset, heartbeats of earlier places report that the place is lost",
		limits{stint.Concurrency(1, s)}, func(k *tester) {
			forgotten := k.mustTake(1)
			old := k.after(s).mustTake(1)
			k.after(time.Millisecond).reset()
			k.wantApplied(k.amend(old, extend), false)
			k.wantApplied(k.amend(forgotten, extend), false)
			since := k.after(us).mustTake(1)
			k.wantApplied(k.amend(since, extend), true)
			k.wantApplied(k.after(s-2*us).amend(old, extend), false)
			k.wantApplied(k.amend(since, extend), true)
			k.wantApplied(k.after(us).amend(old, extend), true) // a window has passed since the reset
			k.wantUsed(k.peek(1), 2)
			k.under(stint.Concurrency(1, 2*s)).reset()
			k.wantUsed(k.peek(1), 2)
		}),
	clocked("a heartbeat is answered for all places of a charge", nil, func(k *tester) {
		place, named := stint.Concurrency(1, s), stint.Concurrency(1, s).WithName("n")
		a, b := k.other(place, named), k.other(place)
		r := a.with(stint.PerHour(10)).request(1)
		if !k.SplitSubjects {
			r = and(r, b.request(1), b.request(0))
			r.Claims[2].Scope = "s"
		}
		d := k.mustDecide(r)
		k.wantApplied(k.amend(d, extend), true)
		a.under(named).reset()
		k.wantApplied(k.amend(d, extend), false)
		k.wantUsed(a.peek(1), 1, 0)
		k.wantApplied(k.after(s).amend(d, extend), true)
		k.wantUsed(a.peek(1), 1, 1)
		if !k.SplitSubjects {
			k.wantUsed(b.peek(1), 1)
		}
		k.wantApplied(k.amend(k.other(stint.PerHour(1)).mustTake(1), extend), false)
	}),
	everyStore("never more holders than places", limits{stint.Concurrency(3, 3600*s)}, func(k *tester) {
		var held []stint.Decision
		for i := range 50 {
			if d := k.take(1); d.Allowed {
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
	}),
}
