package algorithm

import (
	"testing"

	"github.com/stint-limiter/stint"
)

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
