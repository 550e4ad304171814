package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

// answers contains the checks of an answer's fields, for every outcome.
var answers = []check{
	clocked("an answer has the store's instant and the generation of its state",
		limits{stint.PerHour(1), stint.TokenBucket(1, 1, time.Hour), stint.PerHour(1).WithName("n")}, func(k *tester) {
			if d := k.peek(1); d.Charge.Data().Generation != 0 {
				k.Errorf("generation %d of a state that does not exist, want 0", d.Charge.Data().Generation)
			}
			taken := k.mustTake(1)
			first := taken.Charge.Data().Generation
			want := func(what string, d stint.Decision) {
				k.Helper()
				data := d.Charge.Data()
				if data.Now != k.Clock.micros() || data.Generation != first || first == 0 {
					k.Errorf("%s: instant %d and generation %d, want %d and %d", what, data.Now, data.Generation,
						k.Clock.micros(), first)
				}
			}
			want("a charge", taken)
			k.pass(ms)
			want("a denial", k.mustDeny(1))
			k.pass(ms)
			want("a peek that is denied", k.peek(1))
			want("a peek that is allowed", k.peek(0))
			k.reset()
			if d := k.peek(1); d.Charge.Data().Generation == first {
				k.Errorf("generation %d as before the reset", first)
			}
		}),
	exact("an answer on several subjects has instants and generations for all", nil, func(k *tester) {
		a, b := k.other(stint.PerHour(5)), k.other(stint.PerHour(1))
		taken := k.mustDecide(and(a.request(1), b.request(1)))
		denied := k.decide(and(a.request(1), b.request(1)))
		k.wantAllowed(denied, false)
		for i := range 2 {
			g, now := taken.Charge.Data().GenerationAt(i), denied.Charge.Data().NowOf(i)
			if g == 0 || denied.Charge.Data().GenerationAt(i) != g || now < taken.Charge.Data().NowOf(i) {
				k.Errorf("claim %d: %+v after %+v", i, denied.Charge.Data(), taken.Charge.Data())
			}
		}
	}),
	exact("a denial names the claim that denied", nil, func(k *tester) {
		room, full := k.other(stint.PerHour(5)), k.other(stint.PerHour(1))
		for _, x := range []struct {
			r    stint.Request
			want uint8
		}{
			{and(room.request(1), full.request(1)), 0},
			{and(room.request(1), full.request(1)), 2},
			{and(full.request(1), room.request(1)), 1},
			{full.request(1), 1},
			{room.request(1), 0},
		} {
			if d := k.decide(x.r); d.Denier != x.want || d.Allowed != (x.want == 0) {
				k.Errorf("allowed %v, denier %d, want %d", d.Allowed, d.Denier, x.want)
			}
		}
	}),
	clocked("a ban has its own end", limits{stint.PerDay(1)}, func(k *tester) {
		k.mustTake(1)
		r := k.request(1)
		r.Bans = policy(1) // the ban lasts for a minute
		d := k.decide(r)
		if !d.Banned || d.BanLeft != time.Minute || d.RetryAfter != 24*time.Hour {
			k.Errorf("banned %v for %v, retry after %v, want a minute and a day", d.Banned, d.BanLeft, d.RetryAfter)
		}
		k.pass(time.Second)
		if d := k.take(1); !d.Banned || d.BanLeft != 59*time.Second || d.RetryAfter != d.BanLeft {
			k.Errorf("banned %v for %v, retry after %v, want 59s", d.Banned, d.BanLeft, d.RetryAfter)
		}
		k.pass(time.Minute)
		if d := k.take(1); d.Banned || d.BanLeft != 0 {
			k.Errorf("banned %v for %v after its end", d.Banned, d.BanLeft)
		}
	}),
	everyStore("a request without claims is refused", nil, func(k *tester) {
		_, err := k.Store.Take(k.Context(), stint.Request{})
		k.wantInvalid("a take", err)
	}),
	everyStore("the caller may reuse its claims once the request is answered", nil, func(k *tester) {
		for _, more := range []bool{false, true} {
			a, b := k.other(stint.PerHour(5)), k.other(stint.PerHour(5))
			r := a.request(2)
			if more {
				r = and(r, b.request(2))
			}
			d := k.mustDecide(r)
			for i := range r.Claims {
				r.Claims[i] = stint.Claim{Subject: "another subject", Cost: 1}
			}
			k.wantApplied(k.settle(d, 0), true)
			k.wantUsed(a.peek(1), 0)
		}
	}),
}
