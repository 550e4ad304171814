package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/storetest"
)

func TestBreakerContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		h := openMemory(t)
		h.Store = newBreakerFor(t, newFlaky(t, h.Store), Config{})
		return h
	})
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, w := newFlaky(t), new(witness)
		b := newBreakerFor(t, inner, Config{Observer: w})
		inner.down()
		takes(b, 4)
		inner.up()
		takes(b, 1) // starts the count again
		inner.down()
		takes(b, 4)
		wantState(t, b, "closed")
		if n := takes(b, 1); n != 0 {
			t.Error("the fifth failure was refused, want it made")
		}
		wantState(t, b, "open")
		before := inner.calls()
		if n := takes(b, 7); n != 7 || inner.calls() != before {
			t.Errorf("%d of 7 refused, %d made, want all refused", n, inner.calls()-before)
		}
		heard := w.take()
		if len(heard) != 11 || heard[10] != "closed to open" || heard[9] != "take 1 true" ||
			heard[4] != "take 1 false" {
			t.Errorf("heard %q", heard)
		}
	})
}

func TestBreakerRefusesEveryVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreakerFor(t, inner, Config{BreakerFailures: 3})
		inner.down()
		_, amend := b.Amend(t.Context(), stint.Charge{}, stint.Amendment{})
		command := b.Command(t.Context(), stint.Command{})
		if !errors.Is(amend, errDown) || !errors.Is(command, errDown) {
			t.Errorf("closed: %v, %v, want what the store said", amend, command)
		}
		takes(b, 1)
		wantState(t, b, "open") // all three counted
		_, take := b.Take(t.Context(), oneUnit("a"))
		_, amend = b.Amend(t.Context(), stint.Charge{}, stint.Amendment{})
		command = b.Command(t.Context(), stint.Command{})
		batch := batchOf(2)
		b.TakeBatch(t.Context(), batch)
		for op, err := range map[string]error{"take": take, "amend": amend, "command": command} {
			var failure *stint.StoreError
			if !errors.As(err, &failure) || failure.Op != op || failure.Kind != errkind.Refused ||
				!errors.Is(err, errBreakerOpen) || !errors.Is(err, errDown) {
				t.Errorf("%s: %#v", op, err)
			}
		}
		for _, c := range batch {
			if !errors.Is(c.Err, errBreakerOpen) || !errors.Is(c.Err, errDown) {
				t.Errorf("batch: %v", c.Err)
			}
		}
	})
}

// The error of a call that is refused says why the store was last known to fail. It is not made
// anew for every call.
func TestBreakerSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreakerFor(t, inner, Config{})
		ask := func() error {
			_, err := b.Take(t.Context(), oneUnit("a"))
			return err
		}
		want := func(text string) {
			t.Helper()
			err := ask()
			if err == nil || err.Error() != text || errkind.Of(err) != errkind.Refused {
				t.Errorf("got %v, want %s", err, text)
			}
			if again := ask(); again != err {
				t.Errorf("got another error: %v", again)
			}
		}
		inner.fail(&stint.StoreError{Op: "take", Kind: errkind.Full, Err: errors.New("OOM")})
		inner.fail(&stint.StoreError{Op: "ping", Kind: errkind.Unreachable, Err: syscall.ECONNREFUSED}, "ping")
		takes(b, 5)
		want("stint: take: the breaker is open: stint: take: OOM")
		time.Sleep(time.Second) // pings fail
		want("stint: take: the breaker is open: stint: ping: connection refused")
		if err := ask(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want its cause in its chain", err)
		}
	})
}

func TestBreakerCountsABatchOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreakerFor(t, inner, Config{})
		inner.down()
		for range 4 {
			b.TakeBatch(t.Context(), batchOf(100))
		}
		wantState(t, b, "closed")
		b.TakeBatch(t.Context(), batchOf(1))
		wantState(t, b, "open")
	})
}

// partial fails all but the last call of a batch.
type partial struct{ *flaky }

func (p partial) TakeBatch(ctx context.Context, batch []*driver.Call) {
	p.flaky.TakeBatch(ctx, batch)
	for _, c := range batch[:len(batch)-1] {
		c.Err = unreachable()
	}
}

func TestBreakerTakesAnyDecisionOfABatchForASuccess(t *testing.T) {
	inner := newFlaky(t)
	b := newBreakerFor(t, partial{inner}, Config{})
	for range 10 {
		b.TakeBatch(t.Context(), batchOf(3))
	}
	wantState(t, b, "closed")
}

func TestBreakerWhatIsAFailure(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"store error", unreachable(), "open"},
		{"deadline", &stint.StoreError{Kind: errkind.Timeout, Err: context.DeadlineExceeded}, "open"},
		{"wrapped", fmt.Errorf("there: %w", unreachable()), "open"},
		{"canceled caller", &stint.StoreError{Err: context.Canceled}, "closed"},
		{"caller's mistake", &stint.InvalidError{Err: errDown}, "closed"},
		{"a slot that moves", &stint.StoreError{Kind: errkind.Migrating, Err: errDown}, "closed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, batch := range []bool{false, true} {
					inner := newFlaky(t)
					b := newBreakerFor(t, inner, Config{})
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
		b := newBreakerFor(t, inner, Config{})
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
		wantState(t, b, "closed")
		callers.Wait() // and 20 failures of before
		wantState(t, b, "closed")
	})
}

func TestBreakerCountsFailuresAtTheSameTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreakerFor(t, inner, Config{})
		inner.hang(true)
		together := func(want string) {
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
			together("closed")
		}
		together("open")
	})
}

func TestBreakerDoesNotAllocate(t *testing.T) {
	b := newBreakerFor(t, trivial{}, Config{})
	r, ctx := oneUnit("a"), context.Background()
	if n := testing.AllocsPerRun(1000, func() { _, _ = b.Take(ctx, r) }); n != 0 {
		t.Errorf("closed: %v allocations a call, want 0", n)
	}
	inner := newFlaky(t)
	inner.down()
	b = newBreakerFor(t, inner, Config{BreakerProbe: time.Hour})
	takes(b, 5)
	if n := testing.AllocsPerRun(1000, func() { _, _ = b.Take(ctx, r) }); n != 0 {
		t.Errorf("open: %v allocations a call, want 0", n)
	}
}

func BenchmarkBreaker(b *testing.B) {
	s := newBreaker(trivial{}, Config{}.withDefaults())
	defer s.Close()
	r, ctx := oneUnit("a"), context.Background()
	for b.Loop() {
		_, _ = s.Take(ctx, r)
	}
}
