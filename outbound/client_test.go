package outbound_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/outbound"
)

// A call that is refused for want of the store does not read as if the API's limit were exceeded.
func TestUnavailable(t *testing.T) {
	for _, failFast := range []bool{true, false} {
		api := igdb()
		api.FailFast = failFast
		c := newClient(t, guardtest.Away{}, api)
		_, err := c.Wait(t.Context())
		wantDenied(t, err)
		if got, want := err.Error(), "denied for key 'igdb:api': the rate limiter is unavailable"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if s := c.Stats(); s.Denied != 1 || s.Failed != 0 {
			t.Errorf("stats are %+v", s)
		}
	}
}

// Golden example 3: a look after three consumes nothing.
func TestPeek(t *testing.T) {
	c := newClient(t, newMemory(t), outbound.API{Name: "igdb", Limits: []stint.Limit{stint.PerHour(4)}})
	for range 3 {
		mustWait(t, c)
	}
	for range 2 {
		d, err := c.Peek(t.Context())
		if err != nil || !d.Allowed || d.Remaining() != 1 {
			t.Errorf("allowed is %v, %d remain, %v; want true, 1", d.Allowed, d.Remaining(), err)
		}
	}
	c.Cooldown(time.Minute)
	if d, err := c.Peek(t.Context()); err != nil || d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > time.Minute {
		t.Errorf("in a pause: %+v, %v", d, err)
	}
}

func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := outbound.API{Name: "igdb", Limits: []stint.Limit{stint.Per(1, 30*time.Second)},
			MaxWait: 15 * time.Second}
		c := newClient(t, newMemory(t), api)
		mustWait(t, c)
		start := time.Now()
		// A pause that takes too long: no waiting, no place taken.
		c.Cooldown(16 * time.Second)
		_, err := c.Wait(t.Context())
		if got := wantDenied(t, err); got != 16*time.Second || !errors.Is(err, outbound.ErrCoolingDown) {
			t.Errorf("got %v after %v", err, got)
		}
		if errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("after %v: %v; want it at once, and no deadline", time.Since(start), err)
		}
		// A pause that is short enough, with a place after it that is not.
		time.Sleep(6 * time.Second)
		start = time.Now()
		_, err = c.Wait(t.Context())
		if got := wantDenied(t, err); got != 14*time.Second || errors.Is(err, outbound.ErrCoolingDown) {
			t.Errorf("got %v, to retry after %v; want a denial by the limit, 14s", err, got)
		}
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("it took %v, want the pause of 10s", got)
		}
		// Nothing of that took a place.
		wantCallAt(t, c, start, 24*time.Second)
	})
}

func TestContextBoundsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newMemory(t), igdb())
		c.Cooldown(time.Minute)
		start := time.Now()
		deadline, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Wait(deadline)
		if got := wantDenied(t, err); got != time.Minute || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(start) != 0 {
			t.Errorf("got %v after %v, want a denial for want of time, at once", err, time.Since(start))
		}
		canceled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := c.Wait(canceled); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("got %v after %v, want the end of the context after 1s", err, time.Since(start))
		}
		if _, err := c.Wait(canceled); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the context has ended", err)
		}
		if s := c.Stats(); s.Denied != 1 || s.Failed != 2 {
			t.Errorf("stats are %+v", s)
		}
	})
}

func TestCanceledWaitGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newMemory(t), outbound.API{Name: "igdb", Limits: []stint.Limit{stint.PerSecond(1)}})
		start := time.Now()
		mustWait(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		if _, err := c.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the end of the context", err)
		}
		wantCallAt(t, c, start, time.Second)
	})
}

// witness is an observer that remembers.
type witness struct {
	mu    sync.Mutex
	calls []string
	waits []time.Duration
}

func (w *witness) Observe(_ context.Context, event stint.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *outbound.Call:
		what := "called " + e.API
		if e.Err != nil {
			what = "refused " + e.API
		}
		w.calls, w.waits = append(w.calls, what), append(w.waits, e.Wait)
	case *outbound.Cooldown:
		w.calls, w.waits = append(w.calls, "cooled down "+e.API), append(w.waits, e.For)
	}
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(witness)
		api := igdb()
		api.MaxWait = 30 * time.Second
		c := clientOf(t, newRegistryWith(t, newMemory(t), outbound.Config{Observer: w}, api), "igdb")
		mustWait(t, c)
		c.Cooldown(time.Minute)
		c.Cooldown(time.Hour) // prolonged, to the longest there is
		if _, err := c.Wait(t.Context()); err == nil {
			t.Error("called in a pause")
		}
		time.Sleep(15*time.Minute - 5*time.Second)
		mustWait(t, c)
		synctest.Wait()
		want := []string{"called igdb", "cooled down igdb", "refused igdb", "called igdb"}
		waits := []time.Duration{0, time.Minute, 0, 5 * time.Second}
		if !slices.Equal(w.calls, want) || !slices.Equal(w.waits, waits) {
			t.Errorf("got %q, %v; want %q, %v", w.calls, w.waits, want, waits)
		}
	})
}
