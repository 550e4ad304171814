package algorithm

import (
	"testing"

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

func TestBucketChangesItsRate(t *testing.T) {
	slow, fast := stint.TokenBucket(10, 1, s), stint.TokenBucket(10, 5, s)
	ps, pf := Of(&slow), Of(&fast)
	var b Bucket
	var v BucketView
	v.Open(&b, &ps, start, false)
	v.Charge(10)
	if v.Open(&b, &pf, start+s.Microseconds(), false); v.Used() != 5 {
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
		{"more, into debt", stint.PerSecond(10), 4, 400, 100, true, 400},
		{"out of the window", stint.PerSecond(10), 4, 0, 1_000_000, false, 0},
		{"bucket, refund", stint.TokenBucket(10, 1, s), 4, 0, 500_000, true, 0},
		{"bucket, half refilled since", stint.TokenBucket(10, 1, s), 4, 2, 1_000_000, true, 2},
		{"bucket, refilled", stint.TokenBucket(10, 1, s), 4, 0, 4_000_000, false, 0},
		{"bucket, debt", stint.TokenBucket(10, 1, s), 4, 40, 1_000_000, true, 39},
		{"bucket, too much", stint.TokenBucket(10, 1, s), 4, MaxUnits, 1, false, 4},
		{"too much", stint.PerSecond(10), 4, MaxUnits + 1, 1, false, 4},
		{"fixed", stint.Limit{Max: 10, Window: s, Algorithm: stint.Fixed}, 4, 3, 10, true, 3},
	} {
		p, state := Of(&x.limit), newState(x.limit)
		state.open(&p, start, false).charge(x.cost)
		v := state.open(&p, start+x.after, true)
		if got := v.Settle(start, x.cost, x.truth); got != x.applies {
			t.Errorf("%s: applies is %v, want %v", x.name, got, x.applies)
		}
		if got := state.open(&p, start+x.after, true).Used(); got != x.used {
			t.Errorf("%s: used %d, want %d", x.name, got, x.used)
		}
	}
}

func TestBookings(t *testing.T) {
	for _, l := range []stint.Limit{stint.PerSecond(2), stint.TokenBucket(2, 2, s)} {
		p, state := Of(&l), newState(l)
		v := state.open(&p, start, false)
		v.charge(2)
		var last int64
		for range 6 {
			last = v.Earliest(max(start, last), 2)
			v.Book(last, 2)
		}
		if want := start + 6*s.Microseconds(); last != want || v.Used() != 14 {
			t.Errorf("%v: the sixth booking is at %d, used %d; want %d, 14", l, last-start, v.Used(), want-start)
		}
		if !v.Settle(start+3*s.Microseconds(), 2, 0) {
			t.Errorf("%v: the third booking could not be given back", l)
		}
		if at := v.Earliest(start, 2); at != start+3*s.Microseconds() {
			t.Errorf("%v: the place given back is at %d, want 3 s", l, at-start)
		}
		v = state.open(&p, start+10*s.Microseconds(), false)
		if n := v.Used(); n != 0 {
			t.Errorf("%v: %d used when all has passed", l, n)
		}
	}
}
