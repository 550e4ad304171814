package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// storm lets n callers start at once and returns how many were admitted.
func (k *tester) storm(n int, r func() stint.Request) int {
	var admitted atomic.Int64
	var group sync.WaitGroup
	start := make(chan struct{})
	for range n {
		group.Go(func() {
			<-start
			if d, err := k.Store.Take(k.Context(), r()); err != nil {
				k.Error(err)
			} else if d.Allowed {
				admitted.Add(1)
			}
		})
	}
	close(start)
	group.Wait()
	return int(admitted.Load())
}

func (k *tester) wantAdmitted(got, want int) {
	k.Helper()
	if got > want || k.level == Exact && got != want {
		k.Errorf("admitted %d, want %d", got, want)
	}
}

var concurrent = []check{
	{name: "fifty at once under ten a minute", test: func(k *tester) {
		subject := k.subject()
		k.wantAdmitted(k.storm(50, func() stint.Request { return k.request(subject, 1, stint.PerMinute(10)) }), 10)
	}},
	{name: "a hundred at once under every algorithm", test: func(k *tester) {
		for _, l := range eachAlgorithm(10) {
			subject := k.subject()
			k.wantAdmitted(k.storm(100, func() stint.Request { return k.request(subject, 1, l) }), 10)
		}
	}},
	{name: "a hundred at once under three limits", test: func(k *tester) {
		subject := k.subject()
		k.wantAdmitted(k.storm(100, func() stint.Request {
			return k.request(subject, 1, stint.PerHour(20), stint.Per(15, 2*time.Hour), stint.PerDay(12))
		}), 12)
	}},
	{name: "a hundred at once on two subjects", test: func(k *tester) {
		if k.SplitSubjects {
			k.Skip("what is about to be given back may deny others")
		}
		a, b, l := k.subject(), k.subject(), stint.PerHour(10)
		var turn atomic.Int64
		k.wantAdmitted(k.storm(100, func() stint.Request {
			first, second := a, b
			if turn.Add(1)%2 == 0 { // in either order: no deadlock
				first, second = b, a
			}
			return stint.Request{Claim: k.request(first, 1, l).Claim, And: []stint.Claim{k.request(second, 1, l).Claim}}
		}), 10)
	}},
	{name: "many callers, one id, one charge", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(100), k.subject()
		k.storm(driver.MaxRepeats+1, func() stint.Request { return k.withID(subject, "x", l) })
		k.wantUsed(k.peek(subject, 1, l), 1)
	}},
	{name: "many refunds, one applies", exact: true, test: func(k *tester) {
		l, subject := stint.PerHour(100), k.subject()
		k.mustTake(subject, 50, l)
		d := k.mustTake(subject, 10, l)
		var applied atomic.Int64
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if ok, err := k.Store.Amend(k.Context(), d.Charge, stint.Amendment{}); err != nil {
					k.Error(err)
				} else if ok {
					applied.Add(1)
				}
			})
		}
		group.Wait()
		if n := applied.Load(); n != 1 {
			k.Errorf("%d refunds applied, want 1", n)
		}
		k.wantUsed(k.peek(subject, 1, l), 50)
	}},
	{name: "many reservations, no two share a place", exact: true, clock: true, test: func(k *tester) {
		l, subject := stint.PerSecond(1), k.subject()
		var mu sync.Mutex
		var group sync.WaitGroup
		places := map[int64]bool{}
		for range 30 {
			group.Go(func() {
				r := k.request(subject, 1, l)
				r.Mode = stint.ModeReserve
				d, err := k.Store.Take(k.Context(), r)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || !d.Allowed || places[d.Charge.At] {
					k.Errorf("error %v, place %d taken: %v", err, d.Charge.At, places[d.Charge.At])
				}
				places[d.Charge.At] = true
			})
		}
		group.Wait()
	}},
}
