package memorystore

import (
	"context"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// When a state expires is said by the limit that it was last written under, not by one that only
// looked for something in it: here one that refills sixty times as fast.
func TestExpiryIsOfTheLimitWrittenUnder(t *testing.T) {
	slow := stint.TokenBucket(1, 1, time.Hour)
	fast := stint.TokenBucket(60, 60, time.Hour)
	ctx := context.Background()
	for _, x := range []struct {
		name string
		look func(s *Store, old stint.Charge) (done stint.Amended, err error)
	}{
		{"settle", func(s *Store, old stint.Charge) (stint.Amended, error) {
			return s.Amend(ctx, old, stint.Amendment{Kind: stint.AmendSettle, Cost: 1})
		}},
		{"give back", func(s *Store, _ stint.Charge) (done stint.Amended, err error) {
			return done, s.Command(ctx, stint.Command{Kind: stint.CommandGiveBack, Subject: "user:1",
				Limits: []stint.Limit{fast}, Units: 1})
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			clock := newClock()
			s := newStore(t, Config{Now: clock.now})
			take := func(l stint.Limit) stint.Decision {
				t.Helper()
				d, err := s.Take(ctx, stint.Request{
					Claims: []stint.Claim{{Subject: "user:1", Limits: []stint.Limit{l}, Cost: 1}}})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			old := take(fast)
			clock.advance(time.Hour)
			take(slow)
			clock.advance(30 * time.Minute)
			if changed, err := x.look(s, old.Charge); changed.Changed || err != nil {
				t.Fatal(changed, err)
			}
			s.Sweep()
			if d := take(slow); d.Allowed || d.RetryAfter != 30*time.Minute {
				t.Errorf("allowed: %v, retry after %v; want a wait of half an hour", d.Allowed, d.RetryAfter)
			}
			checkAccounts(t, s)
		})
	}
}
