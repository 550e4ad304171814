package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

func (k *tester) giveBack(units int64) {
	k.Helper()
	k.command(stint.Command{Kind: stint.CommandGiveBack, Subject: k.subject, Limits: k.limits, Units: units})
}

var givingBack = []check{
	exact("units are given back, as far as they were used", windowed(), func(k *tester) {
		k.mustTake(3)
		k.mustTake(4)
		k.giveBack(2)
		k.wantUsed(k.peek(1), 5)
		k.wantUsed(k.mustTake(5), 10)
		k.giveBack(stint.MaxUnits)
		k.wantUsed(k.peek(1), 0)
		k.wantUsed(k.mustTake(10), 10)
		k.mustDeny(1)
	}),
	clocked("a long log is given back in part", limits{stint.PerMinute(100)}, func(k *tester) {
		for range 100 {
			k.mustTake(1)
			k.pass(100 * ms)
		}
		for used := int64(100); used > 30; used -= 30 {
			k.giveBack(31)
			k.wantUsed(k.mustTake(1), used-30)
		}
	}),
	clocked("a state whose units were all given back still settles its holds", limits{stint.PerSecond(10)},
		func(k *tester) {
			for _, empty := range []func(k *tester){
				func(k *tester) { k.giveBack(5) },
				func(k *tester) {
					d := k.mustTake(3)
					k.giveBack(5)
					k.wantApplied(k.settle(d, 0), true)
				},
			} {
				k := k.other()
				r := k.request(5)
				r.Hold = 2 * s // longer than the window, so the units are charged instead of held
				held := k.mustDecide(r)
				empty(k)
				k.wantUsed(k.mustTake(7), 7)
				k.wantSettled(held, settleTo(2), 2)
				k.wantUsed(k.peek(1), 4)
			}
		}),
	exact("giving back touches no other scope, request id or ban", limits{stint.PerHour(10)}, func(k *tester) {
		r := k.request(4)
		r.ID = "once"
		k.mustDecide(r)
		scoped := k.request(4)
		scoped.Claims[0].Scope = "reports"
		k.mustDecide(scoped)
		k.command(stint.Command{Kind: stint.CommandGiveBack, Subject: k.subject, Scope: "reports",
			Limits: k.limits, Units: 3})
		k.wantUsed(k.peek(1), 4)
		k.wantUsed(k.look(scoped), 1)
		k.giveBack(4)
		k.wantRepeat(k.decide(r), true)
		k.ban(time.Hour)
		k.giveBack(4)
		if d := k.take(1); !d.Banned {
			k.Errorf("the ban is gone: %s", answer(d))
		}
	}),
}
