package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

// eachAlgorithm returns limits for every algorithm except calendars, with and without a burst. They
// have the same capacity, and windows so long that no units come back during a test.
func eachAlgorithm(capacity int64) limits {
	return limits{
		{Max: capacity, Window: time.Hour},
		{Max: 1, Window: time.Hour, Burst: capacity},
		{Max: capacity, Window: time.Hour, Algorithm: stint.AlgorithmBucket},
		{Max: 1, Window: time.Hour, Burst: capacity, Algorithm: stint.AlgorithmBucket},
		fixed(capacity, 24*time.Hour),
		{Max: capacity, Window: time.Hour, Algorithm: stint.AlgorithmConcurrency},
	}
}

// windowed returns the limits of eachAlgorithm except the concurrency limit, with a capacity of 10.
func windowed() limits { return eachAlgorithm(10)[:5] }

func fixed(n int64, window time.Duration) stint.Limit {
	return stint.Limit{Max: n, Window: window, Algorithm: stint.AlgorithmFixed}
}

var basics = []check{
	exact("a fresh subject gets exactly its capacity", eachAlgorithm(10), func(k *tester) {
		for i := range int64(10) {
			d := k.mustTake(1)
			k.wantUsed(d, i+1)
			if d.Remaining() != 9-i || d.RetryAfter != 0 || d.Key() != k.subject || d.Charge.Data().ID == 0 ||
				d.Charge.Data().At == 0 {
				k.Errorf("%s, take %d: remaining %d, retry-after %v, key %q, charge %+v", k.limit(), i, d.Remaining(), d.RetryAfter, d.Key(), d.Charge)
			}
		}
		d := k.mustDeny(1)
		k.wantUsed(d, 10)
		if d.RetryAfter <= 0 || d.Charge.Data().ID != 0 || d.Remaining() != 0 {
			k.Errorf("%s: denied with retry-after %v, charge %+v", k.limit(), d.RetryAfter, d.Charge)
		}
	}),
	everyStore("no more than the capacity is admitted", eachAlgorithm(10), func(k *tester) {
		k.wantAdmitted(k.admitted(30, 1), 10)
	}),
	exact("cost is charged as one", windowed(), func(k *tester) {
		k.wantUsed(k.mustTake(7), 7)
		k.mustDeny(4)
		k.wantUsed(k.mustTake(3), 10)
	}),
	exact("a peek charges nothing and answers as a take would", eachAlgorithm(2), func(k *tester) {
		for range 3 {
			d := k.peek(1)
			k.wantAllowed(d, true)
			k.wantUsed(d, 0)
			if d.Charge.Data().ID != 0 {
				k.Errorf("%s: a peek has a charge: %+v", k.limit(), d.Charge)
			}
		}
		k.mustTake(1)
		k.mustTake(1)
		k.wantAllowed(k.peek(1), false)
	}),
	exact("a cost of zero only peeks", eachAlgorithm(1), func(k *tester) {
		d := k.mustTake(0)
		k.wantUsed(d, 0)
		if d.Charge.Data().ID != 0 {
			k.Errorf("%s: cost 0 has a charge: %+v", k.limit(), d.Charge)
		}
		k.mustTake(1)
		k.mustTake(0)
	}),
	everyStore("a limit of zero denies everything, forever", nil, func(k *tester) {
		for a := stint.AlgorithmSliding; a <= stint.AlgorithmConcurrency; a++ {
			k.wantRetry(k.under(stint.Limit{Window: time.Hour, Algorithm: a}).mustDeny(1), stint.Never)
		}
	}),
	everyStore("a cost above the capacity never fits", eachAlgorithm(10)[:5], func(k *tester) {
		k.wantRetry(k.other().mustDeny(11), stint.Never)
		k.wantRetry(k.other().take(stint.MaxUnits), stint.Never)
	}),
	exact("several limits are charged all or none", nil, func(k *tester) {
		short, long := stint.Per(10, time.Hour), stint.Per(5, 2*time.Hour)
		k = k.under(short, long)
		for range 5 {
			k.mustTake(1)
		}
		d := k.mustDeny(1)
		k.wantUsed(d, 5, 5)
		if l := *d.Decisive().Limit; l != long {
			k.Errorf("decisive limit is %s, want %s", l, long)
		}
		if r := d.States()[0].RetryAfter; r != 0 {
			k.Errorf("the limit with room reports retry-after %v, want 0", r)
		}
		k.wantUsed(k.peek(1), 5, 5)
	}),
	exact("sixteen limits at once", nil, func(k *tester) {
		k = k.under()
		for i := range int64(stint.MaxLimits) {
			k.limits = append(k.limits, stint.Per(20-i, time.Hour+time.Duration(i)*time.Second))
		}
		for range 5 {
			k.mustTake(1)
		}
		d := k.mustDeny(1)
		for i, s := range d.States() {
			if s.Used != 5 || *s.Limit != k.limits[i] {
				k.Errorf("state %d is %s used %d, want %s used 5", i, s.Limit, s.Used, k.limits[i])
			}
		}
	}),
	clocked("a denial changes no limit", eachAlgorithm(2), func(k *tester) {
		k.mustTake(1)
		k.after(time.Second).mustTake(1)
		before := k.peek(1)
		for range 100 {
			k.mustDeny(1)
		}
		if diff := differ(k.peek(1), before); diff != "" {
			k.Errorf("%s: after 100 denials: %s", k.limit(), diff)
		}
	}),
	exact("a context that has ended is an error", limits{stint.PerHour(10)}, func(k *tester) {
		ctx := canceled(k.Context())
		if d, err := k.Store.Take(ctx, k.request(1)); err == nil {
			k.Errorf("take: no error, %s", answer(d))
		}
		d := k.mustTake(1)
		if _, err := k.Store.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendSettle}); err == nil {
			k.Error("amend: no error")
		}
		for name, c := range map[string]stint.Command{
			"reset":     {Kind: stint.CommandReset, Subject: k.subject, Limits: k.limits},
			"give back": {Kind: stint.CommandGiveBack, Subject: k.subject, Limits: k.limits, Units: 1},
		} {
			if err := k.Store.Command(ctx, c); err == nil {
				k.Errorf("%s: no error", name)
			}
		}
		k.wantUsed(k.peek(1), 1)
	}),
}
