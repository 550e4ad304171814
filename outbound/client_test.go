package outbound_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/outbound"
)

// Golden example 1: four return at once, the fifth waits until a place is free.
func TestWaitInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newMemory(t), igdb())
		start := time.Now()
		for i, want := range []time.Duration{0, 0, 0, 0, time.Second} {
			d := mustWait(t, c)
			if !d.Allowed || d.RetryAfter != 0 {
				t.Errorf("call %d: allowed is %v, retry-after %v", i, d.Allowed, d.RetryAfter)
			}
			if got := time.Since(start); got != want {
				t.Errorf("call %d returned after %v, want %v", i, got, want)
			}
		}
		s := c.Stats()
		if s.Calls != 5 || s.Waited != 1 || s.TotalWait != time.Second || s.LongestWait != time.Second ||
			s.Waiting != 0 {
			t.Errorf("stats are %+v", s)
		}
	})
}

// away is an unavailable store, under [stint.FailDeny].
type away struct{ stint.Store }

func (away) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	return stint.Decision{Degraded: true, Unavailable: true, RetryAfter: time.Second,
		Charge: driver.NewCharge(r.Claims, driver.ChargeData{})}, nil
}

// A call that is refused for want of the store does not read as if the API's limit were exceeded.
func TestUnavailable(t *testing.T) {
	for _, failFast := range []bool{true, false} {
		api := igdb()
		api.FailFast = failFast
		c := newClient(t, away{newMemory(t)}, api)
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

// Golden example 2: the fifth returns the typed error with the key and when to try again.
func TestFailFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := igdb()
		api.FailFast = true
		c := newClient(t, newMemory(t), api)
		for range 4 {
			mustWait(t, c)
		}
		time.Sleep(150 * time.Millisecond)
		_, err := c.Wait(t.Context())
		if got, want := wantDenied(t, err), 850*time.Millisecond; got != want {
			t.Errorf("retry after %v, want %v", got, want)
		}
		if got, want := err.Error(), "rate limit exceeded for key 'igdb:api'"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if errors.Is(err, outbound.ErrCoolingDown) {
			t.Error("there is no pause")
		}
		if s := c.Stats(); s.Calls != 4 || s.Denied != 1 {
			t.Errorf("stats are %+v", s)
		}
	})
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

// Golden example 4: two processes take turns under one limit.
func TestTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(t)
		clients := []*outbound.Client{newClient(t, store, igdb()), newClient(t, store, igdb())}
		start := time.Now()
		for i := range 5 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * 100 * time.Millisecond)))
			before := time.Since(start)
			mustWait(t, clients[i%2])
			want := before
			if i == 4 {
				want = time.Second
			}
			if got := time.Since(start); got != want {
				t.Errorf("call %d was admitted at %v, want %v", i, got, want)
			}
		}
	})
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

// A caller that gave up after a while has waited; one that was refused at once has not.
func TestWaitsInVain(t *testing.T) {
	tests := []struct {
		name  string
		pause time.Duration
		limit stint.Limit
		end   time.Duration // when the context is canceled; 0 is before the call
		last  time.Duration // what the context has, if it has a deadline
		want  time.Duration
	}{
		{"for a place", 0, stint.Per(1, 10*time.Second), 3 * time.Second, 0, 3 * time.Second},
		{"for the end of a pause", 10 * time.Second, stint.PerSecond(4), 3 * time.Second, 0, 3 * time.Second},
		{"for a place after a pause", 2 * time.Second, stint.Per(1, 10*time.Second), 3 * time.Second, 0,
			3 * time.Second},
		{"not at all, for want of time", 0, stint.Per(1, 10*time.Second), time.Minute, 3 * time.Second, 0},
		{"not at all, for want of time in a pause", 10 * time.Second, stint.PerSecond(4), time.Minute,
			3 * time.Second, 0},
		{"not at all, having ended", 0, stint.Per(1, 10*time.Second), 0, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := new(witness)
				api := outbound.API{Name: "igdb", Limits: []stint.Limit{test.limit}}
				c := clientOf(t, newRegistryWith(t, newMemory(t), outbound.Config{Observer: w}, api), "igdb")
				mustWait(t, c)
				if test.pause > 0 {
					c.Cooldown(test.pause)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.last > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.last)
					defer cancel()
				}
				if test.end == 0 {
					cancel()
				}
				stop := time.AfterFunc(test.end, cancel)
				defer stop.Stop()
				if _, err := c.Wait(ctx); err == nil {
					t.Fatal("called, want that it gives up")
				}
				waited := int64(0)
				if test.want > 0 {
					waited = 1
				}
				if s := c.Stats(); s.Calls != 1 || s.Waited != waited || s.TotalWait != test.want ||
					s.LongestWait != test.want {
					t.Errorf("stats are %+v, want a wait of %v", s, test.want)
				}
				if got := w.waits[len(w.waits)-1]; got != test.want || w.calls[len(w.calls)-1] != "refused igdb" {
					t.Errorf("the observer heard %s, %v; want refused igdb, %v", w.calls[len(w.calls)-1], got, test.want)
				}
			})
		})
	}
}

// Without a decision there is no call, unless the policy says otherwise.
func TestStoreFails(t *testing.T) {
	store := newMemory(t)
	c := newClient(t, store, igdb())
	_ = store.Close()
	_, err := c.Wait(t.Context())
	if _, ok := errors.AsType[*stint.StoreError](err); !ok {
		t.Errorf("got %v, want the store's error", err)
	}
	if s := c.Stats(); s.Failed != 1 || s.Calls != 0 {
		t.Errorf("stats are %+v", s)
	}
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
		if len(w.calls) != len(want) {
			t.Fatalf("got %v, want %v", w.calls, want)
		}
		for i := range want {
			if w.calls[i] != want[i] || w.waits[i] != waits[i] {
				t.Errorf("got %s, %v; want %s, %v", w.calls[i], w.waits[i], want[i], waits[i])
			}
		}
	})
}
