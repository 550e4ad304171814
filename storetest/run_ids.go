package storetest

import (
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

func (k *tester) withID(id string) stint.Request {
	r := k.request(1)
	r.ID = id
	return r
}

func (k *tester) withIDFor(id string, life time.Duration) stint.Request {
	r := k.withID(id)
	r.IDLife = life
	return r
}

// moment is the resolution of the times of request ids. These are rounded up, so the time of a new
// id may be up to a moment ahead of the clock.
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
		if !again.Repeat || again.Charge.Data().ID != first.Charge.Data().ID {
			k.Errorf("again: repeat is %v, charge %+v", again.Repeat, again.Charge)
		}
		k.wantUsed(k.decide(k.withID("y")), 2)
		other := k.withID("x")
		other.Claims[0].Scope = "other"
		k.wantRepeat(k.decide(other), false)
	}),
	// See fault F39 in docs/faults.md.
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
	exact("a refund forgets the id", limits{stint.PerHour(10)}, func(k *tester) {
		d := k.decide(k.withID("x"))
		k.wantApplied(k.settle(d, 0), true)
		again := k.decide(k.withID("x"))
		k.wantUsed(again, 1)
		k.wantRepeat(again, false)
		k.wantApplied(k.settle(again, 3), true) // settling to more than 0 does not forget the id
		k.wantRepeat(k.after(moment).decide(k.withID("x")), true)
	}),
	exact("a reset forgets the ids", limits{stint.PerHour(10)}, func(k *tester) {
		k.decide(k.withID("x"))
		k.reset()
		k.wantRepeat(k.decide(k.withID("x")), false)
	}),
	clocked("an id lives for the shortest window, or for its own life", nil, func(k *tester) {
		for _, c := range []struct {
			request stint.Request
			life    int64
		}{
			{k.other(stint.PerMinute(10), stint.PerSecond(10)).withID("x"), 1_000_000},
			{stint.Request{Claims: k.other(stint.PerMinute(10)).request(1).Claims, ID: "x", IDLife: 5 * s},
				5_000_000},
		} {
			k.after(micros(16 - k.Clock.micros()%16)).decide(c.request)
			k.wantRepeat(k.after(micros(c.life-1)).decide(c.request), true)
			k.wantRepeat(k.after(us).decide(c.request), false)
		}
	}),
	clocked("ids are remembered up to a bound, and the one that ends first is forgotten", limits{stint.PerHour(1_000_000)},
		func(k *tester) {
			for i := range driver.MaxIDs - 1 {
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
	exact("a repeat settles the charge of the first request, once between them", append(windowed(), stint.PerHour(1000),
		stint.PerHour(10).WithName("n")), func(k *tester) {
		for _, later := range []bool{true, false} {
			k := k.other()
			k.mustTake(1)
			first := k.mustDecide(k.withID("x"))
			again := k.after(moment).mustDecide(k.withID("x"))
			k.wantSame(again, first)
			if later {
				first, again = again, first
			}
			k.wantSettled(first, settleTo(4), 4)
			k.wantApplied(k.settle(again, 7), false)
			k.wantApplied(k.settle(first, 7), false)
			k.wantUsed(k.peek(1), 5)
		}
	}),
	exact("a repeat has the charge to all subjects", nil, func(k *tester) {
		a, b := k.other(stint.PerHour(10), stint.PerHour(20).WithName("n")), k.other(stint.PerHour(10))
		same := k.as(a.subject, stint.PerDay(10))
		ask := func() stint.Request {
			r := and(a.withID("x"), b.request(2), same.request(3))
			r.Claims[2].Scope = "s"
			return r
		}
		first := k.mustDecide(ask())
		again := k.after(moment).mustDecide(ask())
		k.wantSame(again, first)
		k.wantSettled(part(again, 1), settleTo(6), 6)
		k.wantApplied(k.settle(part(first, 1), 7), false)
		k.wantSettled(part(again, 0, 2), settleTo(5), 5)
		k.wantApplied(k.settle(first, 7), false)
		k.wantUsed(k.look(ask()), 5, 5, 6, 5)
	}),
	exact("a repeat with other claims has no charge", limits{stint.PerHour(10)}, func(k *tester) {
		k.mustDecide(k.withID("x"))
		k.pass(moment)
		other := k.other()
		for _, r := range []stint.Request{
			k.under(stint.PerDay(10)).withID("x"),
			k.under(stint.PerHour(10).WithName("n")).withID("x"),
			k.with(stint.PerDay(10)).withID("x"),
			and(k.withID("x"), other.request(1)),
		} {
			if d := k.mustDecide(r); !d.Repeat || !d.Charge.IsZero() {
				k.Errorf("%s: repeat %v, charge %+v", describe(r, ""), d.Repeat, d.Charge)
			}
		}
		k.wantUsed(other.peek(1), 0)
		larger := k.under(stint.PerHour(20)).withID("x") // the same limit with a higher Max
		if d := k.mustDecide(larger); d.Charge.IsZero() {
			k.Errorf("%s: no charge", describe(larger, ""))
		}
	}),
	clocked("a repeated request is refunded by the repeat once its id has ended", limits{stint.PerHour(10)},
		func(k *tester) {
			first := k.mustDecide(k.withIDFor("x", time.Minute))
			again := k.after(moment).mustDecide(k.withIDFor("x", time.Minute))
			k.wantApplied(k.settle(again, 0), false)
			k.wantApplied(k.settle(first, 0), false)
			k.pass(time.Minute)
			k.wantApplied(k.settle(again, 0), true)
			k.wantApplied(k.settle(first, 0), false)
			k.wantUsed(k.peek(1), 0)
		}),
	clocked("a repeat has the charge of a booking that was moved up", limits{stint.PerSecond(1)}, func(k *tester) {
		k.mustTake(1)
		ahead := k.reserve(1, 0)
		r := k.withID("x")
		r.Mode, r.IDLife = stint.ModeReserve, time.Minute
		booked := k.mustDecide(r)
		k.wantSame(k.after(moment).mustDecide(r), booked)
		for _, free := range []bool{false, true} {
			if free {
				k.wantApplied(k.settle(ahead, 0), true)
			}
			move := r
			old := booked
			move.Terms().Booked = old.Charge.Data()
			booked = k.mustDecide(move)
			k.wantSame(k.mustDecide(r), booked)
		}
		k.wantSettled(k.mustDecide(r), settleTo(3), 3)
		k.wantApplied(k.settle(booked, 5), false)
	}),
}

// wantSame checks that two decisions have the same charge.
func (k *tester) wantSame(got, want stint.Decision) {
	k.Helper()
	g, w := got.Charge.Data(), want.Charge.Data()
	same := g.ID == w.ID && g.At == w.At && g.RequestID == w.RequestID &&
		len(got.Charge.Claims()) == len(want.Charge.Claims())
	for i, c := range want.Charge.Claims() {
		same = same && got.Charge.Claims()[i].Cost == c.Cost && g.AtOf(i) == w.AtOf(i)
	}
	for i := range stint.MaxTotal {
		same = same && g.GenerationAt(i) == w.GenerationAt(i)
	}
	if !same || g.ID == 0 {
		k.Errorf("charge %+v, want %+v", got.Charge, want.Charge)
	}
}
