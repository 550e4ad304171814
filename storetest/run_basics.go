package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

// eachAlgorithm is one limit of every algorithm with the same capacity, and a window in which
// nothing comes back while a test runs.
func eachAlgorithm(capacity int64) []stint.Limit {
	return []stint.Limit{
		{Max: capacity, Window: time.Hour},
		{Max: 1, Window: time.Hour, Burst: capacity},
		{Max: capacity, Window: time.Hour, Algorithm: stint.AlgorithmBucket},
		{Max: 1, Window: time.Hour, Burst: capacity, Algorithm: stint.AlgorithmBucket},
		{Max: capacity, Window: 24 * time.Hour, Algorithm: stint.AlgorithmFixed},
		{Max: capacity, Window: time.Hour, Algorithm: stint.AlgorithmConcurrency},
	}
}

var basics = []check{
	{name: "a fresh subject gets exactly its capacity", exact: true, test: func(k *tester) {
		for _, l := range eachAlgorithm(10) {
			subject := k.subject()
			for i := range int64(10) {
				d := k.take(subject, 1, l)
				k.wantAllowed(d, true)
				k.wantUsed(d, i+1)
				if d.Remaining() != 9-i || d.RetryAfter != 0 || d.Key() != subject || d.Charge.ID == 0 ||
					d.Charge.At == 0 {
					k.Errorf("%s, take %d: remaining %d, retry-after %v, key %q, charge %+v", l, i, d.Remaining(), d.RetryAfter, d.Key(), d.Charge)
				}
			}
			d := k.take(subject, 1, l)
			k.wantAllowed(d, false)
			k.wantUsed(d, 10)
			if d.RetryAfter <= 0 || d.Charge.ID != 0 || d.Remaining() != 0 {
				k.Errorf("%s: denied with retry-after %v, charge %+v", l, d.RetryAfter, d.Charge)
			}
		}
	}},
	{name: "nobody gets more than the capacity", test: func(k *tester) {
		for _, l := range eachAlgorithm(10) {
			subject, admitted := k.subject(), 0
			for range 30 {
				if k.take(subject, 1, l).Allowed {
					admitted++
				}
			}
			if admitted > 10 {
				k.Errorf("%s: admitted %d, want at most 10", l, admitted)
			}
		}
	}},
	{name: "cost is charged as one", exact: true, test: func(k *tester) {
		for _, l := range eachAlgorithm(10)[:5] { // a holder takes one place whatever its cost
			subject := k.subject()
			k.wantUsed(k.mustTake(subject, 7, l), 7)
			k.wantAllowed(k.take(subject, 4, l), false)
			k.wantUsed(k.mustTake(subject, 3, l), 10)
		}
	}},
	{name: "a peek charges nothing and answers as a take would", exact: true, test: func(k *tester) {
		for _, l := range eachAlgorithm(2) {
			subject := k.subject()
			for range 3 {
				d := k.peek(subject, 1, l)
				k.wantAllowed(d, true)
				k.wantUsed(d, 0)
				if d.Charge.ID != 0 {
					k.Errorf("%s: a peek has a charge: %+v", l, d.Charge)
				}
			}
			k.mustTake(subject, 1, l)
			k.mustTake(subject, 1, l)
			k.wantAllowed(k.peek(subject, 1, l), false)
		}
	}},
	{name: "cost zero only looks", exact: true, test: func(k *tester) {
		for _, l := range eachAlgorithm(1) {
			subject := k.subject()
			d := k.mustTake(subject, 0, l)
			k.wantUsed(d, 0)
			if d.Charge.ID != 0 {
				k.Errorf("%s: cost 0 has a charge: %+v", l, d.Charge)
			}
			k.mustTake(subject, 1, l)
			k.wantAllowed(k.take(subject, 0, l), true)
		}
	}},
	{name: "a limit of zero denies everything, forever", test: func(k *tester) {
		for a := stint.AlgorithmSliding; a <= stint.AlgorithmConcurrency; a++ {
			d := k.take(k.subject(), 1, stint.Limit{Window: time.Hour, Algorithm: a})
			k.wantAllowed(d, false)
			k.wantRetry(d, stint.Never)
		}
	}},
	{name: "a cost above the capacity never fits", test: func(k *tester) {
		for _, l := range eachAlgorithm(10)[:5] {
			d := k.take(k.subject(), 11, l)
			k.wantAllowed(d, false)
			k.wantRetry(d, stint.Never)
			k.wantRetry(k.take(k.subject(), stint.MaxUnits, l), stint.Never)
		}
	}},
	{name: "several limits are charged all or none", exact: true, test: func(k *tester) {
		minute, hour := stint.Per(10, time.Hour), stint.Per(5, 2*time.Hour)
		subject := k.subject()
		for range 5 {
			k.mustTake(subject, 1, minute, hour)
		}
		d := k.take(subject, 1, minute, hour)
		k.wantAllowed(d, false)
		k.wantUsed(d, 5, 5)
		if l := *d.Decisive().Limit; l != hour {
			k.Errorf("decisive limit is %s, want %s", l, hour)
		}
		if r := d.States()[0].RetryAfter; r != 0 {
			k.Errorf("the limit with room says retry-after %v, want 0", r)
		}
		k.wantUsed(k.peek(subject, 1, minute, hour), 5, 5)
	}},
	{name: "sixteen limits at once", exact: true, test: func(k *tester) {
		var limits []stint.Limit
		for i := range int64(stint.MaxLimits) {
			limits = append(limits, stint.Per(20-i, time.Hour+time.Duration(i)*time.Second))
		}
		subject := k.subject()
		for range 5 {
			k.mustTake(subject, 1, limits...)
		}
		d := k.take(subject, 1, limits...)
		k.wantAllowed(d, false)
		for i, s := range d.States() {
			if s.Used != 5 || *s.Limit != limits[i] {
				k.Errorf("state %d is %s used %d, want %s used 5", i, s.Limit, s.Used, limits[i])
			}
		}
	}},
	{name: "a denial changes no limit", exact: true, clock: true, test: func(k *tester) {
		for _, l := range eachAlgorithm(2) {
			subject := k.subject()
			k.mustTake(subject, 1, l)
			k.pass(time.Second)
			k.mustTake(subject, 1, l)
			before := k.peek(subject, 1, l)
			for range 100 {
				k.wantAllowed(k.take(subject, 1, l), false)
			}
			if diff := differ(k.peek(subject, 1, l), before); diff != "" {
				k.Errorf("%s: after 100 denials: %s", l, diff)
			}
		}
	}},
	{name: "the states share nothing with the caller", exact: true, test: func(k *tester) {
		limits := []stint.Limit{stint.PerHour(10)}
		subject := k.subject()
		d := k.mustTake(subject, 1, limits...)
		limits[0] = stint.PerHour(1)
		if d.Charge.Claim.Subject != subject || d.Charge.Claim.Cost != 1 {
			k.Errorf("charge is %+v", d.Charge)
		}
		k.wantUsed(k.peek(subject, 1, stint.PerHour(10)), 1)
	}},
	{name: "a context that has ended is an error", exact: true, test: func(k *tester) {
		ctx, subject, l := cancelled(k.Context()), k.subject(), stint.PerHour(10)
		if d, err := k.Store.Take(ctx, k.request(subject, 1, l)); err == nil {
			k.Errorf("take: no error, %s", answer(d))
		}
		d := k.mustTake(subject, 1, l)
		if _, err := k.Store.Amend(ctx, d.Charge, stint.Amendment{}); err == nil {
			k.Error("amend: no error")
		}
		if err := k.Store.Command(ctx,
			stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{l}}); err == nil {
			k.Error("command: no error")
		}
		k.wantUsed(k.peek(subject, 1, l), 1)
	}},
}
