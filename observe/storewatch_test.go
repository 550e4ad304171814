package observe

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
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
		breaker = func(state string) func(*storeWatch) {
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
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

func TestStoreWatchRemembersTheLastError(t *testing.T) {
	w := newStoreWatch()
	now := time.Now()
	w.called(&stint.StoreError{Op: "take", Err: errors.New("one\nline " + strings.Repeat("x", 1000))}, now)
	w.called(nil, now)
	got := w.health()
	if !got.Up || !strings.HasPrefix(got.LastError, `stint: take: one\nline xxx`) || len(got.LastError) > 200 ||
		!got.LastErrorAt.Equal(now) {
		t.Errorf("%+v", got)
	}
}

// pretend is a store that is asked how it is.
type pretend struct {
	mu     sync.Mutex
	asked  int
	health StoreHealth
	err    error
}

func (p *pretend) probe(context.Context) (StoreHealth, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return p.health, p.err
}

func (p *pretend) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *pretend) set(health StoreHealth, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health, p.err = health, err
}

func TestStoreWatchAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWatch()
		p := &pretend{health: StoreHealth{Kind: "redis", Redis: &RedisInfo{Version: "7.0"},
			Warnings: []string{"evicts"}, Up: false, LastError: "not mine"}}
		w.watch(p.probe)
		synctest.Wait()
		got := w.health()
		if got.Kind != "redis" || got.Redis.Version != "7.0" || len(got.Warnings) != 1 || !got.Up {
			t.Errorf("at once: %+v", got)
		}
		time.Sleep(11 * time.Second)
		if got := p.times(); got != 3 {
			t.Errorf("asked %d times in eleven seconds, want 3", got)
		}

		// Nobody calls, and it does not answer.
		p.set(StoreHealth{Kind: "redis", Instances: 2}, storeError(stint.KindUnreachable))
		time.Sleep(5 * time.Second)
		if got := w.health(); got.Up || got.Redis == nil || time.Since(got.At) < 5*time.Second || got.At.IsZero() ||
			len(got.Warnings) != 1 || got.Instances != 2 ||
			got.LastError == "" {
			t.Errorf("unreachable: %+v; want it down, with what was last known", got)
		}
		p.set(StoreHealth{Kind: "redis"}, nil)
		time.Sleep(5 * time.Second)
		if got := w.health(); !got.Up {
			t.Errorf("reachable again: %+v", got)
		}

		// It may not say how it is: that is no outage.
		p.set(StoreHealth{}, storeError(stint.KindAuth))
		time.Sleep(10 * time.Second)
		if got := w.health(); !got.Up || got.LastError == "" {
			t.Errorf("not permitted: %+v; want it up, with the error", got)
		}

		// Calls fail, although it says that all is well: calls are right while they are made, and
		// for a while.
		p.set(StoreHealth{Kind: "redis"}, nil)
		for range 30 {
			w.called(storeError(stint.KindFull), time.Now())
			time.Sleep(time.Second)
			if w.health().Up {
				t.Fatal("up, although every call fails")
			}
		}
		time.Sleep(quiet + probeEvery)
		if !w.health().Up {
			t.Error("down, although nobody calls any more and it answers")
		}

		// Calls succeed, although it does not say how it is.
		p.set(StoreHealth{}, storeError(stint.KindTimeout))
		for range 30 {
			w.called(nil, time.Now())
			time.Sleep(time.Second)
			if !w.health().Up {
				t.Fatal("down, although every call succeeds")
			}
		}
		w.close()
		asked := p.times()
		time.Sleep(time.Minute)
		if p.times() != asked {
			t.Error("asked after the end")
		}
	})
}

// A store that was never there is down at once.
func TestStoreWatchOfNoStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWatch()
		w.watch((&pretend{health: StoreHealth{Kind: "redis", Name: "redis://cache"},
			err: storeError(stint.KindUnreachable)}).probe)
		synctest.Wait()
		if got := w.health(); got.Up || got.Name != "redis://cache" {
			t.Errorf("got %+v, want it down under its name", got)
		}
		w.close()
	})
}

// A store that does not answer at all is given up in time, and when the watch ends.
func TestStoreWatchOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWatch()
		w.watch(func(ctx context.Context) (StoreHealth, error) {
			<-ctx.Done()
			return StoreHealth{}, ctx.Err()
		})
		time.Sleep(time.Minute)
		if w.health().Up {
			t.Error("a silent store is up")
		}
		w.watch((&pretend{health: StoreHealth{Kind: "memory"}}).probe) // ends the other
		time.Sleep(time.Second)
		if got := w.health(); got.Kind != "memory" || !got.Up {
			t.Errorf("another store: %+v", got)
		}
		w.close()
		w.close()
		w.watch(func(context.Context) (StoreHealth, error) { return StoreHealth{Kind: "late"}, nil }) // ends at once
	})
}

// The answer to the question how it is does not outweigh a breaker that is not closed.
func TestStoreWatchTrustsTheBreaker(t *testing.T) {
	for state, up := range map[string]bool{"open": false, "half-open": false, "closed": true} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStoreWatch()
				defer w.close()
				w.watch((&pretend{health: StoreHealth{Kind: "redis"}}).probe)
				w.called(storeError(stint.KindUnreachable), time.Now())
				w.breaker("open", time.Now())
				w.breaker(state, time.Now())
				time.Sleep(quiet + probeEvery)
				if got := w.health(); got.Up != up {
					t.Errorf("got %+v, want up to be %v", got, up)
				}
			})
		})
	}
}
