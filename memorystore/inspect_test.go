package memorystore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

func takeIn(t testing.TB, s *Store, subject, scope string, l stint.Limit) {
	r := stint.Request{Claims: []stint.Claim{{Subject: subject, Scope: scope, Limits: []stint.Limit{l}, Cost: 1}}}
	if _, err := s.Take(context.Background(), r); err != nil {
		t.Error(err)
	}
}

// What has expired is not listed, though the sweeper has not come by.
func TestScopesThatHaveExpired(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	for _, l := range []stint.Limit{stint.PerMinute(5), stint.TokenBucket(5, 5, time.Minute),
		stint.AtOnce(5, time.Minute)} {
		takeIn(t, s, "user:1", "a minute of "+l.Algorithm.String(), l)
	}
	takeIn(t, s, "user:1", "an hour", stint.PerHour(5))
	for _, want := range []int{4, 1, 0} {
		if got, err := s.Scopes(t.Context(), "user:1"); err != nil || len(got) != want {
			t.Errorf("scopes %q, %v; want %d", got, err, want)
		}
		clock.advance(30 * time.Minute)
		if want == 1 {
			clock.advance(time.Hour)
		}
	}
}

// Scopes are listed while others come and go; one that is counted in all the time is never missed.
func TestScopesWhileOthersAreBusy(t *testing.T) {
	s := newStore(t, Config{})
	var want []string
	for i := range 300 {
		scope := fmt.Sprintf("%03d", i) + strings.Repeat("x", i%30) // short keys and long ones
		want = append(want, scope)
		takeIn(t, s, "steady", scope, stint.PerHour(5))
	}
	busy, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; busy.Err() == nil; i++ {
			takeIn(t, s, user(i), "", stint.Per(5, time.Millisecond))
		}
	})
	for range 20 {
		if got, err := s.Scopes(t.Context(), "steady"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d scopes, %v; want %d", len(got), err, len(want))
		}
	}
	stop()
	work.Wait()
}
