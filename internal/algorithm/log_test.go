package algorithm

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// start is a multiple of every window and slice that is used here.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// open opens a count at now, without its owner's clock.
func open(c *Count, p *Params, now int64) *View {
	v := new(View)
	v.Open(c, p, now, 0)
	return v
}

// earliest is when a cost has room if nothing else happens.
func earliest(v *View, cost int64) int64 {
	if v.Fits(cost) {
		return v.now
	}
	_, last := v.Bookings()
	return v.Earliest(max(v.now, last), cost)
}

const s = time.Second

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
	if bytes := 8 * cap(l.words); bytes > 16*MaxEntries+100 {
		t.Fatalf("%d bytes", bytes)
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

// Logs of all sizes and widths, their rings turned, get entries in any order, of a limit whose
// entries are exact and of one that is counted in slices.
func TestAppendKeepsTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	sliced, exact := stint.PerSecond(1000), stint.PerSecond(100)
	params := [2]Params{Of(&sliced), Of(&exact)}
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
			log.append(&params[rng.IntN(2)], stamp, n)
			if got := entries(t, &log); !slices.Equal(got, want) {
				t.Fatalf("after %d at %d:\ngot  %v\nwant %v", n, stamp, got, want)
			}
		}
	}
}
