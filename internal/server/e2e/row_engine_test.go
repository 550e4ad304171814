package e2e

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// admission is when a call was made and answered: its charge is somewhere in between.
type admission struct{ asked, answered time.Time }

// mostIn returns how many of these were charged in one window of this length, at least.
func mostIn(window time.Duration, admitted []admission) int {
	slices.SortFunc(admitted, func(a, b admission) int { return cmp.Compare(a.asked.UnixNano(), b.asked.UnixNano()) })
	most := 0
	for i := range admitted {
		n := 0
		for _, a := range admitted[i:] {
			if a.answered.Sub(admitted[i].asked) < window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestA1NoWindowHasMore than the limit, at the edges: four processes with many callers over one
// Redis, which stops for a while again and again so that replies are late and calls are given up,
// while charges are refunded twice. What is refunded is not counted. Without Redis nobody is
// admitted here, so the bound is the limit itself.
func TestA1NoWindowHasMore(t *testing.T) {
	t.Parallel()
	const (
		most   = 20
		window = 400 * time.Millisecond
	)
	redis := redistest.Start(t)
	var (
		mu       sync.Mutex
		admitted []admission
		group    sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 {
		plain, err := redisstore.Open(
			t.Context(), redisstore.Config{URL: redis.URL(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		store, err := resilience.New(plain, resilience.Config{
			Failure: stint.FailurePolicy{Mode: stint.FailDeny}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		lim, err := stint.New(store, stint.Per(most, window))
		if err != nil {
			t.Fatal(err)
		}
		for caller := range 16 {
			group.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					asked := time.Now()
					d, err := lim.Allow(ctx, "user:42")
					answered := time.Now()
					switch {
					case err != nil || !d.Allowed:
					case (n+caller)%5 == 0:
						_, _ = lim.Refund(ctx, d)
						_, _ = lim.Refund(ctx, d) // gives nothing back
					default:
						mu.Lock()
						admitted = append(admitted, admission{asked, answered})
						mu.Unlock()
					}
				}
			})
		}
	}
	began := time.Now()
	eventually.True(t, "some were admitted in every window", func() bool { // on a busy machine few are answered in time
		redis.Pause(t)
		time.Sleep(30 * time.Millisecond)
		redis.Resume(t)
		time.Sleep(170 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		return time.Since(began) > 4*time.Second && len(admitted) >= 2*most
	})
	cancel()
	group.Wait()
	if got := mostIn(window, admitted); got > most {
		t.Errorf("%d were admitted in %v, want at most %d", got, window, most)
	}
}

// TestC2BurstIsSmoothAfterwards: "10 a minute, 2x" is 20 in any minute at most, and after a burst
// nobody is locked out for longer than a minute: from then on it is 10 a minute.
func TestC2BurstIsSmoothAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memorystore.New(memorystore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		lim, err := stint.New(store, stint.PerMinute(10).WithBurst(2))
		if err != nil {
			t.Fatal(err)
		}
		var admitted []time.Time
		for range 10 * 60 * 4 { // ten minutes of a caller who takes all there is
			d, err := lim.Allow(t.Context(), "user:42")
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				admitted = append(admitted, time.Now())
			}
			time.Sleep(time.Second / 4)
		}
		for i, at := range admitted {
			n := 0
			for _, later := range admitted[i:] {
				if later.Sub(at) < time.Minute {
					n++
				}
			}
			if n > 20 {
				t.Fatalf("%d were admitted in the minute from %v, want at most 20", n, at.Sub(admitted[0]))
			}
			if i > 0 && at.Sub(admitted[i-1]) > time.Minute {
				t.Errorf("nobody was admitted for %v", at.Sub(admitted[i-1]))
			}
		}
		if got := len(admitted); got < 10*10 || got > 20+10*10 {
			t.Errorf("%d were admitted in ten minutes, want 100 and the burst", got)
		}
	})
}

// TestD1WaitAnswers as the documents do: five calls at once under 4 a second; the fifth waits for
// room, and its answer has no retry-after and no more used than there is. Without waiting, it gets
// an error with the key.
func TestD1WaitAnswers(t *testing.T) {
	t.Parallel()
	store, err := redisstore.Open(t.Context(), redisstore.Config{URL: redistest.Start(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	lim, err := stint.New(store, stint.Per(4, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		d, err := lim.Wait(t.Context(), "igdb:api")
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed || d.RetryAfter != 0 || d.Remaining() < 0 || d.Usages()[0].Used > 4 {
			t.Errorf("call %d: allowed %t, retry after %v, %d remaining, %d used",
				i+1, d.Allowed, d.RetryAfter, d.Remaining(), d.Usages()[0].Used)
		}
	}
	var denied *stint.DeniedError
	for range 4 { // the fifth call may still be all there is of its second
		d, err := lim.Allow(t.Context(), "igdb:api")
		if err != nil {
			t.Fatal(err)
		}
		if errors.As(d.Err(), &denied) {
			break
		}
	}
	if denied == nil {
		t.Fatal("9 calls were allowed, want a denial")
	}
	if got, want := denied.Error(), "rate limit exceeded for key 'igdb:api'"; !strings.Contains(got, want) {
		t.Errorf("the error is %q, want %q", got, want)
	}
	if denied.RetryAfter <= 0 || denied.RetryAfter > time.Second {
		t.Errorf("retry after %v, want a part of a second", denied.RetryAfter)
	}
}
