package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// holdLife is the life of holds in these tests. They expire up to holdSlice later.
const (
	holdLife  = time.Minute
	holdSlice = holdLife/64 + time.Microsecond
)

func stock(max int64) stint.Limit { return stint.Per(max, time.Hour) }
func rate(max int64) stint.Limit  { return stint.Per(max, holdLife/2) }

var holds = []check{
	exact("a stock is held until it is settled", limits{stock(100), stint.Daily(100), fixed(100, 100*24*time.Hour)},
		func(k *tester) {
			d := k.hold(60)
			k.wantUsed(d, 60)
			denied := k.mustDeny(50)
			if denied.RetryAfter <= holdLife-time.Second || denied.RetryAfter > holdLife+holdSlice {
				k.Errorf("retry-after is %v, want the end of the hold", denied.RetryAfter)
			}
			k.wantHeld(60)
			k.wantSettled(d, settleTo(10), 10)
			k.wantUsed(k.mustTake(90), 100)
			k.wantHeld(0)
		}),
	clocked("settled and reported units count for a window",
		limits{stock(100), stint.Daily(100), fixed(100, 100*24*time.Hour)}, func(k *tester) {
			d := k.hold(60)
			k.wantSettled(d, settleTo(40), 40)
			k.pass(20 * holdLife)
			k.wantUsed(k.peek(1), 40)
			other := k.other()
			d = other.hold(60)
			k.wantApplied(k.amend(d, report(30)), true)
			k.pass(20 * holdLife)
			other.wantUsed(other.peek(1), 30)
		}),
	clocked("a rate is charged only the excess after its window", limits{rate(100), rate(100).BurstTimes(3),
		stint.TokenBucket(100, 100, holdLife/2), fixed(100, holdLife/4)}, func(k *tester) {
		less, more := k.hold(30), k.hold(40)
		k.pass(holdLife - time.Second)
		k.wantUsed(k.peek(1), 0)
		k.wantSettled(less, settleTo(10), 10)
		k.wantUsed(k.peek(1), 0)
		k.wantSettled(more, settleTo(65), 65)
		k.wantUsed(k.peek(1), 25)
	}),
	exact("units held under one limit do not count under another", limits{stock(100)}, func(k *tester) {
		k.hold(60)
		other := k.under(stint.Daily(100))
		for used := int64(1); used < 4; used++ {
			k.wantUsed(other.mustTake(1), used)
		}
	}),
	exact("a hold is settled once, and frees nothing else", limits{stock(100)}, func(k *tester) {
		first, second := k.hold(50), k.hold(50)
		k.wantSettled(first, settleTo(0), 0)
		for range 3 {
			k.wantApplied(k.settle(first, 0), false)
			k.wantApplied(k.settle(first, 90), false)
		}
		k.wantUsed(k.peek(1), 50)
		k.wantHeld(50)
		k.wantSettled(second, settleTo(50), 50)
		k.wantApplied(k.settle(second, 0), false)
		k.wantUsed(k.peek(1), 50)
	}),
	clocked("a hold that expires is given back", limits{stock(100)}, func(k *tester) {
		k.hold(60)
		k.pass(holdLife - time.Microsecond)
		k.wantUsed(k.peek(1), 60)
		k.pass(holdSlice)
		k.wantUsed(k.peek(1), 0)
	}),
	clocked("a hold that expires is charged if the limit requires it", limits{chargeExpired(stint.Per(100, 3*holdLife))}, func(k *tester) {
		late, lost := k.hold(30), k.hold(30)
		k.pass(holdLife + holdSlice)
		k.wantUsed(k.peek(1), 60)
		k.wantHeld(0)
		k.wantSettled(late, settleTo(10), 10)
		k.wantUsed(k.peek(1), 40)
		k.pass(holdLife)
		k.wantApplied(k.settle(lost, 10), false)
		k.pass(2*holdLife + 2*time.Second)
		k.wantUsed(k.peek(1), 0)
	}),
	clocked("an expired hold can be settled for one more life", limits{stock(100)}, func(k *tester) {
		soon, late := k.hold(20), k.hold(30)
		k.pass(2*holdLife - time.Microsecond)
		k.wantUsed(k.peek(1), 0)
		k.wantSettled(soon, settleTo(25), 25)
		k.wantApplied(k.settle(soon, 25), false)
		k.pass(holdSlice)
		k.wantApplied(k.settle(late, 30), false)
		k.wantUsed(k.peek(1), 25)
	}),
	clocked("heartbeats keep a hold", limits{stock(100)}, func(k *tester) {
		d := k.hold(60)
		for range 5 {
			k.pass(holdLife * 9 / 10)
			k.wantApplied(k.amend(d, extend), true)
			k.wantUsed(k.peek(1), 60)
		}
		k.wantSettled(d, settleTo(7), 7)
		k.wantUsed(k.peek(1), 7)
		k.wantApplied(k.amend(d, extend), false)
		k.wantUsed(k.peek(1), 7)
	}),
	clocked("usage that heartbeats report is charged, and stays", limits{stock(100)}, func(k *tester) {
		d := k.hold(60)
		for range 2 {
			k.wantApplied(k.amend(d, report(20)), true)
			k.wantUsed(k.peek(1), 60)
			k.wantHeld(40)
		}
		k.wantApplied(k.amend(d, report(70)), true)
		k.wantUsed(k.peek(1), 70)
		k.wantHeld(0)
		k.wantApplied(k.amend(d, report(30)), true) // an older report that arrives late
		k.wantUsed(k.peek(1), 70)
		k.pass(holdLife + holdSlice)
		k.wantUsed(k.peek(1), 70)
		k.wantApplied(k.amend(d, report(75)), false) // the hold has expired
		k.wantUsed(k.peek(1), 75)
		k.pass(holdLife)
		k.wantSettled(d, settleTo(80), 80)
		k.wantUsed(k.peek(1), 80)
	}),
	clocked("hold-through", limits{holdThrough(rate(100))}, func(k *tester) {
		d := k.hold(60)
		k.pass(holdLife - time.Second)
		k.wantUsed(k.peek(1), 60)
		k.wantSettled(d, settleTo(50), 50)
		k.wantUsed(k.peek(1), 50)
	}),
	clocked("a clock that steps back keeps holds", limits{stock(100)}, func(k *tester) {
		d := k.hold(60)
		k.pass(-10 * time.Second)
		k.wantUsed(k.peek(1), 60)
		k.mustTake(10)
		k.wantSettled(d, settleTo(20), 20)
		k.wantUsed(k.peek(1), 30)
		k.wantHeld(0)
		k.hold(60)
		k.pass(-100 * 24 * time.Hour)
		k.mustTake(1)
		k.wantHeld(60)
		k.pass(25*time.Hour + time.Second)
		k.wantHeld(0)
	}),
	exact("units that were used elsewhere are held", limits{stock(100)}, func(k *tester) {
		k.mustTake(90)
		r := k.lateRequest(60, 10*time.Second, 0)
		r.Hold = holdLife
		d := k.mustDecide(r)
		k.wantUsed(d, 150)
		k.wantHeld(60)
		k.wantSettled(d, settleTo(5), 5)
		k.wantUsed(k.peek(1), 95)
		r.Terms().Age = 3 * holdLife // the hold has ended
		d = k.mustDecide(r)
		k.wantUsed(d, 95)
		k.wantApplied(k.settle(d, 5), false)
	}),
	exact("one cost per name", limits{stock(100)}, func(k *tester) { severalCosts(k, 0) }),
	exact("one cost per name, held", limits{stock(100)}, func(k *tester) { severalCosts(k, holdLife) }),
	exact("quantities are settled separately", limits{stock(100)}, func(k *tester) {
		d := k.mustDecide(k.quantities(holdLife, 10, 50))
		k.wantUsed(d, 1, 10, 50)
		k.wantSettled(d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"out": 20}}, 20)
		k.wantUsed(k.mustDecide(k.quantities(0, 0, 0)), 2, 10, 20)
		k.wantApplied(k.amend(d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"out": 0}}), false)
		k.wantSettled(d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"in": 12, "out": 99}}, 12)
		k.wantApplied(k.amend(d, extend), false)
		k.wantUsed(k.mustDecide(k.quantities(0, 0, 0)), 3, 12, 20)
		k.wantSettled(d, settleTo(0), 0) // settles the limit without a name, which counts requests
		k.wantUsed(k.mustDecide(k.quantities(0, 0, 0)), 3, 12, 20)
	}),
	exact("names of several claims", limits{stock(100)}, func(k *tester) { severalClaims(k, 0) }),
	exact("names of several claims, held", limits{stock(100)}, func(k *tester) { severalClaims(k, holdLife) }),
	clocked("too many holds", limits{stock(1 << 40)}, func(k *tester) {
		first := k.hold(1)
		r := k.request(1)
		r.Hold = holdLife
		if s, ok := k.Store.(driver.BatchStore); ok { // batches are faster
			for left := driver.MaxHolds - 1; left > 0; left -= 100 {
				batch := make([]*driver.Call, min(left, 100))
				for i := range batch {
					batch[i] = &driver.Call{Request: r}
				}
				s.TakeBatch(k.Context(), batch)
			}
		} else {
			for range driver.MaxHolds - 1 {
				k.hold(1)
			}
		}
		d := k.decide(r)
		k.wantAllowed(d, false)
		if d.RetryAfter <= 0 || d.RetryAfter > 2*holdLife+holdSlice {
			k.Errorf("retry-after is %v, want when the first hold ends", d.RetryAfter)
		}
		k.mustTake(1)
		forced := r
		forced.Mode = driver.ModeForce
		d = k.mustDecide(forced) // the request is charged instead of held
		k.wantUsed(d, driver.MaxHolds+2)
		k.wantHeld(driver.MaxHolds)
		k.wantApplied(k.settle(d, 0), false)
		k.wantSettled(first, settleTo(1), 1)
		k.mustDecide(r)
	}),
}

