package resilience

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// After the store's clock has gone back, its answers are taken over again within a second: what
// others use is known, and nobody is locked out for longer than it takes anyway.
func TestStoreClockGoesBack(t *testing.T) {
	for name, limit := range eachKind(1, time.Minute) {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				r := oneUnit("a", limit)
				used := admitted(t, s, 5, r)
				store.ahead.Add(-int64(time.Hour))
				used += admitted(t, s, 1, r)
				time.Sleep(1100 * time.Millisecond)
				used += admitted(t, store.Store, 5, r) // by others
				used += admitted(t, s, 1, r)
				if used != 12 {
					t.Fatalf("%d admitted by the store, want 12", used)
				}
				store.fail(refusedCall())
				if n := used + admitted(t, s, 30, r); n != 20 {
					t.Errorf("%d admitted in all, want 20", n)
				}
				time.Sleep(time.Duration(limit.Capacity()/limit.Max)*time.Minute + limit.Window/parts)
				wantAdmitted(t, s, 30, r, 20)
			})
		})
	}
}

// A denial that overrules the store says when to come back.
func TestOverruledSaysWhenToRetry(t *testing.T) {
	for _, limit := range []stint.Limit{stint.PerHour(20), stint.TokenBucket(20, 20, time.Hour),
		{Max: 20, Window: time.Hour, Algorithm: stint.AlgorithmFixed}} {
		t.Run(limit.String(), func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				r := oneUnit("a", limit)
				store.down()
				admitted(t, s, 20, r)
				store.up()
				d := mustDecide(t, s, r)
				if d.Allowed || d.RetryAfter == 0 || d.Usages()[0].RetryAfter == 0 {
					t.Errorf("allowed %v, retry after %v, usage %+v", d.Allowed, d.RetryAfter, d.Usages()[0])
				}
			})
		})
	}
}
