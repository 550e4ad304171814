package algorithm

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-limiter/stint"
)

// pair is an entry of a log.
type pair struct{ stamp, n int64 }

// entries lists a log's, and checks what it keeps beside them.
func entries(t *testing.T, l *log) []pair {
	t.Helper()
	var list []pair
	var sum int64
	for k := range int(l.n) {
		stamp, n := l.entry(k)
		list = append(list, pair{stamp, n})
		sum += n
	}
	if l.n > 0 && (l.oldest() != list[0].stamp || l.newest() != list[l.n-1].stamp) || sum != l.sum {
		t.Fatalf("oldest %d, newest %d, sum %d of %v", l.oldest(), l.newest(), l.sum, list)
	}
	return list
}

// appended is what the rules say.
func appended(list []pair, stamp, n int64) []pair {
	if i := slices.IndexFunc(list, func(x pair) bool { return x.stamp == stamp }); i >= 0 {
		list[i].n += n
		return list
	}
	list = append(list, pair{stamp, n})
	slices.SortFunc(list, func(a, b pair) int { return cmp.Compare(a.stamp, b.stamp) })
	if len(list) > MaxEntries {
		list[1].n += list[0].n
		list = list[1:]
	}
	return list
}

// Logs of all sizes and widths, their rings turned, get entries in any order.
func TestAppendKeepsTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	limit := stint.PerSecond(1000)
	p := Of(&limit)
	for range 300 {
		var log log
		var want []pair
		stamps, largest := 1+rng.Int64N(600), []int64{1, 200, 300}[rng.IntN(3)]
		for i := range 1 + rng.Int64N(900) {
			if rng.IntN(20) == 0 && len(want) > 0 {
				k := 1 + rng.IntN(len(want))
				var gone int64
				for _, x := range want[:k] {
					gone += x.n
				}
				want = want[k:]
				log.dropOldest(k, gone)
			}
			stamp, n := start+i/2+rng.Int64N(stamps), 1+rng.Int64N(largest)
			want = appended(want, stamp, n)
			log.append(&p, stamp, n)
			if got := entries(t, &log); !slices.Equal(got, want) {
				t.Fatalf("after %d at %d:\ngot  %v\nwant %v", n, stamp, got, want)
			}
		}
	}
}

func TestLease(t *testing.T) {
	second := s.Microseconds()
	for _, x := range []struct {
		limit stint.Limit
		until int64 // when a lease of a second and a half counts no more
	}{
		{stint.PerSecond(10), 5 * second / 2},
		{stint.PerSecond(1000), 2_504_000}, // in slices of 8 ms
		{stint.PerSecond(5).WithBurst(2), 5 * second / 2},
		{stint.Limit{Max: 10, Window: s, Algorithm: stint.AlgorithmFixed}, 2 * second},
	} {
		p := Of(&x.limit)
		var c Count
		v := open(&c, &p, start)
		v.Charge(1)
		v.Lease(start+3*second/2, 4)
		v.Charge(2)
		if v.Used() != 7 || v.Reset() != x.until || len(entries(t, &c.log)) > 2 {
			t.Errorf("%v: used %d, reset %d, want 7 and %d", x.limit, v.Used(), v.Reset(), x.until)
		}
		at := start + x.until
		if v = open(&c, &p, at-1); v.Used() != 4 || c.Dead(&p, at-1) || earliest(v, p.Cap) != at {
			t.Errorf("%v: used %d a microsecond before the lease counts no more", x.limit, v.Used())
		}
		if v = open(&c, &p, at); v.Used() != 0 || !v.Fits(p.Cap) {
			t.Errorf("%v: used %d when the lease counts no more", x.limit, v.Used())
		}
		if !c.Dead(&p, at+2*second) {
			t.Errorf("%v: not forgotten", x.limit)
		}
	}
}

// Both are found by their own instant, for as long as they count.
func TestSettleBesideALease(t *testing.T) {
	limit := stint.PerSecond(10)
	p, second := Of(&limit), s.Microseconds()
	var c Count
	v := open(&c, &p, start)
	v.Lease(start+3*second, 5)
	v.Charge(4)
	v = open(&c, &p, start+second/2)
	if !found(v.Settle(start, 4, 1, 0)) || v.Used() != 6 || !found(v.Settle(start+3*second, 5, 3, 0)) || v.Used() != 4 {
		t.Errorf("used %d, want 4", v.Used())
	}
	v.Book(start+2*second, start+3*second, 2) // ends with the lease, and is settled first
	if !found(v.Settle(start+3*second, 2, 0, 0)) || v.Used() != 4 || !found(v.Settle(start+3*second, 3, 0, 0)) ||
		v.Used() != 1 {
		t.Errorf("used %d, want 1", v.Used())
	}
	if found(v.Settle(start+3*second, 1, 0, 0)) {
		t.Error("settled what is not there")
	}
}
