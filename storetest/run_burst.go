package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

var bursts = []check{
	{name: "a burst is all of it in any window, and the limit in the long run", exact: true, clock: true, test: func(k *tester) {
		for _, x := range []struct{ limit, times int64 }{{10, 2}, {30, 2}, {100, 3}, {150, 5}} {
			l, subject := stint.PerMinute(x.limit).WithBurst(x.times), k.subject()
			k.Clock.Advance(k.Clock.Now().Truncate(time.Minute).Add(time.Minute).Sub(k.Clock.Now()))
			start := k.Clock.Now()
			slice := time.Duration(0)
			if l.Capacity() > stint.Resolution {
				slice = time.Minute / stint.Resolution
			}
			var admitted []time.Time
			var longest time.Duration
			for k.Clock.Now().Sub(start) < 20*time.Minute { // as eager as can be
				d := k.take(subject, 1, l)
				if d.Allowed {
					admitted = append(admitted, k.Clock.Now())
					continue
				}
				longest = max(longest, d.RetryAfter)
				k.Clock.Advance(d.RetryAfter)
			}
			first, most := 0, 0
			for i := range admitted {
				for !admitted[first].After(admitted[i].Add(-time.Minute)) {
					first++
				}
				most = max(most, i-first+1)
			}
			if int64(most) != l.Capacity() {
				k.Errorf("%s: %d within a minute, want %d", l, most, l.Capacity())
			}
			if n, want := int64(len(admitted)), l.Capacity()+20*x.limit; n > want || n < want-x.limit {
				k.Errorf("%s: %d in twenty minutes, want about %d", l, n, want)
			}
			if longest > time.Minute+slice {
				k.Errorf("%s: waited %v, want at most %v", l, longest, time.Minute+slice)
			}
		}
	}},
	{name: "nobody waits longer than a window for a cost up to the limit", exact: true, clock: true, test: func(k *tester) {
		for _, l := range []stint.Limit{stint.PerMinute(10).WithBurst(2), stint.PerMinute(500).WithBurst(5),
			stint.PerSecond(3).WithBurst(100)} {
			subject := k.subject()
			slice := (l.Window + stint.Resolution - 1) / stint.Resolution
			for i := range int64(400) {
				cost := 1 + i*i%l.Max
				d := k.take(subject, cost, l)
				if d.RetryAfter > l.Window+slice {
					k.Fatalf("%s: %d units wait %v", l, cost, d.RetryAfter)
				}
				if i%3 == 0 {
					k.Clock.Advance(d.RetryAfter)
				}
			}
		}
	}},
	{name: "after a burst the limit comes at once after a window, then one at a time", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerMinute(10).WithBurst(2), k.subject()
		k.mustTake(subject, 20, l)
		k.wantRetry(k.take(subject, 1, l), time.Minute)
		k.Clock.Advance(time.Minute)
		for range 10 {
			k.mustTake(subject, 1, l)
		}
		for range 30 {
			k.wantRetry(k.take(subject, 1, l), 6*s)
			k.Clock.Advance(6 * s)
			k.mustTake(subject, 1, l)
		}
		k.Clock.Advance(time.Minute) // half of the burst is back
		k.wantAllowed(k.take(subject, 11, l), false)
		k.mustTake(subject, 10, l)
		k.Clock.Advance(2 * time.Minute)
		k.mustTake(subject, 20, l)
	}},
	{name: "a burst that no microsecond divides is exact", exact: true, clock: true, test: func(k *tester) {
		l, err := stint.ParseLimit("123457/1d burst 2x") // it ticks in milliseconds
		if err != nil {
			k.Fatal(err)
		}
		subject := k.subject()
		k.wantUsed(k.mustTake(subject, 246_914, l), 246_914)
		k.wantAllowed(k.take(subject, 1, l), false)
		day := 24 * time.Hour
		k.Clock.Advance(day + day/stint.Resolution)
		k.wantAllowed(k.take(subject, 124_446, l), false)
		k.mustTake(subject, 123_457, l)
		k.Clock.Advance(day * 2)
		k.wantUsed(k.peek(subject, 1, l), 0)
	}},
	{name: "a burst is taken away and given again", exact: true, clock: true, test: func(k *tester) {
		plain, burst, subject := stint.PerMinute(10), stint.PerMinute(10).WithBurst(2), k.subject()
		k.mustTake(subject, 20, burst)
		d := k.take(subject, 1, plain)
		k.wantUsed(d, 20)
		k.wantRetry(d, time.Minute)
		k.Clock.Advance(time.Minute)
		k.wantUsed(k.mustTake(subject, 10, plain), 10) // all of the plain limit, as always
		k.wantUsed(k.peek(subject, 1, burst), 10)      // the meter has not counted that
		k.wantUsed(k.mustTake(subject, 10, burst), 20)
		k.wantRetry(k.take(subject, 1, burst), time.Minute)
	}},
	{name: "a burst that is new begins with what the log has", exact: true, clock: true, test: func(k *tester) {
		plain, burst, subject := stint.PerMinute(10), stint.PerMinute(10).WithBurst(3), k.subject()
		k.mustTake(subject, 6, plain)
		k.Clock.Advance(30 * s)
		k.wantUsed(k.mustTake(subject, 10, burst), 16)
		k.Clock.Advance(30 * s) // the six have left the log; the meter is at 11
		k.wantUsed(k.peek(subject, 1, burst), 11)
		k.wantAllowed(k.take(subject, 20, burst), false)
		k.mustTake(subject, 19, burst)
	}},
	{name: "another limit or burst keeps whole units", exact: true, clock: true, test: func(k *tester) {
		subject := k.subject()
		k.mustTake(subject, 20, stint.PerMinute(10).WithBurst(2))
		k.Clock.Advance(time.Minute + 3*s)
		k.mustTake(subject, 1, stint.PerMinute(10).WithBurst(2)) // 10.5 are in the meter
		for _, l := range []stint.Limit{
			stint.PerMinute(10).WithBurst(2), stint.PerMinute(10).WithBurst(5), stint.PerMinute(7).WithBurst(2),
			stint.PerMinute(1000).WithBurst(2),
		} {
			k.wantUsed(k.peek(subject, 1, l), 11)
		}
		k.wantUsed(k.mustTake(subject, 3, stint.PerMinute(7).WithBurst(2)), 14)
		k.wantUsed(k.mustTake(subject, 1, stint.PerMinute(10).WithBurst(2)), 15)
		k.wantUsed(k.mustTake(subject, 35, stint.PerMinute(10).WithBurst(5)), 50)
		k.wantAllowed(k.take(subject, 1, stint.PerMinute(10).WithBurst(5)), false)
	}},
	{name: "a larger burst lets in its difference at once", exact: true, clock: true, test: func(k *tester) {
		subject := k.subject()
		k.mustTake(subject, 20, stint.PerMinute(10).WithBurst(2))
		k.wantUsed(k.mustTake(subject, 10, stint.PerMinute(10).WithBurst(3)), 30)
		d := k.take(subject, 1, stint.PerMinute(10).WithBurst(2)) // a debt
		k.wantAllowed(d, false)
		k.wantRetry(d, 66*s) // 30 are in the meter
		k.Clock.Advance(66 * s)
		k.mustTake(subject, 1, stint.PerMinute(10).WithBurst(2))
	}},
	{name: "a plain limit books for the burst too", exact: true, clock: true, test: func(k *tester) {
		plain, burst, subject := stint.PerSecond(2), stint.PerSecond(2).WithBurst(2), k.subject()
		k.mustTake(subject, 2, burst)
		k.wantRetry(k.reserve(subject, 2, 0, plain), s)
		k.wantUsed(k.peek(subject, 1, burst), 4)
		k.Clock.Advance(s)
		k.wantUsed(k.peek(subject, 1, burst), 2)
	}},
	{name: "a burst is leased", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(5).WithBurst(4), k.subject()
		k.wantCharged(k.lease(subject, 30, 100*ms, l), 20)
		k.wantUncharged(k.lease(subject, 1, 100*ms, l))
		k.Clock.Advance(1100*ms - us)
		k.wantRetry(k.take(subject, 1, l), us)
		k.Clock.Advance(us)
		k.wantCharged(k.lease(subject, 30, 100*ms, l), 5) // 5.5 are refilled
	}},
}

