package histories

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// Windows counts as much as a search through all windows of all that was admitted by then and not
// withdrawn.
func TestWindows(t *testing.T) {
	type admission struct {
		limit, subject int
		from, to       time.Duration
		n              int64
		degraded       bool
	}
	limits := []stint.Limit{stint.Per(5, 10), {Max: 5, Window: 7, Algorithm: stint.AlgorithmFixed}, stint.Per(5, 40)}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := NewWindows(&limits[0], &limits[1], &limits[2])
		var all []admission
		for to := time.Duration(0); to < 300; to += time.Duration(rng.IntN(4)) {
			a := admission{rng.IntN(3), rng.IntN(2), to - time.Duration(rng.IntN(12)), to, 1 + rng.Int64N(3),
				rng.IntN(3) == 0}
			all = append(all, a)
			got, gotDegraded := w.Admit(a.limit, a.subject, a.from, a.to, a.n, a.degraded)
			want, wantDegraded := int64(0), int64(0)
			begin := to - limits[a.limit].Window + 1 // the first instant of the window that ends now
			if limits[a.limit].Algorithm == stint.AlgorithmFixed {
				begin = to.Truncate(7)
			}
			for _, b := range all {
				if b.limit == a.limit && b.subject == a.subject && b.from >= begin && a.from >= begin {
					want += b.n
					if b.degraded {
						wantDegraded += b.n
					}
				}
			}
			if got != want || gotDegraded != wantDegraded {
				t.Fatalf("seed %d, %+v: %d, %d of them without the store; want %d and %d", seed, a, got, gotDegraded,
					want, wantDegraded)
			}
			if back := &all[rng.IntN(len(all))]; rng.IntN(4) == 0 && back.n > 0 {
				w.Withdraw(back.limit, back.subject, back.from, back.n, back.degraded)
				back.n = 0
			}
		}
		if w.sweep(1000); len(w.tracks) > 0 {
			t.Fatalf("%d subjects are remembered for ever", len(w.tracks))
		}
	}
}
