package memorystore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/storetest"
)

func newStore(t testing.TB, cfg Config) *Store {
	t.Helper()
	return testkit.Opened(New(cfg))(t)
}

// newClocked returns a store whose clock the test moves.
func newClocked(t testing.TB, cfg Config) (*Store, *storetest.Clock) {
	t.Helper()
	clock := new(storetest.Clock)
	cfg.Now = clock.Now
	return newStore(t, cfg), clock
}

func newLimiter(t testing.TB, s stint.Store, options ...stint.Option) *stint.Limiter {
	t.Helper()
	return testkit.Must(stint.New(s, options...))(t)
}

// units is a request for units of a subject.
func units(subject string, cost int64, limits ...stint.Limit) stint.Request {
	return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: cost}}}
}

// admit decides a request that is to be allowed.
func admit(t testing.TB, s *Store, r stint.Request) stint.Decision {
	t.Helper()
	d := take(t, s, r)
	if !d.Allowed {
		t.Fatalf("denied: %+v", d)
	}
	return d
}

func mustBan(t testing.TB, s *Store, subject string) {
	t.Helper()
	if err := s.Command(t.Context(), stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Hour}); err != nil {
		t.Fatal(err)
	}
}

func allow(t testing.TB, lim *stint.Limiter, subject string) stint.Decision {
	t.Helper()
	return testkit.Must(lim.Allow(context.Background(), subject))(t)
}

func TestConfigMistakesAreAllReported(t *testing.T) {
	_, err := New(Config{MaxSubjects: -1, MaxBytes: -1})
	var invalid *stint.InvalidError
	if !errors.As(err, &invalid) || invalid.Err.Error() != fmt.Sprintf(
		"memorystore: MaxSubjects is -1; want 0 to %d\nMaxBytes is -1; want 0 or more", maxSubjects) {
		t.Errorf("got %v", err)
	}
}

func TestNoAllocations(t *testing.T) {
	minute, hour, bucket := stint.PerMinute(50), stint.PerHour(5000), stint.TokenBucket(1_000_000, 1000, time.Second)
	for _, limits := range [][]stint.Option{{minute}, {minute, hour}, {minute, hour, bucket},
		{minute.WithName("n"), stint.PerSecond(5).BurstTimes(2).WithName("n")}} {
		s, clock := newClocked(t, Config{})
		lim := newLimiter(t, s, limits...)
		ctx := context.Background()
		for range 1000 { // until the rings have their size
			clock.Advance(time.Second)
			lim.Allow(ctx, "user:1")
		}
		if a := testing.AllocsPerRun(500, func() {
			clock.Advance(2 * time.Second)
			if d, _ := lim.Allow(ctx, "user:1"); !d.Allowed {
				t.Fatal("denied")
			}
		}); a != 0 {
			t.Errorf("%v: %v allocations to allow", limits, a)
		}
		for allow(t, lim, "user:1").Allowed {
		}
		if a := testing.AllocsPerRun(500, func() {
			if d, _ := lim.Allow(ctx, "user:1"); d.Allowed {
				t.Fatal("allowed")
			}
		}); a != 0 {
			t.Errorf("%v: %v allocations to deny", limits, a)
		}
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	s := testkit.Must(New(Config{}))(t)
	for range 2 { // a second time changes nothing
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	// The goroutine has closed its channel; it may take a moment to be gone.
	testkit.Eventually(t, "there are no more goroutines than before",
		func() bool { return runtime.NumGoroutine() <= before })
	_, take := s.Take(t.Context(), units("a", 1, stint.PerHour(1)))
	_, amend := s.Amend(t.Context(), stint.Charge{}, stint.Amendment{Kind: stint.AmendSettle})
	_, inspect := s.Inspect(t.Context(), stint.Claim{Subject: "a"})
	_, bans := s.Bans(t.Context(), 1)
	_, scopes := s.Scopes(t.Context(), "a")
	for op, err := range map[string]error{"take": take, "amend": amend,
		"command": s.Command(t.Context(), stint.Command{}), "inspect": inspect, "bans": bans, "scopes": scopes} {
		var failure *stint.StoreError
		if !errors.Is(err, errClosed) || !errors.As(err, &failure) || failure.Op != op {
			t.Errorf("%s after Close: %v", op, err)
		}
	}
}

// Nothing that Validate would refuse makes the store panic.
func TestOddInputIsHarmless(t *testing.T) {
	s := newStore(t, Config{})
	ctx := context.Background()
	bad := []stint.Limit{{}, {Max: -1, Window: -1}, {Max: 1, Burst: 7, Window: 1, Algorithm: 9},
		{Max: 1, Window: 1 << 62, Algorithm: stint.AlgorithmBucket}}
	for _, cost := range []int64{-1, 0, 1, 1 << 62} {
		for i := range bad {
			c := stint.Claim{Subject: "a", Limits: bad[i : i+1], Cost: cost}
			s.Take(ctx, stint.Request{Claims: []stint.Claim{c}})
			s.Take(ctx, stint.Request{Claims: []stint.Claim{c, c, c}, Mode: stint.ModeReserve, ID: "x"})
			s.Command(ctx, stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: bad})
		}
	}
	s.Take(ctx, stint.Request{})
	s.Command(ctx, stint.Command{Kind: 9, Subject: "b"})
}
