package algorithm

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

func parse(t *testing.T, texts string) (limits []stint.Limit) {
	t.Helper()
	for text := range strings.SplitSeq(texts, ", ") {
		l := testkit.Must(stint.ParseLimit(text))(t)
		limits = append(limits, l)
	}
	return limits
}

func TestReachAndIdle(t *testing.T) {
	const bounded = -1 // this limit can deny
	for _, test := range []struct {
		limits string
		reach  []int64
		by     []int // which limit makes it idle
	}{
		{"100/1m", []int64{100}, []int{bounded}},
		{"100/1m burst 3x, 2000/1h, 50000/1d", []int64{300, 2000, 48_000}, []int{bounded, bounded, 1}},
		{"100/1m burst 3x, 2000/1h, 48000/1d", []int64{300, 2000, 48_000}, []int{bounded, bounded, 1}},
		{"100/1m burst 3x, 2000/1h, 47999/1d", []int64{300, 2000, 47_999}, []int{bounded, bounded, bounded}},
		{"30/1m burst 2x, 500/1h, 5000/1d", []int64{60, 500, 5000}, []int{bounded, bounded, bounded}},
		{"1/1s, 100/1m", []int64{1, 60}, []int{bounded, 0}},
		{"a: 1/1s, b: 100/1m", []int64{1, 100}, []int{bounded, bounded}}, // they may count something else
		{"a: 1/1s, a: 100/1m", []int64{1, 60}, []int{bounded, 0}},
		{"1/1s, 60/1m", []int64{1, 60}, []int{bounded, 0}},
		{"1/1s, 59/1m", []int64{1, 59}, []int{bounded, bounded}},
		// Above 125, slices make an hour count for up to 3,628.8 s: 3,628 can deny, 3,629 not.
		{"1/1s, 3600/1h", []int64{1, 3600}, []int{bounded, bounded}},
		{"1/1s, 3628/1h", []int64{1, 3600}, []int{bounded, bounded}},
		{"1/1s, 3629/1h", []int64{1, 3600}, []int{bounded, 0}},
		// The longer limit is the lower one.
		{"100/1m, 50/1h", []int64{50, 50}, []int{1, bounded}},
		// Windows that do not divide: nine times in a minute.
		{"5/7s, 45/1m", []int64{5, 45}, []int{bounded, 0}},
		{"5/7s, 44/1m", []int64{5, 44}, []int{bounded, bounded}},
		// With a burst: 20 at once and 10 more every second, and at most 20 in any second.
		{"10/1s burst 2x, 700/1m", []int64{20, 619}, []int{bounded, 0}},
		{"10/1s burst 2x, 600/1m", []int64{20, 600}, []int{bounded, bounded}},
		// A burst is idle if neither its log nor its meter denies.
		{"10/1s, 600/1m burst 2x", []int64{10, 600}, []int{bounded, 0}},
		{"10/1s, 599/1m burst 2x", []int64{10, 600}, []int{bounded, bounded}},
		// Buckets.
		{"10/1s burst 20 bucket, 624/1m", []int64{20, 619}, []int{bounded, 0}},
		{"10/1s burst 20 bucket, 623/1m", []int64{20, 619}, []int{bounded, bounded}},
		// What was booked stands in the log up to 20 ms longer than in the meter.
		{"1000/1s burst 1000 bucket, 61499/1m", []int64{1000, 60_999}, []int{bounded, 0}},
		{"1000/1s burst 1000 bucket, 61498/1m", []int64{1000, 60_999}, []int{bounded, bounded}},
		{"5/1s, 10/1s burst 20 bucket", []int64{5, 5}, []int{bounded, 0}},
		{"5/1s, 5/1s burst 5 bucket", []int64{5, 5}, []int{bounded, 0}},
		{"5/1s, 5/1s burst 4 bucket", []int64{5, 4}, []int{bounded, bounded}},
		{"5/1s, 4/1s burst 40 bucket", []int64{5, 5}, []int{bounded, bounded}},
		// Fixed windows admit twice their maximum at a boundary; aligned ones begin together.
		{"10/1s fixed, 619/1m", []int64{10, 610}, []int{bounded, bounded}},
		{"10/1s fixed, 620/1m", []int64{10, 610}, []int{bounded, 0}},
		{"10/1s fixed, 600/1m fixed", []int64{10, 600}, []int{bounded, 0}},
		{"10/1s, 600/1m fixed", []int64{10, 600}, []int{bounded, 0}},
		{"5/1s fixed, 10/1s burst 9 bucket", []int64{5, 5}, []int{bounded, bounded}},
		{"5/1s fixed, 10/1s burst 10 bucket", []int64{5, 5}, []int{bounded, 0}},
		// Places can be given back at once, and a limit of nothing says so itself.
		{"1/1s concurrency, 100/1m", []int64{1, 100}, []int{bounded, bounded}},
		{"1/1s, 5/1m concurrency", []int64{1, 5}, []int{bounded, bounded}},
		{"0/1s, 100/1m", []int64{0, 0}, []int{bounded, bounded}},
		// Two that are equal: the caller keeps one of them.
		{"5/1m, 5/1m", []int64{5, 5}, []int{1, 0}},
		// What is leased stands in the log until after the lease.
		{"10/1s burst 2x, 700/1m leased", []int64{20, 619}, []int{bounded, bounded}},
		{"1/1s, 100/1m leased", []int64{1, 60}, []int{bounded, 0}},
		// The largest.
		{"9007199254740992/1ms, 9007199254740992/366d", []int64{MaxUnits, MaxUnits}, []int{1, bounded}},
	} {
		limits := parse(t, test.limits)
		for i := range limits {
			by, _, idle := Idle(limits, i, func(int) bool { return false })
			if !idle {
				by = bounded
			}
			if got, _ := Reach(limits, i); got != test.reach[i] || by != test.by[i] {
				t.Errorf("[%s]: %s: reach %d, idle by %d; want %d, %d",
					test.limits, limits[i], got, by, test.reach[i], test.by[i])
			}
		}
	}
}

