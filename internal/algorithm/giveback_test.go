package algorithm

import (
	"math/rand/v2"
	"testing"

	"github.com/stint-limiter/stint"
)

func TestGiveBack(t *testing.T) {
	for _, x := range []struct {
		name    string
		limit   stint.Limit
		charges []int64 // 100 ms apart
		units   int64
		applies bool
		used    int64 // then
		later   int64 // 850 ms after the first charge
	}{
		{"nothing is used", stint.PerSecond(10), nil, 1, false, 0, 0},
		{"a part of the oldest", stint.PerSecond(10), []int64{4, 3}, 1, true, 6, 6},
		{"the oldest", stint.PerSecond(10), []int64{4, 3}, 4, true, 3, 3},
		{"the oldest and a part", stint.PerSecond(10), []int64{4, 3, 2}, 6, true, 3, 3},
		{"all", stint.PerSecond(10), []int64{4, 3, 2}, 9, true, 0, 0},
		{"more than all", stint.PerSecond(10), []int64{4, 3, 2}, MaxUnits, true, 0, 0},
		{"wide counts", stint.PerSecond(10_000), []int64{400, 300, 200}, 500, true, 400, 400},
		{"out of the window", stint.Per(10, s/20), []int64{4}, 4, false, 0, 0},
		{"fixed", stint.Limit{Max: 10, Window: s, Algorithm: stint.AlgorithmFixed}, []int64{4, 3}, 5, true, 2, 2},
		{"bucket", stint.TokenBucket(10, 1, s), []int64{4, 4}, 3, true, 5, 5},
		{"bucket, more than all", stint.TokenBucket(10, 1, s), []int64{4, 4}, MaxUnits, true, 0, 0},
		{"an empty bucket", stint.TokenBucket(10, 1, s), nil, 1, false, 0, 0},
		{"burst", stint.PerSecond(5).WithBurst(2), []int64{4, 4}, 3, true, 5, 5},
		{"burst, more than all", stint.PerSecond(5).WithBurst(2), []int64{4, 4}, MaxUnits, true, 0, 0},
		{"a bucket that does not refill", stint.TokenBucket(10, 0, s), nil, 1, false, 0, 0},
	} {
		var c Count
		p, now := Of(&x.limit), start
		for _, cost := range x.charges {
			open(&c, &p, now).Charge(cost)
			now += (s / 10).Microseconds()
		}
		v := open(&c, &p, now)
		if got := v.GiveBack(x.units); got != x.applies || v.Used() != x.used {
			t.Errorf("%s: applies is %v, used %d; want %v, %d", x.name, got, v.Used(), x.applies, x.used)
		}
		if got := open(&c, &p, now).Used(); got != x.used {
			t.Errorf("%s: %d is kept, want %d", x.name, got, x.used)
		}
		if got := open(&c, &p, start+(850*1000*us).Microseconds()).Used(); got != x.later {
			t.Errorf("%s: used %d later, want %d", x.name, got, x.later)
		}
	}
}

func TestGiveBackLeavesWhatLiesAhead(t *testing.T) {
	for _, l := range []stint.Limit{stint.PerSecond(10), stint.PerSecond(1000)} {
		p := Of(&l)
		var c Count
		v := open(&c, &p, start)
		v.Charge(2)
		v.Lease(start+(s/10).Microseconds(), 3)
		v.Book(start+(s/5).Microseconds(), start+(s/5).Microseconds()+10_000, 4)
		if !v.GiveBack(MaxUnits) || v.Used() != 7 {
			t.Errorf("%v: used %d, want 7 that lie ahead", &l, v.Used())
		}
		if v.GiveBack(1) {
			t.Errorf("%v: what lies ahead was given back", &l)
		}
		v = open(&c, &p, start+(s/5).Microseconds())
		if !v.GiveBack(MaxUnits) || v.Used() != 4 {
			t.Errorf("%v: used %d when it has come, want the 4 that are used now", &l, v.Used())
		}
	}
}

// A log with units taken off is the log of what is left, wherever its ring begins.
func TestGiveBackAroundTheRing(t *testing.T) {
	l := stint.PerSecond(100)
	p := Of(&l)
	var c Count
	var left []int64 // the time of each unit
	now, rand := start, rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		now += rand.Int64N((s / 50).Microseconds())
		for len(left) > 0 && left[0] <= now-p.Span {
			left = left[1:]
		}
		v := open(&c, &p, now)
		if n := min(1+rand.Int64N(5), p.Cap-v.Used()); n > 0 {
			v.Charge(n)
			for range n {
				left = append(left, now)
			}
		}
		if rand.IntN(4) == 0 {
			n := 1 + rand.Int64N(60)
			v.GiveBack(n)
			left = left[min(int(n), len(left)):]
		}
		reset := int64(0)
		if len(left) > 0 {
			reset = left[len(left)-1] + p.Span - now
		}
		if v.Used() != int64(len(left)) || v.Reset() != reset {
			t.Fatalf("used %d, reset %d; want %d, %d", v.Used(), v.Reset(), len(left), reset)
		}
	}
}
