package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

var changes = []check{
	{name: "a limit changes at the next decision and keeps its history", exact: true, test: func(k *tester) {
		for _, a := range []stint.Algorithm{stint.AlgorithmSliding, stint.AlgorithmBucket, stint.AlgorithmFixed,
			stint.AlgorithmConcurrency} {
			of := func(n int64) stint.Limit { return stint.Limit{Max: n, Window: 24 * time.Hour, Algorithm: a} }
			subject := k.subject()
			for range 4 {
				k.mustTake(subject, 1, of(4))
			}
			k.wantAllowed(k.take(subject, 1, of(4)), false)
			k.wantUsed(k.mustTake(subject, 1, of(6)), 5)
			k.wantUsed(k.take(subject, 1, of(2)), 5)
			k.wantAllowed(k.take(subject, 1, of(5)), false)
			k.wantUsed(k.mustTake(subject, 1, of(6)), 6)
		}
	}},
	{name: "a small limit becomes a large one and back", exact: true, test: func(k *tester) {
		subject := k.subject()
		for range 5 {
			k.mustTake(subject, 1, stint.PerHour(5))
		}
		k.wantUsed(k.mustTake(subject, 300, stint.PerHour(1000)), 305)
		k.wantUsed(k.take(subject, 1, stint.PerHour(5)), 305)
	}},
	{name: "a bucket's level is carried over to another rate", exact: true, clock: true, test: func(k *tester) {
		subject := k.subject()
		k.mustTake(subject, 8, stint.TokenBucket(10, 10, s))
		k.Clock.Advance(50 * ms) // 7.5 used, 8 when rounded up to whole tokens
		k.wantUsed(k.peek(subject, 1, stint.TokenBucket(10, 10, s)), 8)
		d := k.peek(subject, 1, stint.TokenBucket(7, 10, s))
		k.wantAllowed(d, false)
		k.wantRetry(d, 150*ms)
	}},
	{name: "names and windows tell limits apart", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(1), k.subject()
		for _, other := range []stint.Limit{l, l.WithName("a"), l.WithName("b"), stint.PerMinute(1),
			stint.TokenBucket(1, 1, time.Hour)} {
			k.wantUsed(k.mustTake(subject, 1, other), 1)
		}
	}},
	{name: "a used-up day outlives short limits", exact: true, clock: true, test: func(k *tester) { // F24c
		day, short, subject := stint.PerDay(2), stint.PerSecond(10), k.subject()
		k.mustTake(subject, 2, day, short)
		for range 100 {
			k.Clock.Advance(10 * time.Minute)
			k.mustTake(subject, 1, short)
		}
		d := k.take(subject, 1, day, short)
		k.wantAllowed(d, false)
		k.wantRetry(d, 24*time.Hour-1000*time.Minute)
	}},
	{name: "reset forgets the limits that it names", exact: true, test: func(k *tester) {
		for _, l := range eachAlgorithm(2) {
			other, subject := l.WithName("other"), k.subject()
			k.mustTake(subject, 1, l, other)
			k.mustTake(subject, 1, l, other)
			k.wantAllowed(k.take(subject, 1, l), false)
			k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{l}})
			k.wantUsed(k.take(subject, 1, l), 1)
			k.wantAllowed(k.take(subject, 1, other), false)
		}
	}},
	{name: "reset forgets bookings", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		for range 5 {
			k.reserve(subject, 1, 0, l)
		}
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{l}})
		k.wantRetry(k.reserve(subject, 1, 0, l), 0)
	}},
	{name: "what was charged before a reset is not settled", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(10), k.subject()
		d := k.mustTake(subject, 5, l)
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{l}})
		k.wantApplied(k.settle(d, 0), false)
		k.wantUsed(k.peek(subject, 1, l), 0)
	}},
	{name: "reset, ban and unban of a stranger are nothing special", exact: true, test: func(k *tester) {
		subject := k.subject()
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{stint.PerHour(1)}})
		k.command(stint.Command{Kind: stint.CommandUnban, Subject: subject})
		k.wantAllowed(k.take(subject, 1, stint.PerHour(1)), true)
	}},
}