// randomLimit has a small window, so that a short time has many of them.
func randomLimit(rng *rand.Rand) stint.Limit {
	window := time.Duration(1+rng.IntN(8)) * time.Second
	if rng.IntN(3) == 0 {
		window += time.Duration(rng.IntN(1000)) * time.Millisecond
	}
	most := 1 + rng.Int64N(12)
	if rng.IntN(2) == 0 {
		most *= 30 // in slices
	}
	switch rng.IntN(6) {
	case 0:
		return stint.TokenBucket(1+rng.Int64N(2*most), most, window)
	case 1:
		return stint.Limit{Max: most, Window: window, Algorithm: stint.AlgorithmFixed}
	case 2:
		return stint.Per(most, window).BurstTimes(2 + rng.Int64N(3))
	default:
		return stint.Per(most, window)
	}
}

// TestReachIsReached takes all that a limit admits as soon as it does, from the best instant on.
func TestReachIsReached(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 400 {
		l := randomLimit(rng)
		p := Of(&l)
		first := start - start%p.Window + p.Window
		if p.Slice > 0 {
			first = start - start%p.Slice + p.Slice - 1
		}
		length := rng.Int64N(4*p.Window) + 1
		var c Count
		taken := int64(0)
		for now := first; now < first+length; {
			v := open(&c, &p, now)
			n := p.Cap
			for n > 0 && !v.Fits(n) {
				n--
			}
			if n > 0 {
				v.Charge(n)
				taken += n
			}
			now = max(earliest(open(&c, &p, now), 1), now+1)
		}
		got := within(&l, length, 1)
		exact := p.unit == 0 || p.Slice == 0 // a log in slices and a meter may not reach both bounds
		if taken > got || exact && taken != got {
			t.Errorf("%s in %d µs: within is %d, but %d were taken", l, length, got, taken)
		}
	}
}

// TestIdleLimitsNeverDeny takes at random all that the other limits admit, at once or booked.
func TestIdleLimitsNeverDeny(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	idle, steps := 0, 60
	if testing.Short() {
		steps = 20
	}
	for range 3000 {
		limits := []stint.Limit{randomLimit(rng), randomLimit(rng)}
		by, _, ok := Idle(limits, 1, func(int) bool { return false })
		if !ok {
			continue
		}
		idle++
		p := []Params{Of(&limits[0]), Of(&limits[1])}
		c := make([]Count, 2)
		now := start + rng.Int64N(p[1].Window)
		for range steps {
			free, other := open(&c[by], &p[by], now), open(&c[1], &p[1], now)
			n := p[by].Cap
			if rng.IntN(3) == 0 {
				n = 1 + rng.Int64N(n)
			}
			for n > 1 && !free.Fits(n) {
				n--
			}
			switch at := earliest(free, n); {
			case at == now:
				if !other.Fits(n) {
					t.Fatalf("%s denies %d, and %s does not", limits[1], n, limits[by])
				}
				free.Charge(n)
				other.Charge(n)
			case rng.IntN(3) == 0:
				if got := earliest(other, n); got > at {
					t.Fatalf("%s makes a caller wait until %d, and %s until %d", limits[1], got, limits[by], at)
				}
				end := max(at+maxGrace, free.LastEnd(), other.LastEnd())
				free.Book(at, end, n)
				other.Book(at, end, n)
			}
			now = max(now+rng.Int64N(3), earliest(open(&c[by], &p[by], now), 1)+rng.Int64N(2)*rng.Int64N(p[by].Window))
		}
	}
	if idle < 200 {
		t.Errorf("only %d idle limits were tried", idle)
	}
}
