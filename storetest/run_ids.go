package storetest

import (
	"fmt"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// withID is a request of one unit that names itself.
func (k *tester) withID(id string) stint.Request {
	r := k.request(1)
	r.ID = id
	return r
}

// moment is the resolution of a request id's time: a repeat in the same moment is told to wait for
// its end.
const moment = 16 * us

var requestIDs = []check{
	exact("the same id twice counts once", limits{stint.PerHour(10)}, func(k *tester) {
		first := k.mustDecide(k.withID("x"))
		if first.Repeat || first.Charge.RequestID != "x" {
			k.Errorf("first: repeat is %v, charge %+v", first.Repeat, first.Charge)
		}
		again := k.after(moment).decide(k.withID("x"))
		k.wantAllowed(again, true)
		k.wantUsed(again, 1)
		if !again.Repeat || again.Charge.ID != 0 {
			k.Errorf("again: repeat is %v, charge %+v", again.Repeat, again.Charge)
		}
		k.wantUsed(k.decide(k.withID("y")), 2)
		other := k.withID("x")
		other.Scope = "other"
		k.wantRepeat(k.decide(other), false)
	}),
	exact("a repeat is allowed by a limit that is used up", limits{stint.PerHour(1)}, func(k *tester) {
		k.decide(k.withID("x"))
		k.wantAllowed(k.after(moment).decide(k.withID("x")), true)
		k.wantAllowed(k.decide(k.withID("y")), false)
		k.wantAllowed(k.decide(k.withID("y")), false) // a denial is not remembered
	}),
	exact("an id is repeated eight times, then charged", limits{stint.PerHour(10)}, func(k *tester) {
		k.decide(k.withID("x"))
		k.pass(moment)
		for range driver.MaxRepeats {
			k.wantRepeat(k.decide(k.withID("x")), true)
		}
		for i := range int64(3) {
			d := k.decide(k.withID("x"))
			k.wantUsed(d, i+2)
			k.wantRepeat(d, false)
		}
	}),
	exact("a peek does not use up repeats", limits{stint.PerHour(10)}, func(k *tester) {
		k.decide(k.withID("x"))
		k.pass(moment)
		r := k.withID("x")
		r.Mode = stint.ModePeek
		for range 2 * driver.MaxRepeats {
			d := k.mustDecide(r)
			k.wantRepeat(d, true)
		}
	}),
	exact("a refund forgets the id", limits{stint.PerHour(10)}, func(k *tester) {
		d := k.decide(k.withID("x"))
		k.wantApplied(k.settle(d, 0), true)
		again := k.decide(k.withID("x"))
		k.wantUsed(again, 1)
		k.wantRepeat(again, false)
		k.wantApplied(k.settle(again, 3), true) // settling to something does not
		k.wantRepeat(k.after(moment).decide(k.withID("x")), true)
	}),
	exact("a reset forgets the ids", limits{stint.PerHour(10)}, func(k *tester) {
		k.decide(k.withID("x"))
		k.reset()
		k.wantRepeat(k.decide(k.withID("x")), false)
	}),
	clocked("an id lives for the shortest window, or as it says", nil, func(k *tester) {
		for _, c := range []struct {
			request stint.Request
			life    int64
		}{
			{k.other().under(stint.PerMinute(10), stint.PerSecond(10)).withID("x"), 1_000_000},
			{stint.Request{Claim: k.other().under(stint.PerMinute(10)).request(1).Claim, ID: "x", IDLife: 5 * s},
				5_000_000},
		} {
			k.after(micros(16 - k.Clock.micros()%16)).decide(c.request)
			k.wantRepeat(k.after(micros(c.life-1)).decide(c.request), true)
			k.wantRepeat(k.after(us).decide(c.request), false)
		}
	}),
	clocked("a repeat of a booking waits for the same instant", limits{stint.PerSecond(1)}, func(k *tester) {
		k.after(micros(16 - k.Clock.micros()%16)).mustTake(1)
		r := k.withID("x")
		r.Mode = stint.ModeReserve
		k.wantRetry(k.decide(r), s)
		again := k.after(100 * ms).decide(r)
		k.wantAllowed(again, true)
		k.wantRetry(again, 900*ms)
		k.wantUsed(again, 2)
		d := k.decide(k.withID("x")) // a take cannot have it yet
		k.wantAllowed(d, false)
		k.wantRetry(d, 900*ms)
	}),
	clocked("ids are remembered up to a bound, the oldest goes", limits{stint.PerHour(1_000_000)}, func(k *tester) {
		for i := range driver.MaxIDs + 1 {
			k.decide(k.withID(fmt.Sprint(i)))
			k.Clock.Advance(moment)
		}
		k.wantRepeat(k.decide(k.withID("1")), true)
		k.wantRepeat(k.decide(k.withID("0")), false)
	}),
}
