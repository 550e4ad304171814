package algorithm

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

func TestBucket(t *testing.T) {
	run(t, stint.TokenBucket(3, 2, s), []step{
		{0, 3, 0, 3},
		{0, 1, s / 2, 3},
		{s/2 - 1*us, 1, 1 * us, 3},
		{s / 2, 1, 0, 3},
		{s, 3, s, 2},
		{s, 4, never, 2},
		{s, 0, 0, 2},
		{100 * s, 3, 0, 3},
	})
}

func TestBucketThatDoesNotDivide(t *testing.T) {
	// A token every third of a second: 333,333.3 µs.
	run(t, stint.TokenBucket(1, 3, s), []step{
		{0, 1, 0, 1},
		{0, 1, 333_334 * us, 1},
		{333_333 * us, 1, 1 * us, 1},
		{333_334 * us, 1, 0, 1},
	})
}

// A window of a year in microseconds weighs too much: its meter counts in seconds.
func TestBucketInTicks(t *testing.T) {
	year := 366 * 24 * time.Hour
	l := stint.TokenBucket(366, 366, year)
	if _, _, tick := l.Meter(); tick != 1 {
		t.Fatalf("a tick is %d", tick)
	}
	odd := stint.TokenBucket(1_000_003, 1_000_003, year) // a prime
	_, _, tick := odd.Meter()
	if tick == 1 {
		t.Fatal("want ticks longer than a microsecond")
	}
	p := Of(&odd)
	var c Count
	open(&c, &p, start+1).Charge(1_000_003)
	v := open(&c, &p, start+1)
	at := earliest(v, 1)
	if at%tick != 0 || at <= start || open(&c, &p, at-1).Fits(1) || !open(&c, &p, at).Fits(1) {
		t.Errorf("room for one after %d", at-start)
	}
}

func TestMeterChangesItsRate(t *testing.T) {
	slow, fast := stint.TokenBucket(10, 1, s), stint.TokenBucket(10, 5, s)
	ps, pf := Of(&slow), Of(&fast)
	var c Count
	open(&c, &ps, start).Charge(10)
	if v := open(&c, &pf, start+s.Microseconds()); v.Used() != 5 {
		t.Errorf("used %d after a second at 5/s, want 5", v.Used())
	}
}

func TestSettle(t *testing.T) {
	for _, x := range []struct {
		name        string
		limit       stint.Limit
		cost, truth int64
		after       int64 // microseconds
		applies     bool
		used        int64
	}{
		{"refund", stint.PerSecond(10), 4, 0, 100, true, 0},
		{"less", stint.PerSecond(10), 4, 1, 100, true, 1},
		{"more", stint.PerSecond(10), 4, 9, 100, true, 9},
		{"more, into debt", stint.PerSecond(10), 4, 400, 100, true, 400},
		{"out of the window", stint.PerSecond(10), 4, 0, 1_000_000, false, 0},
		{"bucket, refund", stint.TokenBucket(10, 1, s), 4, 0, 500_000, true, 0},
		{"bucket, half refilled since", stint.TokenBucket(10, 1, s), 4, 2, 1_000_000, true, 2},
		{"bucket, refilled", stint.TokenBucket(10, 1, s), 4, 0, 4_000_000, false, 0},
		{"bucket, debt", stint.TokenBucket(10, 1, s), 4, 40, 1_000_000, true, 20},
		{"burst, refund", stint.PerSecond(5).WithBurst(2), 4, 0, 100, true, 0},
		{"burst, less", stint.PerSecond(5).WithBurst(2), 4, 1, 400_000, true, 1},
		{"burst, debt", stint.PerSecond(5).WithBurst(2), 4, 50, 100, true, 20},
		{"burst, out of the log", stint.PerSecond(5).WithBurst(2), 10, 0, 1_000_000, false, 5},
		{"of nothing", stint.TokenBucket(10, 0, s), 4, 0, 1, false, 0},
		{"fixed", stint.Limit{Max: 10, Window: s, Algorithm: stint.AlgorithmFixed}, 4, 3, 10, true, 3},
	} {
		var c Count
		p := Of(&x.limit)
		if x.limit.Max > 0 {
			open(&c, &p, start).Charge(x.cost)
		}
		v := open(&c, &p, start+x.after)
		if _, got := v.Settle(start, x.cost, x.truth, 0); got != x.applies || v.Used() != x.used {
			t.Errorf("%s: applies is %v, used %d; want %v, %d", x.name, got, v.Used(), x.applies, x.used)
		}
		if got := open(&c, &p, start+x.after).Used(); got != x.used {
			t.Errorf("%s: %d is kept, want %d", x.name, got, x.used)
		}
	}
}

// found is whether a settlement applied.
func found(_ int64, ok bool) bool { return ok }

// A meter is in debt for as long as it takes to refill: that is bounded. A log forgets.
func TestDebtIsBounded(t *testing.T) {
	for _, l := range []stint.Limit{stint.PerSecond(10), stint.TokenBucket(10, 10, s),
		stint.PerSecond(5).WithBurst(2), {Max: 10, Window: s, Algorithm: stint.AlgorithmFixed}} {
		for debt, want := range map[int64]int64{0: 20, 1: 11, 500: 510, MaxUnits: 10_000} {
			var c Count
			p := Of(&l)
			if p.unit == 0 {
				want = 10_000
			}
			v := open(&c, &p, start)
			v.Charge(3)
			if got, ok := v.Settle(start, 3, 10_000, debt); !ok || got != want || v.Used() != want {
				t.Errorf("%v: charged %d, used %d with a debt of at most %d, want %d", l, got, v.Used(), debt, want)
			}
		}
	}
}

