package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/storetest"
)

func TestBreakerContract(t *testing.T) {
	storetest.Run(t, storetest.Exact, func(t *testing.T) storetest.Harness {
		h := openMemory(t)
		h.Store = newBreaker(t, newFlaky(t, h.Store), resilience.BreakerConfig{})
		return h
	})
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, w := newFlaky(t), new(witness)
		b := newBreaker(t, inner, resilience.BreakerConfig{Observer: w})
		inner.down()
		takes(b, 4)
		inner.up()
		takes(b, 1) // starts the count again
		inner.down()
		takes(b, 4)
		wantState(t, b, resilience.BreakerClosed)
		if n := takes(b, 1); n != 0 {
			t.Error("the fifth failure was refused, want it made")
		}
		wantState(t, b, resilience.BreakerOpen)
		before := inner.calls()
		if n := takes(b, 7); n != 7 || inner.calls() != before {
			t.Errorf("%d of 7 refused, %d made, want all refused", n, inner.calls()-before)
		}
		heard := w.take()
		if len(heard) != 11 || heard[10] != "closed to open" || heard[9] != "take 1 true" || heard[4] != "take 1 false" {
			t.Errorf("heard %q", heard)
		}
	})
}

func TestBreakerRefusesEveryVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreaker(t, inner, resilience.BreakerConfig{Failures: 3})
		inner.down()
		_, amend := b.Amend(t.Context(), stint.Charge{}, stint.Amendment{})
		command := b.Command(t.Context(), stint.Command{})
		if !errors.Is(amend, errDown) || !errors.Is(command, errDown) {
			t.Errorf("closed: %v, %v, want what the store said", amend, command)
		}
		takes(b, 1)
		wantState(t, b, resilience.BreakerOpen) // all three counted
		_, take := b.Take(t.Context(), oneUnit("a"))
		_, amend = b.Amend(t.Context(), stint.Charge{}, stint.Amendment{})
		command = b.Command(t.Context(), stint.Command{})
		batch := batchOf(2)
		b.TakeBatch(t.Context(), batch)
		for op, err := range map[string]error{"take": take, "amend": amend, "command": command} {
			var failure *stint.StoreError
			if !errors.As(err, &failure) || failure.Op != op || failure.Kind != stint.KindRefused || !errors.Is(err, resilience.ErrBreakerOpen) {
				t.Errorf("%s: %#v", op, err)
			}
		}
		for _, c := range batch {
			if !errors.Is(c.Err, resilience.ErrBreakerOpen) {
				t.Errorf("batch: %v", c.Err)
			}
		}
	})
}

func TestBreakerCountsABatchOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreaker(t, inner, resilience.BreakerConfig{})
		inner.down()
		for range 4 {
			b.TakeBatch(t.Context(), batchOf(100))
		}
		wantState(t, b, resilience.BreakerClosed)
		b.TakeBatch(t.Context(), batchOf(1))
		wantState(t, b, resilience.BreakerOpen)
	})
}

// partial fails all but the last call of a batch.
type partial struct{ *flaky }

func (p partial) TakeBatch(ctx context.Context, batch []*stint.Call) {
	p.flaky.TakeBatch(ctx, batch)
	for _, c := range batch[:len(batch)-1] {
		c.Err = unreachable()
	}
}

func TestBreakerTakesAnyDecisionOfABatchForASuccess(t *testing.T) {
	inner := newFlaky(t)
	b := newBreaker(t, partial{inner}, resilience.BreakerConfig{})
	for range 10 {
		b.TakeBatch(t.Context(), batchOf(3))
	}
	wantState(t, b, resilience.BreakerClosed)
}

func TestBreakerWhatIsAFailure(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want resilience.BreakerState
	}{
		{"store error", unreachable(), resilience.BreakerOpen},
		{"deadline", &stint.StoreError{Kind: stint.KindTimeout, Err: context.DeadlineExceeded}, resilience.BreakerOpen},
		{"wrapped", fmt.Errorf("there: %w", unreachable()), resilience.BreakerOpen},
		{"cancelled caller", &stint.StoreError{Err: context.Canceled}, resilience.BreakerClosed},
		{"caller's mistake", &stint.InvalidError{Err: errDown}, resilience.BreakerClosed},
		{"a slot that moves", &stint.StoreError{Kind: stint.KindMigrating, Err: errDown}, resilience.BreakerClosed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, batch := range []bool{false, true} {
					inner := newFlaky(t)
					b := newBreaker(t, inner, resilience.BreakerConfig{})
					inner.fail(test.err)
					for range 5 {
						if batch {
							b.TakeBatch(t.Context(), batchOf(2))
						} else {
							takes(b, 1)
						}
					}
					wantState(t, b, test.want)
				}
			})
		})
	}
}

func TestBreakerIgnoresStragglers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreaker(t, inner, resilience.BreakerConfig{})
		inner.hang(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() { _, _ = b.Take(ctx, oneUnit("a")) })
		}
		synctest.Wait()
		inner.hang(false)
		inner.down()
		takes(b, 5)
		inner.up()
		time.Sleep(300 * time.Millisecond)
		takes(b, 1)
		wantState(t, b, resilience.BreakerClosed)
		callers.Wait() // and 20 failures of before
		wantState(t, b, resilience.BreakerClosed)
	})
}

func TestBreakerCountsFailuresAtTheSameTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreaker(t, inner, resilience.BreakerConfig{})
		inner.hang(true)
		together := func(want resilience.BreakerState) {
			t.Helper()
			var callers sync.WaitGroup
			for range 20 {
				callers.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
					defer cancel()
					_, _ = b.Take(ctx, oneUnit("a"))
				})
				time.Sleep(100 * time.Microsecond)
			}
			callers.Wait()
			wantState(t, b, want)
		}
		for range 4 {
			together(resilience.BreakerClosed)
		}
		together(resilience.BreakerOpen)
	})
}

func TestBreakerDoesNotAllocate(t *testing.T) {
	b := newBreaker(t, trivial{}, resilience.BreakerConfig{})
	r, ctx := oneUnit("a"), context.Background()
	if n := testing.AllocsPerRun(1000, func() { _, _ = b.Take(ctx, r) }); n != 0 {
		t.Errorf("closed: %v allocations a call, want 0", n)
	}
	inner := newFlaky(t)
	inner.down()
	b = newBreaker(t, inner, resilience.BreakerConfig{Probe: time.Hour})
	takes(b, 5)
	if n := testing.AllocsPerRun(1000, func() { _, _ = b.Take(ctx, r) }); n != 0 {
		t.Errorf("open: %v allocations a call, want 0", n)
	}
}

func BenchmarkBreaker(b *testing.B) {
	s := resilience.NewBreaker(trivial{}, resilience.BreakerConfig{})
	defer s.Close()
	r, ctx := oneUnit("a"), context.Background()
	for b.Loop() {
		_, _ = s.Take(ctx, r)
	}
}
