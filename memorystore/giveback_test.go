package memorystore

import (
	"context"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// What is given back is accounted for, and what is left expires as it would have.
func TestGiveBackKeepsAccounts(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	ctx := context.Background()
	plain := []stint.Limit{stint.PerMinute(200), stint.TokenBucket(50, 1, time.Second), stint.AtOnce(300, time.Minute)}
	changed := []stint.Limit{stint.PerMinute(10), stint.TokenBucket(10, 1, time.Second), stint.AtOnce(1, time.Minute)}
	take := func(r stint.Request) {
		t.Helper()
		if d, err := s.Take(ctx, r); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	for i := range 200 {
		subject := user(i % 4)
		if i < 40 {
			take(stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: plain, Cost: 1}}})
		} else {
			take(stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: plain[:2], Cost: 1}},
				Mode: stint.ModeReserve})
		}
		clock.advance(10 * time.Millisecond)
		limits := plain
		if i%8 >= 4 {
			limits = changed
		}
		if err := s.Command(ctx, stint.Command{Kind: stint.CommandGiveBack, Subject: subject, Limits: limits,
			Units: int64(1 + i%3)}); err != nil {
			t.Fatal(err)
		}
		checkAccounts(t, s)
	}
	clock.advance(2 * time.Hour)
	s.Sweep()
	if n := s.Len(); n != 0 {
		t.Errorf("%d subjects are left", n)
	}
	checkAccounts(t, s)
	for i := range s.shards {
		if n := len(s.shards[i].variantOf); n != 0 {
			t.Fatalf("%d limits are remembered of nobody", n)
		}
	}
}
