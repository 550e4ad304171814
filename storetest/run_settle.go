package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// part returns d with its charge reduced to the given claims.
func part(d stint.Decision, claims ...int) stint.Decision {
	d.Charge = d.Charge.Part(claims...)
	return d
}

var settlements = []check{
	exact("a settlement by name leaves the claims without that name open", nil, func(k *tester) {
		limit := stint.PerHour(100)
		r := and(k.under(limit).request(1), k.other(limit.WithName("x")).request(4))
		d := k.mustDecide(r)
		k.wantApplied(k.amend(d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"": 2}}), true)
		k.wantApplied(k.settle(d, 30), true)
		k.wantUsed(k.look(r), 2, 30)
		k.wantApplied(k.settle(d, 0), false)
	}),
	everyStore("an amendment that is not valid is refused", limits{stint.PerHour(1000)}, func(k *tester) {
		d := k.mustTake(5)
		for name, a := range map[string]stint.Amendment{
			"the zero amendment":     {},
			"no kind":                {KnownOnly: true},
			"an unknown kind":        {Kind: stint.AmendRelease + 1},
			"a negative cost":        settleTo(-1),
			"a negative named cost":  {Kind: stint.AmendSettle, Costs: stint.Costs{"": -1}},
			"known only of a refund": {Kind: stint.AmendSettle, KnownOnly: true},
		} {
			done, err := k.Store.Amend(k.Context(), d.Charge, a)
			k.wantInvalid(name, err)
			k.wantApplied(done.Changed, false)
		}
		k.wantApplied(k.settle(d, 0), true)
	}),
	exact("a charge that no store made changes nothing", limits{stint.PerHour(1), stint.TokenBucket(1, 1, time.Hour)},
		func(k *tester) {
			mine := k.request(1).Claims
			for _, charge := range []stint.Charge{
				{},
				driver.NewCharge(nil, driver.ChargeData{ID: 1}),
				driver.NewCharge(make([]stint.Claim, 100), driver.ChargeData{ID: 1, At: 1}),
				driver.NewCharge(slices.Repeat(mine, 300), driver.ChargeData{ID: 1, At: 1}),
				driver.NewCharge(k.under(stint.Limit{Max: -1}).request(-1).Claims, driver.ChargeData{ID: 1, At: 1}),
				driver.NewCharge(mine, driver.ChargeData{ID: 1, At: -1}),
				driver.NewCharge(mine, driver.ChargeData{ID: 1, At: 1 << 62}),
				driver.NewCharge(mine, driver.ChargeData{ID: 1, At: 1, Others: &driver.OtherStates{At: []int64{1}}}),
			} {
				for kind := range stint.AmendRelease + 2 {
					done, err := k.Store.Amend(k.Context(), charge, stint.Amendment{Kind: kind})
					k.wantInvalid(fmt.Sprintf("%+v", charge), err)
					k.wantApplied(done.Changed, false)
				}
			}
			unknown := stint.Decision{Charge: driver.NewCharge(mine, driver.ChargeData{ID: 1, At: 1})}
			for _, a := range []stint.Amendment{settleTo(0), settleTo(5), extend, release} {
				k.wantApplied(k.amend(unknown, a), false)
			}
			k.wantUsed(k.peek(1), 0)
		}),
	exact("a settlement of no names changes nothing", limits{stint.PerHour(1000)}, func(k *tester) {
		d := k.mustTake(5)
		k.wantApplied(k.amend(d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{}}), false)
		k.wantUsed(k.peek(1), 5)
		k.wantApplied(k.settle(d, 0), true)
	}),
	exact("a charge from elsewhere is not settled", limits{stint.PerHour(1000)}, func(k *tester) {
		d := k.mustTake(5)
		fallback, leased := d, d
		fallback.Charge.Data().Fallback, leased.Charge.Data().Leased = true, 1
		for _, strange := range []stint.Decision{fallback, leased} {
			// If the charge of d itself is a fallback or leased charge, the store may settle it.
			if strange.Charge.Data().Fallback != d.Charge.Data().Fallback ||
				strange.Charge.Data().Leased != d.Charge.Data().Leased {
				k.wantApplied(k.settle(strange, 0), false)
			}
		}
		k.wantApplied(k.settle(d, 0), true)
	}),
	exact("a refund gives back once", windowed(), func(k *tester) {
		k.mustTake(3)
		d := k.mustTake(4)
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(k.peek(1), 3)
		k.wantApplied(k.settle(d, 0), false)
		k.wantApplied(k.settle(d, 9), false)
		k.wantUsed(k.peek(1), 3)
	}),
	exact("settling up may leave a debt", windowed(), func(k *tester) {
		d := k.mustTake(5)
		k.wantSettled(d, settleTo(18), 18)
		d = k.mustDeny(1)
		k.wantUsed(d, 18)
		if d.Remaining() != 0 {
			k.Errorf("%s: remaining is %d in debt, want 0", k.limit(), d.Remaining())
		}
		k.mustDeny(0)
	}),
	exact("a window takes a debt of any size", limits{stint.PerHour(10), stint.PerHour(1000), fixed(10, time.Hour)},
		func(k *tester) {
			for _, maxDebt := range []int64{0, 1, 1000} {
				k := k.other()
				k.mustTake(3)
				k.wantSettled(k.mustTake(5), stint.Amendment{Kind: stint.AmendSettle, Cost: 5000, MaxDebt: maxDebt}, 5000)
				k.wantUsed(k.peek(1), 5003)
			}
		}),
	exact("a meter takes a debt of one capacity, or of the settlement's MaxDebt", limits{
		stint.TokenBucket(10, 1, time.Hour), stint.PerHour(5).BurstTimes(2)}, func(k *tester) {
		for _, x := range []struct{ cost, maxDebt, want int64 }{
			{9, 1, 9}, {10, 1, 10}, {11, 1, 11}, {100, 1, 11}, {100, 5, 15}, {100, 10, 20}, {100, 25, 35},
			{100, 1000, 100}, {100, 0, 20}, {stint.MaxUnits, 0, 20},
		} {
			k := k.other()
			d := k.mustTake(5)
			k.wantSettled(d, stint.Amendment{Kind: stint.AmendSettle, Cost: x.cost, MaxDebt: x.maxDebt}, x.want)
			k.wantUsed(k.peek(1), x.want)
		}
		k = k.other() // already in debt: each settlement may add its own debt
		a, b := k.mustTake(5), k.mustTake(5)
		k.wantSettled(a, stint.Amendment{Kind: stint.AmendSettle, Cost: 100, MaxDebt: 3}, 8)
		k.wantSettled(b, stint.Amendment{Kind: stint.AmendSettle, Cost: 100, MaxDebt: 2}, 7)
		k.wantUsed(k.peek(1), 15)
	}),
	exact("the reported charge is the lowest of all claims", limits{stint.PerHour(10)}, func(k *tester) {
		d := k.decide(and(k.request(1), k.other(stint.TokenBucket(10, 1, time.Hour)).request(2)))
		k.wantSettled(d, settleTo(50), 20)
		k.wantUsed(k.peek(1), 50)
		if got := k.amended(d, settleTo(50)); got != (stint.Amended{}) {
			k.Errorf("settled again: %+v", got)
		}
	}),
	clocked("a refund of the last unit of one log leaves that of another limit as it is", nil, func(k *tester) {
		long := stint.Per(100, 10*s)
		for range 60 {
			k.mustDecide(k.under(long).request(1))
			k.pass(10 * ms)
		}
		k = k.under(stint.PerSecond(100), long)
		for range 30 {
			k.mustTake(1)
			k.pass(10 * ms)
		}
		k.pass(300 * ms)
		last := k.mustTake(1)
		k.pass(750 * ms) // all but the last have left the first window
		k.wantApplied(k.settle(last, 0), true)
		k.pass(8055 * ms)                // the first charge has just left the second window
		for n := int64(1); n < 60; n++ { // one charge leaves, and another is made
			k.wantUsed(k.mustTake(1), n, 90)
			k.pass(10 * ms)
		}
	}),
	exact("no sum passes 2^53", nil, func(k *tester) {
		l := stint.PerHour(10)
		all := stint.Amendment{Kind: stint.AmendSettle, Cost: stint.MaxUnits, MaxDebt: stint.MaxUnits}
		under := k.under(l)
		a, b := under.mustTake(1), under.mustTake(1)
		under.wantSettled(a, all, stint.MaxUnits-1)
		k.wantUsed(under.peek(1), stint.MaxUnits)
		under.wantSettled(b, stint.Amendment{Kind: stint.AmendSettle, Cost: 2, MaxDebt: 1}, 1)
		k.wantUsed(under.peek(1), stint.MaxUnits)
		for _, l := range []stint.Limit{stint.TokenBucket(10, 10, time.Hour), stint.Per(10, time.Minute).BurstTimes(2)} {
			under := k.under(l)
			unit, _, _ := l.Meter()
			under.wantSettled(under.mustTake(1), all, stint.MaxUnits/unit)
		}
	}),
	clocked("the last thousand settlements are remembered", limits{stint.PerHour(1_000_000)}, func(k *tester) {
		var taken []stint.Decision
		for range driver.MaxSettled + 2 {
			taken = append(taken, k.mustTake(2))
			k.Clock.Advance(us)
		}
		for _, d := range taken[1:] {
			k.wantApplied(k.settle(d, 1), true)
		}
		k.wantApplied(k.settle(taken[0], 1), true) // the first settlement applies, however late
		for _, d := range taken[2:] {
			k.wantApplied(k.settle(d, 1), false)
		}
		k.wantUsed(k.peek(1), driver.MaxSettled+2)
	}),
	exact("a storm of refunds gives everything back", limits{stint.PerHour(100_000)}, func(k *tester) {
		for name, order := range map[string]func(list []stint.Decision){
			"oldest first": func([]stint.Decision) {},
			"newest first": func(list []stint.Decision) { slices.Reverse(list) },
			"random": func(list []stint.Decision) {
				rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			},
		} {
			k := k.other()
			var taken []stint.Decision
			for range driver.MaxSettled + 100 {
				taken = append(taken, k.mustTake(1))
			}
			order(taken)
			for i, d := range taken {
				if !k.settle(d, 0) {
					k.Fatalf("%s: refund %d did not apply", name, i)
				}
			}
			k.wantUsed(k.peek(1), 0)
		}
	}),
	clocked("a repeated request is not refunded", limits{stint.PerHour(10)}, func(k *tester) {
		r := k.withID("x")
		r.IDLife = time.Minute
		first := k.decide(r)
		k.pass(moment)
		k.look(r) // a peek is not a repeat
		k.wantRepeat(k.decide(r), true)
		k.wantApplied(k.settle(first, 0), false)
		k.wantRepeat(k.decide(r), true)
		k.wantUsed(k.peek(1), 1)
		k.pass(time.Minute) // the request can no longer be repeated
		k.wantApplied(k.settle(first, 0), true)
		k.wantUsed(k.peek(1), 0)
	}),
	clocked("a refund from before a reset takes nothing from others",
		append(windowed(), stint.PerHour(1000)), func(k *tester) {
			both := k.with(stint.Per(10, 2*time.Hour))
			d := both.mustTake(5)
			k.reset()
			both.mustTake(3) // at the same instant as the charge before the reset
			k.wantApplied(k.settle(d, 0), false)
			k.wantUsed(both.peek(1), 3, 8)
		}),
	exact("a part is settled and the rest of its subject stays", windowed(), func(k *tester) {
		requests, budget := k.under(stint.PerHour(100)), k.under(k.limit().WithName("budget"))
		d := k.decide(and(requests.request(1), budget.request(5)))
		k.wantUsed(d, 1, 5)
		d = part(d, 1)
		k.wantApplied(k.settle(d, 3), true)
		k.wantUsed(requests.with(budget.limits...).peek(1), 1, 3)
		k.wantApplied(k.settle(d, 9), false)
		k.wantApplied(k.settle(d, 0), false)
		k.wantUsed(requests.with(budget.limits...).peek(1), 1, 3)
	}),
	exact("a part of several subjects is settled, then the rest", limits{stint.PerHour(10)}, func(k *tester) {
		r := and(k.request(2), k.other().request(3), k.other().request(4))
		want := func(used ...int64) {
			k.Helper()
			k.wantUsed(k.look(r), used...)
		}
		whole := k.decide(r)
		k.wantUsed(whole, 2, 3, 4)
		k.wantApplied(k.settle(part(whole, 2), 1), true)
		want(2, 3, 1)
		k.wantApplied(k.settle(part(whole, 2), 0), false)
		want(2, 3, 1)
		k.wantApplied(k.settle(part(whole, 2, 1), 7), true) // a settled claim is not settled again
		want(2, 7, 1)
		k.wantApplied(k.settle(whole, 0), true)
		want(0, 7, 1)
		k.wantApplied(k.settle(whole, 0), false)
	}),
	exact("a request ID goes with the first part", limits{stint.PerHour(10)}, func(k *tester) {
		r := and(k.withID("x"), k.other().request(1))
		whole := k.decide(r)
		k.wantApplied(k.settle(part(whole, 1), 0), true)
		k.pass(moment)
		k.wantRepeat(k.look(r), true) // a repeat that is not a peek would prevent the refund
		k.wantApplied(k.settle(part(whole, 0), 0), true)
		k.wantRepeat(k.decide(r), false)
	}),
	everyStore("settling never admits more than was given back", windowed(), func(k *tester) {
		admitted := int64(0)
		var taken []stint.Decision
		for range 40 {
			if d := k.take(1); d.Allowed {
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
			k.Errorf("%s: %d admitted and kept, want at most 10", k.limit(), admitted)
		}
	}),
}
