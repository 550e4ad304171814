package storetest

import (
	"fmt"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// withID is a request of one unit that names itself.
func (k *tester) withID(subject, id string, limits ...stint.Limit) stint.Request {
	r := k.request(subject, 1, limits...)
	r.ID = id
	return r
}

// moment is the resolution of a request id's time: a repeat in the same moment is told to wait for
// its end.
const moment = 16 * us

var requestIDs = []check{
	{name: "the same id twice counts once", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		first := k.decide(k.withID(subject, "x", l))
		k.wantAllowed(first, true)
		if first.Repeat || first.Charge.RequestID != "x" {
			k.Errorf("first: repeat is %v, charge %+v", first.Repeat, first.Charge)
		}
		k.pass(moment)
		again := k.decide(k.withID(subject, "x", l))
		k.wantAllowed(again, true)
		k.wantUsed(again, 1)
		if !again.Repeat || again.Charge.ID != 0 {
			k.Errorf("again: repeat is %v, charge %+v", again.Repeat, again.Charge)
		}
		k.wantUsed(k.decide(k.withID(subject, "y", l)), 2)
		other := k.withID(subject, "x", l)
		other.Scope = "other"
		if d := k.decide(other); d.Repeat {
			k.Error("an id is a repeat in another scope")
		}
	}},
	{name: "a repeat is allowed by a limit that is used up", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(1), k.subject()
		k.decide(k.withID(subject, "x", l))
		k.pass(moment)
		k.wantAllowed(k.decide(k.withID(subject, "x", l)), true)
		k.wantAllowed(k.decide(k.withID(subject, "y", l)), false)
		k.wantAllowed(k.decide(k.withID(subject, "y", l)), false) // a denial is not remembered
	}},
	{name: "an id is repeated eight times, then charged", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		k.decide(k.withID(subject, "x", l))
		k.pass(moment)
		for i := range driver.MaxRepeats {
			if d := k.decide(k.withID(subject, "x", l)); !d.Repeat {
				k.Fatalf("repeat %d: %s", i+1, answer(d))
			}
		}
		for i := range int64(3) {
			d := k.decide(k.withID(subject, "x", l))
			k.wantUsed(d, i+2)
			if d.Repeat {
				k.Errorf("repeat %d is still a repeat", driver.MaxRepeats+i+1)
			}
		}
	}},
	{name: "a peek does not use up repeats", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		k.decide(k.withID(subject, "x", l))
		k.pass(moment)
		r := k.withID(subject, "x", l)
		r.Mode = stint.ModePeek
		for range 2 * driver.MaxRepeats {
			if d := k.decide(r); !d.Repeat || !d.Allowed {
				k.Fatalf("peek: %s", answer(d))
			}
		}
	}},
	{name: "a refund forgets the id", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		d := k.decide(k.withID(subject, "x", l))
		k.wantApplied(k.settle(d, 0), true)
		again := k.decide(k.withID(subject, "x", l))
		k.wantUsed(again, 1)
		if again.Repeat {
			k.Error("a refunded id is a repeat")
		}
		k.wantApplied(k.settle(again, 3), true) // settling to something does not
		k.pass(moment)
		if d := k.decide(k.withID(subject, "x", l)); !d.Repeat {
			k.Error("a settled id is no repeat")
		}
	}},
	{name: "a reset forgets the ids", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		k.decide(k.withID(subject, "x", l))
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{l}})
		if d := k.decide(k.withID(subject, "x", l)); d.Repeat {
			k.Error("an id from before the reset is a repeat")
		}
	}},
	{name: "an id lives for the shortest window, or as it says", exact: true, clock: true, test: func(k *tester) {
		for _, c := range []struct {
			request stint.Request
			life    int64
		}{
			{k.withID(k.subject(), "x", stint.PerMinute(10), stint.PerSecond(10)), 1_000_000},
			{stint.Request{Claim: k.request(k.subject(), 1, stint.PerMinute(10)).Claim, ID: "x", IDLife: 5 * s},
				5_000_000},
		} {
			k.Clock.Advance(micros(16 - k.Clock.micros()%16))
			k.decide(c.request)
			k.Clock.Advance(micros(c.life - 1))
			if d := k.decide(c.request); !d.Repeat {
				k.Errorf("forgotten before its life of %d µs ended", c.life)
			}
			k.Clock.Advance(us)
			if d := k.decide(c.request); d.Repeat {
				k.Errorf("remembered after its life of %d µs", c.life)
			}
		}
	}},
	{name: "a repeat of a booking waits for the same place", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		k.Clock.Advance(micros(16 - k.Clock.micros()%16))
		k.mustTake(subject, 1, l)
		r := k.withID(subject, "x", l)
		r.Mode = stint.ModeReserve
		k.wantRetry(k.decide(r), s)
		k.Clock.Advance(100 * ms)
		again := k.decide(r)
		k.wantAllowed(again, true)
		k.wantRetry(again, 900*ms)
		k.wantUsed(again, 2)
		d := k.decide(k.withID(subject, "x", l)) // a take cannot have it yet
		k.wantAllowed(d, false)
		k.wantRetry(d, 900*ms)
	}},
	{name: "ids are remembered up to a bound, the oldest goes", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerHour(1_000_000), k.subject()
		for i := range driver.MaxIDs + 1 {
			k.decide(k.withID(subject, fmt.Sprint(i), l))
			k.Clock.Advance(moment)
		}
		if d := k.decide(k.withID(subject, "1", l)); !d.Repeat {
			k.Error("the second id was forgotten")
		}
		if d := k.decide(k.withID(subject, "0", l)); d.Repeat {
			k.Error("the first id of too many was remembered")
		}
	}},
}