// The largest counts there are neither overflow nor take anything past 2^53.
func TestLargestCounts(t *testing.T) {
	const half = MaxUnits / 2
	for _, l := range []stint.Limit{stint.PerSecond(MaxUnits), stint.TokenBucket(MaxUnits, half, s),
		{Max: half, Burst: MaxUnits, Window: s},
		{Max: MaxUnits, Window: s, Algorithm: stint.AlgorithmFixed}} {
		var c Count
		p := Of(&l)
		v := open(&c, &p, start)
		v.Charge(half + 1)
		at := start
		for range 1000 {
			if at = v.Earliest(at, half+1); at == Never {
				t.Fatalf("%v: never", l)
			}
			v.Book(at+1, at+2, half+1)
			at++
		}
		if got, ok := v.Settle(start, half+1, MaxUnits, MaxUnits); got != half+1 || !ok {
			t.Errorf("%v: raised past 2^53: %d, %v", l, got, ok)
		}
		if v.Fits(half+1) || !v.Fits(0) || v.Reset() <= 0 || v.Used() < 0 {
			t.Errorf("%v: reset %d, used %d", l, v.Reset(), v.Used())
		}
		if used, reset := v.At(at); used <= half || used > MaxUnits || reset <= 0 {
			t.Errorf("%v: used %d at the last booking, reset %d", l, used, reset)
		}
		if v = open(&c, &p, at+1e12); v.Used() != 0 || !c.Dead(&p, at+2e12) {
			t.Errorf("%v: used %d when all has passed", l, v.Used())
		}
	}
}

func TestBookings(t *testing.T) {
	second := s.Microseconds()
	for _, l := range []stint.Limit{stint.PerSecond(2), stint.TokenBucket(2, 2, s), stint.PerSecond(1).WithBurst(2)} {
		// Every booking may be used for 10 ms, and counts in a log as if at the end of them.
		apart := second
		switch {
		case l.Algorithm == stint.AlgorithmSliding && l.Burst == 0:
			apart += 10_000
		case l.Algorithm == stint.AlgorithmSliding:
			apart = 2 * second
		}
		var c Count
		p := Of(&l)
		v := open(&c, &p, start)
		v.Charge(2)
		first, last := int64(0), start
		for i := range 6 {
			last = v.Earliest(last, 2)
			if i == 0 {
				first = last
			}
			v.Book(last, last+10_000, 2)
		}
		if want := first + 5*apart; last != want || v.Used() != 14 {
			t.Errorf("%v: the sixth booking is at %d, used %d; want %d, 14", l, last-start, v.Used(), want-start)
		}
		if used, reset := v.At(first + apart); used != 2 || reset <= 0 || reset > apart+10_000 {
			t.Errorf("%v: used %d, reset %d at the second booking", l, used, reset)
		}
		if at := v.BookedAt(first + apart + 10_000); at != first+apart {
			t.Errorf("%v: the second booking is at %d", l, at-start)
		}
		if _, ok := v.Settle(first+apart+10_000, 2, 0, 0); !ok || v.Used() != 12 {
			t.Errorf("%v: the second booking could not be given back", l)
		}
		v.Only(first + 2*apart) // the third moves up
		if at := v.Earliest(first, 2); at != first+apart {
			t.Errorf("%v: the place given back is at %d, want %d", l, at-start, first+apart-start)
		}
		v.Unbook(first+2*apart+10_000, 2)
		v.Book(first+apart, first+apart+10_000, 2)
		if n, latest := v.Bookings(); n != 5 || latest != last || v.Used() != 12 {
			t.Errorf("%v: %d bookings, the last at %d, used %d", l, n, latest-start, v.Used())
		}
		if v = open(&c, &p, first); v.Used() != 10 || len(v.ahead) != 4 {
			t.Errorf("%v: used %d, %d ahead when the first has come", l, v.Used(), len(v.ahead))
		}
		if !found(v.Settle(first+10_000, 2, 1, 0)) || v.Used() != 9 {
			t.Errorf("%v: used %d when the first has been settled to one", l, v.Used())
		}
		v = open(&c, &p, start+20*second)
		if n := v.Used(); n != 0 || !c.Dead(&p, start+20*second) {
			t.Errorf("%v: %d used when all has passed", l, n)
		}
	}
}

// A bucket is kept for as long as a charge on it may be settled, even once it is empty.
func TestBucketIsKeptWhileChargesCanBeSettled(t *testing.T) {
	l := stint.TokenBucket(10, 1, s)
	p, second := Of(&l), s.Microseconds()
	var c Count
	v := open(&c, &p, start)
	v.Charge(8)
	v.GiveBack(8)
	if now := start + 8*second - 1; c.Dead(&p, now) || !found(open(&c, &p, now).Settle(start, 8, 9, 0)) {
		t.Error("forgotten while the charge can be settled")
	}
	if !c.Dead(&p, start+30*second) {
		t.Error("never forgotten")
	}
}
