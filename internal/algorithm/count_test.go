package algorithm

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

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

// found is whether a settlement applied.
func found(_ int64, ok bool) bool { return ok }

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