var states = []check{
	{name: "limits with one name, and those with another, are counted apart", exact: true, test: func(k *tester) {
		hour, day, subject := stint.PerHour(10), stint.PerDay(20), k.subject()
		login := hour.WithName("login")
		k.wantUsed(k.mustTake(subject, 3, hour, day), 3, 3)
		k.wantUsed(k.mustTake(subject, 2, day, login), 5, 2)
		k.wantUsed(k.mustTake(subject, 1, login), 3)
		k.wantUsed(k.peek(subject, 1, login, hour, day), 3, 3, 5)
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{day}})
		k.wantUsed(k.peek(subject, 1, login, hour, day), 3, 3, 0)
		k.command(stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{login, hour}})
		k.wantUsed(k.peek(subject, 1, login, hour, day), 0, 0, 0)
	}},
	{name: "limits come and go", exact: true, clock: true, test: func(k *tester) {
		second, minute, bucket, subject := stint.PerSecond(5), stint.PerMinute(20), stint.TokenBucket(
			10, 1, s), k.subject()
		k.mustTake(subject, 5, second, minute)
		k.mustTake(subject, 5, bucket)
		k.Clock.Advance(s)
		k.wantUsed(k.mustTake(subject, 2, second, bucket), 2, 6)
		k.wantUsed(k.mustTake(subject, 1, minute), 6)
		k.Clock.Advance(s)
		k.wantUsed(k.peek(subject, 1, second, minute, bucket), 0, 6, 5)
	}},
	{name: "a step back of the clock is one of all limits of a state", exact: true, clock: true, test: func(k *tester) {
		second, minute, subject := stint.PerSecond(1), stint.PerMinute(1), k.subject()
		k.mustTake(subject, 1, second, minute)
		k.Clock.Advance(-time.Hour)
		k.wantRetry(k.take(subject, 1, second), s) // writes the step
		k.Clock.Advance(30 * s)
		k.wantRetry(k.take(subject, 1, minute), 30*s)
	}},
	{name: "one charge carries what every state needs", exact: true, test: func(k *tester) {
		limits := []stint.Limit{stint.PerHour(10), stint.PerHour(10).WithName("a"), stint.PerDay(10),
			stint.PerHour(10).WithName("b")}
		subject, other := k.subject(), k.subject()
		r := k.request(subject, 4, limits...)
		r.And = []stint.Claim{k.request(other, 4, limits[1], limits[0]).Claim}
		d := k.decide(r)
		k.wantAllowed(d, true)
		if err := (stint.Amendment{}).Validate(&d.Charge); err != nil {
			k.Error(err)
		}
		k.wantApplied(k.settle(d, 1), true)
		k.wantUsed(k.peek(subject, 1, limits...), 1, 1, 1, 1)
		k.wantUsed(k.peek(other, 1, limits[0], limits[1]), 1, 1)
	}},
	{name: "a charge of another generation is not settled", exact: true, test: func(k *tester) {
		a, b, subject := stint.PerHour(10), stint.PerHour(10).WithName("b"), k.subject()
		d := k.mustTake(subject, 4, a, b)
		contract.SetGeneration(&d.Charge, 1, contract.GenerationAt(&d.Charge, 1)+1)
		k.wantApplied(k.settle(d, 1), true)
		k.wantUsed(k.peek(subject, 1, a, b), 1, 4)
	}},
}
