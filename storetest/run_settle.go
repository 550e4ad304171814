package storetest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// windowed is a limit of 10 of every algorithm that counts over time.
func windowed() []stint.Limit { return eachAlgorithm(10)[:5] }

var settlements = []check{
	{name: "a charge from elsewhere is not settled", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(1000), k.subject()
		d := k.mustTake(subject, 5, l)
		fallback, leased := d, d
		fallback.Charge.Fallback, leased.Charge.Leased = true, true
		for _, strange := range []stint.Decision{fallback, leased} {
			// else a store of that kind
			if strange.Charge.Fallback != d.Charge.Fallback || strange.Charge.Leased != d.Charge.Leased {
				k.wantApplied(k.settle(strange, 0), false)
			}
		}
		k.wantApplied(k.settle(d, 0), true)
	}},
	{name: "a refund gives back once", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			subject := k.subject()
			k.mustTake(subject, 3, l)
			d := k.mustTake(subject, 4, l)
			k.wantApplied(k.settle(d, 0), true)
			k.wantUsed(k.peek(subject, 1, l), 3)
			k.wantApplied(k.settle(d, 0), false)
			k.wantApplied(k.settle(d, 9), false)
			k.wantUsed(k.peek(subject, 1, l), 3)
		}
	}},
	{name: "settling down frees the difference", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			subject := k.subject()
			d := k.mustTake(subject, 10, l)
			k.wantApplied(k.settle(d, 4), true)
			k.wantUsed(k.mustTake(subject, 6, l), 10)
		}
	}},
	{name: "settling up may leave a debt, of one capacity at most", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			subject := k.subject()
			d := k.mustTake(subject, 5, l)
			k.wantApplied(k.settle(d, 18), true)
			d = k.take(subject, 1, l)
			k.wantAllowed(d, false)
			k.wantUsed(d, 18)
			if d.Remaining() != 0 {
				k.Errorf("%s: remaining is %d in debt, want 0", l, d.Remaining())
			}
			k.wantAllowed(k.take(subject, 0, l), false)
			subject = k.subject()
			k.wantApplied(k.settle(k.mustTake(subject, 5, l), stint.MaxUnits), true)
			k.wantUsed(k.peek(subject, 1, l), 20)
		}
	}},
	{name: "a settlement may say how much of a debt it makes", exact: true, test: func(k *tester) {
		for _, l := range windowed() {
			for _, x := range []struct{ cost, maxDebt, want int64 }{
				{9, 1, 9}, {10, 1, 10}, {11, 1, 11}, {100, 1, 11}, {100, 5, 15}, {100, 10, 20}, {100, 25, 35},
				{100, 1000, 100}, {100, 0, 20},
			} {
				subject := k.subject()
				d := k.mustTake(subject, 5, l)
				k.wantApplied(k.amend(d, stint.Amendment{Cost: x.cost, MaxDebt: x.maxDebt}), true)
				k.wantUsed(k.peek(subject, 1, l), x.want)
			}
			subject := k.subject() // in debt already: each settlement may add its own
			a, b := k.mustTake(subject, 5, l), k.mustTake(subject, 5, l)
			k.wantApplied(k.amend(a, stint.Amendment{Cost: 100, MaxDebt: 3}), true)
			k.wantApplied(k.amend(b, stint.Amendment{Cost: 100, MaxDebt: 2}), true)
			k.wantUsed(k.peek(subject, 1, l), 15)
		}
	}},
	{name: "of several limits each has a debt of its own", exact: true, test: func(k *tester) {
		hour, day, subject := stint.PerHour(10), stint.PerDay(100), k.subject()
		d := k.mustTake(subject, 5, hour, day)
		k.wantApplied(k.settle(d, 150), true)
		k.wantUsed(k.peek(subject, 1, hour, day), 20, 150)
	}},
	{name: "a charge is settled only while it counts", exact: true, clock: true, test: func(k *tester) {
		for _, l := range []stint.Limit{stint.PerSecond(10), stint.TokenBucket(10, 10, s),
			{Max: 10, Window: s, Algorithm: stint.AlgorithmFixed}} {
			subject := k.subject()
			k.Clock.Advance(k.Clock.Now().Truncate(s).Add(s).Sub(k.Clock.Now()))
			early, late := k.mustTake(subject, 5, l), k.mustTake(subject, 5, l)
			k.Clock.Advance(500*ms - us)
			k.wantApplied(k.settle(early, 0), true)
			k.Clock.Advance(500*ms + us)
			k.wantApplied(k.settle(late, 0), false)
			k.wantApplied(k.settle(late, 10), false)
			k.wantUsed(k.peek(subject, 1, l), 0)
		}
	}},
	{name: "a bucket gives back no more than has not been refilled", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.TokenBucket(10, 10, s), k.subject()
		d := k.mustTake(subject, 6, l)
		k.mustTake(subject, 4, l)
		k.Clock.Advance(200 * ms)
		k.wantUsed(k.peek(subject, 1, l), 8)
		k.wantApplied(k.settle(d, 0), true) // two of the six came back by themselves
		k.wantUsed(k.peek(subject, 1, l), 4)
	}},
	{name: "a refund takes nothing from others", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(2), k.subject()
		first := k.mustTake(subject, 1, l)
		k.Clock.Advance(600 * ms)
		k.mustTake(subject, 1, l)
		k.wantApplied(k.settle(first, 0), true)
		k.Clock.Advance(400 * ms)
		k.wantAllowed(k.take(subject, 1, l), true)
		k.wantRetry(k.take(subject, 1, l), 600*ms)
	}},
	{name: "each limit is settled in its own window", exact: true, clock: true, test: func(k *tester) {
		short, long, subject := stint.PerSecond(10), stint.PerMinute(10), k.subject()
		d := k.mustTake(subject, 5, short, long)
		k.Clock.Advance(2 * s)
		k.mustTake(subject, 1, short, long)
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(k.peek(subject, 1, short, long), 1, 1)
	}},
	{name: "sums past 2^53 are refused", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		all := stint.Amendment{Cost: stint.MaxUnits, MaxDebt: stint.MaxUnits}
		a, b := k.mustTake(subject, 1, l), k.mustTake(subject, 1, l)
		k.wantApplied(k.amend(a, all), false)
		k.wantApplied(k.amend(a, stint.Amendment{Cost: stint.MaxUnits - 1, MaxDebt: stint.MaxUnits}), true)
		k.wantUsed(k.peek(subject, 1, l), stint.MaxUnits)
		k.wantApplied(k.amend(b, stint.Amendment{Cost: 2, MaxDebt: 1}), false)
		for _, l := range []stint.Limit{stint.TokenBucket(10, 10, time.Hour), stint.Per(10, time.Minute).WithBurst(2)} {
			d := k.mustTake(subject, 1, l)
			k.wantApplied(k.amend(d, all), false)
			k.wantUsed(k.peek(subject, 1, l), 1)
		}
	}},
	{name: "the last thousand settlements are remembered", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerHour(1_000_000), k.subject()
		var taken []stint.Decision
		for range driver.MaxSettled + 2 {
			taken = append(taken, k.mustTake(subject, 2, l))
			k.Clock.Advance(us)
		}
		for _, d := range taken[1:] {
			k.wantApplied(k.settle(d, 1), true)
		}
		k.wantApplied(k.settle(taken[0], 1), true) // the first time, however late
		for _, d := range taken[2:] {
			k.wantApplied(k.settle(d, 1), false)
		}
		k.wantUsed(k.peek(subject, 1, l), driver.MaxSettled+2)
	}},
	{name: "a storm of refunds gives everything back", exact: true, test: func(k *tester) {
		l := stint.PerHour(100_000)
		for name, order := range map[string]func(list []stint.Decision){
			"oldest first": func([]stint.Decision) {},
			"newest first": func(list []stint.Decision) { slices.Reverse(list) },
			"random": func(list []stint.Decision) {
				rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			},
		} {
			subject := k.subject()
			var taken []stint.Decision
			for range 5000 {
				taken = append(taken, k.mustTake(subject, 1, l))
			}
			order(taken)
			for i, d := range taken {
				if !k.settle(d, 0) {
					k.Fatalf("%s: refund %d did not apply", name, i)
				}
			}
			k.wantUsed(k.peek(subject, 1, l), 0)
		}
	}},
	{name: "what was repeated is not refunded", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		r := k.withID(subject, "x", l)
		r.IDLife = time.Minute
		first := k.decide(r)
		k.pass(moment)
		look := r
		look.Mode = stint.ModePeek
		k.decide(look) // a look is no repeat
		if d := k.decide(r); !d.Repeat {
			k.Fatalf("again: %s, want a repeat", answer(d))
		}
		k.wantApplied(k.settle(first, 0), false)
		if d := k.decide(r); !d.Repeat {
			k.Errorf("after the refund: %s, want a repeat", answer(d))
		}
		k.wantUsed(k.peek(subject, 1, l), 1)
		k.pass(time.Minute) // nobody can repeat it any more
		k.wantApplied(k.settle(first, 0), true)
		k.wantUsed(k.peek(subject, 1, l), 0)
	}},
	{name: "what was repeated is settled to another cost", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		first := k.decide(k.withID(subject, "x", l))
		k.pass(moment)
		k.decide(k.withID(subject, "x", l))
		k.wantApplied(k.settle(first, 4), true)
		k.wantUsed(k.peek(subject, 1, l), 4)
	}},
	{name: "a refund from before a reset takes nothing from others", exact: true, clock: true, test: func(k *tester) {
		for _, l := range append(windowed(), stint.PerHour(1000)) {
			other, subject := stint.Per(10, 2*time.Hour), k.subject()
			d := k.mustTake(subject, 5, l, other)
			k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{l}})
			k.mustTake(subject, 3, l, other) // at the same stamp
			k.wantApplied(k.settle(d, 0), false)
			k.wantUsed(k.peek(subject, 1, l, other), 3, 8)
		}
	}},
	{name: "a reset leaves the charges of other states", exact: true, test: func(k *tester) {
		a, b, subject := stint.PerHour(10), stint.PerHour(10).WithName("b"), k.subject()
		d := k.mustTake(subject, 5, a, b)
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{a}})
		k.mustTake(subject, 3, a, b)
		k.wantApplied(k.settle(d, 1), true)
		k.wantUsed(k.peek(subject, 1, a, b), 3, 4)
	}},
	{name: "a reset of a limit that was not charged ends its state's charges", exact: true, test: func(k *tester) {
		hour, day, subject := stint.PerHour(10), stint.PerDay(10), k.subject()
		d := k.mustTake(subject, 5, hour)
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{day}})
		k.wantUsed(k.peek(subject, 1, hour), 5)
		k.wantApplied(k.settle(d, 0), false)
	}},
	{name: "a refund of a burst gives its meter back too", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerMinute(10).WithBurst(2), k.subject()
		d := k.mustTake(subject, 20, l)
		k.wantApplied(k.settle(d, 5), true)
		k.wantUsed(k.mustTake(subject, 15, l), 20)
		k.wantAllowed(k.take(subject, 1, l), false)
		k.Clock.Advance(time.Minute)
		k.wantUsed(k.mustTake(subject, 10, l), 20)
		k.wantRetry(k.take(subject, 1, l), 6*s)
	}},
	{name: "a part is settled and the rest of its subject stays", exact: true, test: func(k *tester) {
		for _, budget := range windowed() {
			budget.Name = "budget"
			requests, subject := stint.PerHour(100), k.subject()
			r := k.request(subject, 1, requests)
			r.And = []stint.Claim{k.request(subject, 5, budget).Claim}
			d := k.decide(r)
			k.wantUsed(d, 1, 5)
			d.Charge = d.Charge.Part(1)
			k.wantApplied(k.settle(d, 3), true)
			k.wantUsed(k.peek(subject, 1, requests, budget), 1, 3)
			k.wantApplied(k.settle(d, 9), false)
			k.wantApplied(k.settle(d, 0), false)
			k.wantUsed(k.peek(subject, 1, requests, budget), 1, 3)
		}
	}},
	{name: "a part of several subjects is settled, then the rest", exact: true, test: func(k *tester) {
		a, b, c, l := k.subject(), k.subject(), k.subject(), stint.PerHour(10)
		want := func(ofA, ofB, ofC int64) {
			k.Helper()
			k.wantUsed(k.peek(a, 1, l), ofA)
			k.wantUsed(k.peek(b, 1, l), ofB)
			k.wantUsed(k.peek(c, 1, l), ofC)
		}
		r := k.request(a, 2, l)
		r.And = []stint.Claim{k.request(b, 3, l).Claim, k.request(c, 4, l).Claim}
		whole := k.decide(r)
		k.wantUsed(whole, 2, 3, 4)
		part := whole
		part.Charge = whole.Charge.Part(2)
		k.wantApplied(k.settle(part, 1), true)
		want(2, 3, 1)
		k.wantApplied(k.settle(part, 0), false)
		want(2, 3, 1)
		part.Charge = whole.Charge.Part(2, 1)
		k.wantApplied(k.settle(part, 7), true) // what was settled is not again
		want(2, 7, 1)
		k.wantApplied(k.settle(whole, 0), true)
		want(0, 7, 1)
		k.wantApplied(k.settle(whole, 0), false)
	}},
	{name: "a request ID goes with the first part", exact: true, test: func(k *tester) {
		a, b, l := k.subject(), k.subject(), stint.PerHour(10)
		r := k.request(a, 1, l)
		r.And, r.ID = []stint.Claim{k.request(b, 1, l).Claim}, "x"
		whole := k.decide(r)
		part := whole
		part.Charge = whole.Charge.Part(1)
		k.wantApplied(k.settle(part, 0), true)
		k.pass(moment)
		look := r
		look.Mode = stint.ModePeek // a refund of what was repeated is refused
		if d := k.decide(look); !d.Repeat {
			k.Errorf("after the second part is given back: %s, want a repeat", answer(d))
		}
		part.Charge = whole.Charge.Part(0)
		k.wantApplied(k.settle(part, 0), true)
		if d := k.decide(r); d.Repeat {
			k.Errorf("after the first part is given back: %s, want no repeat", answer(d))
		}
	}},
	{name: "a place is released by its own part", exact: true, test: func(k *tester) {
		subject, hold, l := k.subject(), stint.AtOnce(5, time.Hour), stint.PerHour(10)
		r := k.request(subject, 1, l)
		r.And = []stint.Claim{k.request(subject, 1, hold).Claim}
		whole := k.decide(r)
		for _, c := range []struct {
			claim int
			want  bool
		}{{0, false}, {1, true}, {1, false}} {
			part := whole
			part.Charge = whole.Charge.Part(c.claim)
			k.wantApplied(k.amend(part, stint.Amendment{Kind: stint.AmendRelease}), c.want)
		}
		k.wantUsed(k.peek(subject, 1, l, hold), 1, 0)
	}},
	{name: "settling never admits more than was given back", test: func(k *tester) {
		for _, l := range windowed() {
			subject, admitted := k.subject(), int64(0)
			var taken []stint.Decision
			for range 40 {
				if d := k.take(subject, 1, l); d.Allowed {
					admitted++
					taken = append(taken, d)
				}
				if len(taken) == 5 {
					for _, d := range taken {
						if k.settle(d, 0) {
							admitted--
						}
						k.settle(d, 0)
					}
				}
			}
			if admitted > 10 {
				k.Errorf("%s: %d admitted and kept, want at most 10", l, admitted)
			}
		}
	}},
}