// severalCosts takes and settles three quantities at once. If hold is 0, they are not held.
func severalCosts(k *tester, hold time.Duration) {
	d := k.mustDecide(k.quantities(hold, 10, 50))
	k.wantUsed(d, 1, 10, 50)
	denied := k.decide(k.quantities(hold, 10, 60)) // denied under one name, so nothing is charged
	k.wantAllowed(denied, false)
	k.wantUsed(denied, 1, 10, 50)
	k.wantSettled(d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"": 1, "in": 12, "out": 20}}, 33)
	k.wantUsed(k.mustDecide(k.quantities(0, 88, 80)), 2, 100, 100)
	k.wantApplied(k.amend(d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"out": 5}}), false)
}

// severalClaims settles costs by name for a request whose claims have limits with the same names.
func severalClaims(k *tester, hold time.Duration) {
	in, out := k.limits[0].WithName("in"), k.limits[0].WithName("out")
	r := and(k.under(in).request(10), k.other(in, out).request(20), k.other(out).request(30))
	r.Hold = hold
	d := k.mustDecide(r)
	k.wantSettled(d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"in": 7, "out": 15}}, 22)
}

// quantities returns a request with separate costs for requests, input and output.
func (k *tester) quantities(hold time.Duration, in, out int64) stint.Request {
	r := k.request(1)
	r.Hold = hold
	r.Claims[0].Limits = limits{k.limits[0], k.limits[0].WithName("in"), k.limits[0].WithName("out")}
	r.Claims[0].Costs = stint.Costs{"in": in, "out": out}
	return r
}

func (k *tester) hold(cost int64) stint.Decision {
	k.Helper()
	r := k.request(cost)
	r.Hold = holdLife
	return k.mustDecide(r)
}

// wantHeld checks the number of units held under the first limit, if the store is an inspector.
func (k *tester) wantHeld(want int64) {
	k.Helper()
	inspector := inspectorOf(k.Context(), k.Store)
	if inspector == nil {
		return
	}
	seen, err := inspector.Inspect(k.Context(), stint.Claim{Subject: k.subject, Limits: k.limits})
	if err != nil {
		k.Fatal(err)
	}
	if got := seen.Windows[0].Held; got != want {
		k.Fatalf("%s: %d units are held, want %d", k.limit(), got, want)
	}
}

func settleTo(cost int64) stint.Amendment {
	return stint.Amendment{Kind: stint.AmendSettle, Cost: cost}
}

func report(total int64) stint.Amendment {
	return stint.Amendment{Kind: stint.AmendExtend, Cost: total}
}

func holdThrough(l stint.Limit) stint.Limit {
	l.HoldThrough = true
	return l
}

func chargeExpired(l stint.Limit) stint.Limit {
	l.ChargeExpired = true
	return l
}
