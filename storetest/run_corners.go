package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/oracle"
)

// pair is a store and the reference side by side.
type pair struct {
	*tester
	oracle *oracle.Store
}

// take takes from both and wants the same answer.
func (w *pair) take(mode stint.Mode, subject string, cost int64, l stint.Limit) {
	w.Helper()
	r := w.as(subject, l).request(cost)
	r.Mode = mode
	w.same(r)
}

// lease leases from both and wants the same answer.
func (w *pair) lease(subject string, cost int64, during time.Duration, l stint.Limit) {
	w.Helper()
	r := w.as(subject, l).request(cost)
	r.Lease = during
	w.same(r)
}

func (w *pair) same(r stint.Request) {
	w.Helper()
	want, err := w.oracle.Take(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}
	if diff := differ(w.decide(r), want); diff != "" {
		w.Fatalf("%s: store and reference differ: %s", describe(r, ""), diff)
	}
}

// corner is a history that random ones rarely reach.
func corner(name string, history func(w *pair)) check {
	return check{name: name, exact: true, clock: true, test: func(k *tester) {
		history(&pair{k, oracle.New(k.Clock.micros)})
	}}
}

var corners = []check{
	corner("a log with and without slices, with and without a meter", func(w *pair) {
		subject, large, burst, small := w.newSubject(), stint.PerSecond(1000), stint.PerSecond(60).WithBurst(
			3), stint.PerSecond(125)
		for i := range 340 {
			w.take(stint.ModeTake, subject, 1, large)
			if i%3 == 0 {
				w.take(stint.ModeTake, subject, 1, burst)
			}
			w.take(stint.ModeTake, subject, 1, small)
			w.Clock.Advance(5 * ms)
		}
		for range 300 {
			w.take(stint.ModePeek, subject, 1, burst)
			w.take(stint.ModePeek, subject, 1, small)
			w.Clock.Advance(4 * ms)
		}
	}),
	corner("a burst is in use across a step back of the clock", func(w *pair) {
		subject, plain, burst := w.newSubject(), stint.PerSecond(5), stint.PerSecond(2).WithBurst(3)
		w.take(stint.ModeTake, subject, 5, burst)
		w.Clock.Advance(s)
		w.take(stint.ModeTake, subject, 1, plain)
		w.take(stint.ModeReserve, subject, 5, plain)
		w.Clock.Advance(-time.Hour)
		w.take(stint.ModePeek, subject, 1, burst)
		w.take(stint.ModeTake, subject, 1, plain)
		w.Clock.Advance(1500 * ms)
		w.take(stint.ModeTake, subject, 1, plain)
		w.take(stint.ModePeek, subject, 1, burst)
		w.take(stint.ModeTake, subject, 1, burst)
		w.Clock.Advance(s)
		w.take(stint.ModeTake, subject, 1, burst)
	}),
	corner("holders outlast a step back of the clock by no more than their expiry", func(w *pair) {
		subject, l := w.newSubject(), stint.AtOnce(2, s)
		w.take(stint.ModeTake, subject, 1, l)
		w.take(stint.ModeTake, subject, 1, l)
		w.Clock.Advance(-time.Hour)
		w.take(stint.ModePeek, subject, 1, l)
		w.take(stint.ModeTake, subject, 1, l) // denied, and yet the step is written
		w.Clock.Advance(500 * ms)
		w.take(stint.ModeTake, subject, 1, l)
		w.Clock.Advance(500 * ms)
		w.take(stint.ModeTake, subject, 1, l)
	}),
	corner("hundreds of bookings of all sizes", func(w *pair) {
		for _, l := range []stint.Limit{
			stint.PerSecond(5), stint.PerSecond(300), stint.PerSecond(3).WithBurst(2),
			stint.TokenBucket(7, 3, 1000003*us),
			fixed(4, s),
		} {
			subject := w.newSubject()
			for i := range int64(80) {
				w.take(stint.ModeReserve, subject, 1+i*i%l.Capacity(), l)
				w.take(stint.ModeTake, subject, 1+i%2, l)
				w.Clock.Advance(time.Duration(i%7) * 31 * ms)
			}
			for range 50 {
				w.take(stint.ModeTake, subject, 1, l)
				w.Clock.Advance(777 * ms)
			}
		}
	}),
	corner("a bucket in all its fractions", func(w *pair) {
		subject, l := w.newSubject(), stint.TokenBucket(100, 97, 1000003*us)
		for i := range 300 {
			w.take(stint.ModeTake, subject, int64(i%13), l)
			w.Clock.Advance(time.Duration(i*i%99991) * us)
		}
	}),
}
