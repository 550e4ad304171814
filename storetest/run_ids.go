package storetest

import (
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// withID is a request of one unit that names itself.
func (k *tester) withID(id string) stint.Request {
	r := k.request(1)
	r.ID = id
	return r
}

// withIDFor is one whose id lives for so long.
func (k *tester) withIDFor(id string, life time.Duration) stint.Request {
	r := k.withID(id)
	r.IDLife = life
	return r
}

// moment is the resolution of a request id's time: a repeat in the same moment is told to wait for
// its end.
const moment = 16 * us

var requestIDs = []check{
	exact("the same id twice counts once", limits{stint.PerHour(10)}, func(k *tester) {
		first := k.mustDecide(k.withID("x"))
		if first.Repeat || first.Charge.Data().RequestID != "x" {
			k.Errorf("first: repeat is %v, charge %+v", first.Repeat, first.Charge)
		}
		again := k.after(moment).decide(k.withID("x"))
		k.wantAllowed(again, true)
		k.wantUsed(again, 1)
		if !again.Repeat || again.Charge.Data().ID != 0 {
			k.Errorf("again: repeat is %v, charge %+v", again.Repeat, again.Charge)
		}
		k.wantUsed(k.decide(k.withID("y")), 2)
		other := k.withID("x")
		other.Claims[0].Scope = "other"
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
		for range storebounds.MaxRepeats {
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
		for range 2 * storebounds.MaxRepeats {
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
			{stint.Request{Claims: k.other().under(stint.PerMinute(10)).request(1).Claims, ID: "x", IDLife: 5 * s},
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
	clocked("an id with a short life ends no other", limits{stint.PerHour(10)}, func(k *tester) {
		short, long := k.withIDFor("short", 2*s), k.withIDFor("long", 10*time.Minute)
		k.decide(long)
		k.after(3 * s).decide(short) // the long one is older than the life of this one
		k.wantRepeat(k.after(moment).decide(long), true)
		k.wantRepeat(k.decide(short), true)
		k.pass(2 * s)
		k.wantRepeat(k.decide(short), false)
		k.wantRepeat(k.after(9*time.Minute).decide(long), true)
		k.wantRepeat(k.after(time.Minute).decide(long), false)
	}),
	clocked("an id with a long life keeps no other", limits{stint.PerHour(10)}, func(k *tester) {
		short, long := k.withIDFor("short", 2*s), k.withIDFor("long", 10*time.Minute)
		k.decide(short)
		k.after(s).decide(long)
		k.wantRepeat(k.decide(short), true)
		k.wantRepeat(k.after(s+moment).decide(short), false)
	}),
	clocked("ids are remembered up to a bound, the one that ends first goes", limits{stint.PerHour(1_000_000)},
		func(k *tester) {
			for i := range storebounds.MaxIDs - 1 {
				k.decide(k.withIDFor(fmt.Sprint(i), 10*time.Minute))
				k.Clock.Advance(moment)
			}
			short := k.withIDFor("short", time.Minute)
			k.decide(short)
			k.wantRepeat(k.after(moment).decide(short), true)
			k.decide(k.withIDFor("one more", 10*time.Minute))
			k.wantRepeat(k.after(moment).decide(k.withIDFor("0", 10*time.Minute)), true)
			k.decide(k.withIDFor("and another", 10*time.Minute))
			k.wantRepeat(k.after(moment).decide(k.withIDFor("1", 10*time.Minute)), true)
			k.wantRepeat(k.decide(k.withIDFor("0", 10*time.Minute)), false)
			k.wantRepeat(k.decide(short), false)
		}),
}
