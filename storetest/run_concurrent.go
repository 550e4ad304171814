package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// atOnce starts n callers together, and returns the sum of their results.
func (k *tester) atOnce(n int, call func() int) int {
	var sum atomic.Int64
	var group sync.WaitGroup
	start := make(chan struct{})
	for range n {
		group.Go(func() {
			<-start
			sum.Add(int64(call()))
		})
	}
	close(start)
	group.Wait()
	return int(sum.Load())
}

// storm makes n requests at once, and returns how many were admitted.
func (k *tester) storm(n int, r func() stint.Request) int {
	return k.atOnce(n, func() int {
		d, err := k.Store.Take(k.Context(), r())
		if err != nil {
			k.Error(err)
		}
		return oneIf(d.Allowed)
	})
}

// admitted makes n takes of the given cost, one after another, and returns how many were allowed.
// It may be called from any goroutine.
func (k *tester) admitted(n int, cost int64) (admitted int) {
	for range n {
		d, err := k.Store.Take(k.Context(), k.request(cost))
		if err != nil {
			k.Error(err)
		}
		admitted += oneIf(d.Allowed)
	}
	return admitted
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (k *tester) wantAdmitted(got, want int) {
	k.Helper()
	if got > want || !k.NeverOver && got != want {
		k.Errorf("admitted %d, want %d", got, want)
	}
}

var concurrent = []check{
	everyStore("a hundred at once under every algorithm", eachAlgorithm(10), func(k *tester) {
		k.wantAdmitted(k.atOnce(100, func() int { return k.admitted(1, 1) }), 10)
	}),
	everyStore("a hundred at once under three limits", nil, func(k *tester) {
		k = k.under(stint.PerHour(20), stint.Per(15, 2*time.Hour), stint.PerDay(12))
		k.wantAdmitted(k.atOnce(100, func() int { return k.admitted(1, 1) }), 12)
	}),
	everyStore("a hundred at once on two subjects", nil, func(k *tester) {
		if k.SplitSubjects {
			k.Skip("units that are about to be given back may deny others")
		}
		a, b := k.other(stint.PerHour(10)), k.other(stint.PerHour(10))
		var turn atomic.Int64
		k.wantAdmitted(k.storm(100, func() stint.Request {
			if turn.Add(1)%2 == 0 { // alternate the order, which must not cause a deadlock
				return and(b.request(1), a.request(1))
			}
			return and(a.request(1), b.request(1))
		}), 10)
	}),
	exact("many callers, one id, one charge", limits{stint.PerHour(100)}, func(k *tester) {
		k.storm(driver.MaxRepeats+1, func() stint.Request { return k.withID("x") })
		k.wantUsed(k.peek(1), 1)
	}),
	exact("many refunds, one applies", limits{stint.PerHour(100)}, func(k *tester) {
		k.mustTake(50)
		d := k.mustTake(10)
		if n := k.atOnce(20, func() int {
			applied, err := k.Store.Amend(k.Context(), d.Charge, stint.Amendment{Kind: stint.AmendSettle})
			if err != nil {
				k.Error(err)
			}
			return oneIf(applied.Changed)
		}); n != 1 {
			k.Errorf("%d refunds applied, want 1", n)
		}
		k.wantUsed(k.peek(1), 50)
	}),
	clocked("many reservations, no two share an instant", limits{stint.PerSecond(1)}, func(k *tester) {
		var booked sync.Map
		k.atOnce(30, func() int {
			r := k.request(1)
			r.Mode = stint.ModeReserve
			d, err := k.Store.Take(k.Context(), r)
			if _, again := booked.LoadOrStore(d.Charge.Data().At, true); err != nil || !d.Allowed || again {
				k.Errorf("error %v, %s, instant %d booked before: %v", err, answer(d), d.Charge.Data().At, again)
			}
			return 0
		})
	}),
}
