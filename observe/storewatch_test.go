package observe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

func storeError(kind stint.StoreErrorKind) error {
	return &stint.StoreError{Op: "take", Kind: kind, Err: errors.New(string(kind))}
}

func TestStoreWatch(t *testing.T) {
	var (
		good    = func(w *storeWatch) { w.called(nil, time.Now()) }
		fails   = func(w *storeWatch) { w.called(storeError(stint.KindTimeout), time.Now()) }
		refused = func(w *storeWatch) { w.called(storeError(stint.KindRefused), time.Now()) }
		moving  = func(w *storeWatch) { w.called(storeError(stint.KindMigrating), time.Now()) }
		gaveUp  = func(w *storeWatch) { w.called(context.Canceled, time.Now()) }
		mistake = func(w *storeWatch) { w.called(&stint.InvalidError{Err: errors.New("no")}, time.Now()) }
		breaker = func(state resilience.BreakerState) func(*storeWatch) {
			return func(w *storeWatch) { w.breaker(state, time.Now()) }
		}
	)
	type steps []func(*storeWatch) // a second apart
	tests := []struct {
		name string
		steps
		downFor time.Duration // -1 is up
	}{
		{"nothing is known", nil, -1},
		{"works", steps{good, good}, -1},
		{"fails", steps{good, fails, fails, fails}, 3 * time.Second},
		{"failed before it ever worked", steps{fails}, time.Second},
		{"works again", steps{fails, fails, good}, -1},
		{"what says nothing about it", steps{good, refused, moving, gaveUp, mistake}, -1},
		{"refused since it failed", steps{fails, refused, refused}, 3 * time.Second},
		{"the breaker is open", steps{good, breaker("open")}, time.Second},
		{"a ping with the breaker open", steps{fails, breaker("open"), good}, 3 * time.Second},
		{"half-open", steps{fails, breaker("open"), breaker("half-open"), good}, 4 * time.Second},
		{"closed again", steps{fails, breaker("open"), breaker("half-open"), good, breaker("closed")}, -1},
	}
	for _, test := range tests {
		testkit.InBubble(t, test.name, func(t *testing.T) {
			w := newStoreWatch()
			for _, step := range test.steps {
				step(w)
				time.Sleep(time.Second)
			}
			got := w.health()
			if got.Up != (test.downFor < 0) {
				t.Fatalf("up is %v", got.Up)
			}
			if !got.Up && time.Since(*got.DownSince) != test.downFor {
				t.Errorf("down for %v, want %v", time.Since(*got.DownSince), test.downFor)
			}
		})
	}
}

// TestStoreWatchAsks: calls decide whether a store is up while there are any, and else its answers
// to probes.
func TestStoreWatchAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWatch()
		type answer struct {
			StoreHealth
			err error
		}
		var asked atomic.Int64
		var next atomic.Pointer[answer]
		set := func(h StoreHealth, err error) { next.Store(&answer{h, err}) }
		w.watch(func(context.Context) (StoreHealth, error) {
			return StoreHealth{Kind: "redis", Name: "redis://cache"}, storeError(stint.KindUnreachable)
		})
		synctest.Wait()
		if got := w.health(); got.Up || got.Name != "redis://cache" {
			t.Errorf("never there: %+v, want it down at once, under its name", got)
		}
		set(StoreHealth{Kind: "redis", Redis: &RedisInfo{Version: "7.0"}, Warnings: []string{"evicts"}, Up: false, LastError: "not mine"}, nil)
		w.watch(func(context.Context) (StoreHealth, error) {
			asked.Add(1)
			return next.Load().StoreHealth, next.Load().err
		})
		time.Sleep(11 * time.Second)
		if got := w.health(); got.Redis.Version != "7.0" || len(got.Warnings) != 1 || !got.Up || asked.Load() != 3 {
			t.Errorf("asked %d times in eleven seconds, want 3: %+v", asked.Load(), got)
		}
		set(StoreHealth{Kind: "redis", Instances: 2}, storeError(stint.KindUnreachable))
		time.Sleep(5 * time.Second)
		if got := w.health(); got.Up || got.Redis == nil || time.Since(got.At) < 5*time.Second || got.At.IsZero() ||
			len(got.Warnings) != 1 || got.Instances != 2 || got.LastError == "" {
			t.Errorf("unreachable: %+v; want it down, with its last health", got)
		}
		set(StoreHealth{Kind: "redis"}, nil)
		time.Sleep(5 * time.Second)
		if got := w.health(); !got.Up {
			t.Errorf("reachable again: %+v", got)
		}
		set(StoreHealth{}, storeError(stint.KindAuth)) // may not tell its health, which is no outage
		time.Sleep(10 * time.Second)
		if got := w.health(); !got.Up || got.LastError == "" {
			t.Errorf("not permitted: %+v; want it up, with the error", got)
		}
		set(StoreHealth{Kind: "redis"}, nil)
		for range 30 {
			w.called(storeError(stint.KindFull), time.Now())
			time.Sleep(time.Second)
			if w.health().Up {
				t.Fatal("up, although every call fails")
			}
		}
		time.Sleep(quiet + probeEvery)
		if !w.health().Up {
			t.Error("down, although it answers and there are no more calls")
		}
		set(StoreHealth{}, storeError(stint.KindTimeout))
		for range 30 {
			w.called(nil, time.Now())
			time.Sleep(time.Second)
			if !w.health().Up {
				t.Fatal("down, although every call succeeds")
			}
		}
		w.watch(func(ctx context.Context) (StoreHealth, error) { // never answers
			<-ctx.Done()
			return StoreHealth{}, ctx.Err()
		})
		time.Sleep(time.Minute)
		if w.health().Up {
			t.Error("a silent store is up")
		}
		w.close()
	})
}
