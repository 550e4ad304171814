package resilience_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/storetest"
)

// logbook is a logger and what it was told.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count is how many lines there are of a level, with a text in them.
func (l *logbook) count(level slog.Level, text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, "level="+level.String()) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// witness is an Observer that writes down what it hears of calls and changes.
type witness struct {
	resilience.Silent
	mu    sync.Mutex
	heard []string
}

func (w *witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, fmt.Sprintf(format, args...))
}

func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard := w.heard
	w.heard = nil
	return heard
}

func (w *witness) StoreCalled(op string, n int, _ time.Duration, err error) {
	w.note("%s %d %v", op, n, err != nil)
}
func (w *witness) BreakerChanged(from, to resilience.BreakerState) { w.note("%v to %v", from, to) }
func (w *witness) FellBack(r *stint.Request, mode stint.FailureMode, cause error) {
	w.note("%s fell back: %v, %v", r.Subject, mode, stint.KindOf(cause))
}

func (w *witness) want(t *testing.T, want ...string) {
	t.Helper()
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// oneUnit is one unit for a subject, under 1000 an hour unless told otherwise.
func oneUnit(subject string, limits ...stint.Limit) stint.Request {
	if len(limits) == 0 {
		limits = []stint.Limit{stint.PerHour(1000)}
	}
	return stint.Request{Claim: stint.Claim{Subject: subject, Limits: limits, Cost: 1}}
}

func batchOf(n int) []*stint.Call {
	batch := make([]*stint.Call, n)
	for i := range batch {
		batch[i] = &stint.Call{Request: oneUnit(fmt.Sprint(i))}
	}
	return batch
}

func newBreaker(t *testing.T, inner stint.BatchStore, c resilience.BreakerConfig) *resilience.Breaker {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	b := resilience.NewBreaker(inner, c)
	t.Cleanup(func() { b.Close() })
	return b
}

// takes makes n calls and returns how many of them were refused.
func takes(b stint.Store, n int) (refused int) {
	for range n {
		if _, err := b.Take(context.Background(), oneUnit("a")); errors.Is(err, resilience.ErrBreakerOpen) {
			refused++
		}
	}
	return refused
}

func wantState(t *testing.T, b *resilience.Breaker, want resilience.BreakerState) {
	t.Helper()
	if got := b.State(); got != want {
		t.Fatalf("the breaker is %v, want %v", got, want)
	}
}

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

func TestBreakerProbesUntilTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, w, logs := newFlaky(t), new(witness), new(logbook)
		b := newBreaker(t, inner, resilience.BreakerConfig{Observer: w, Logger: logs.logger()})
		inner.down()
		takes(b, 5)
		w.take()
		time.Sleep(10 * time.Second)
		wantState(t, b, resilience.BreakerOpen)
		if n := inner.pings.Load(); n < 33 || n > 50 { // 250 ms ± 20 %
			t.Errorf("%d pings in 10 s, want about 40", n)
		}
		w.take()
		inner.up()
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		wantState(t, b, resilience.BreakerHalfOpen)
		w.want(t, "ping 0 false", "open to half-open")
		pings := inner.pings.Load()
		time.Sleep(time.Minute) // a call that never comes
		if inner.pings.Load() != pings {
			t.Error("pings go on while half-open")
		}
		wantState(t, b, resilience.BreakerHalfOpen)
		takes(b, 2)
		wantState(t, b, resilience.BreakerClosed)
		w.want(t, "take 1 false", "half-open to closed", "take 1 false")
		if n, m := logs.count(slog.LevelWarn, "breaker open"), logs.count(slog.LevelInfo, "breaker closed"); n != 1 || m != 1 {
			t.Errorf("%d warnings, %d all-clears, want one of each: %s", n, m, logs.buf.String())
		}
	})
}

func TestBreakerGoesOnProbingWhenTheTrialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		b := newBreaker(t, inner, resilience.BreakerConfig{Logger: logs.logger()})
		full := &stint.StoreError{Op: "take", Kind: stint.KindFull, Err: errDown}
		inner.fail(full, "take") // answers pings all the same
		takes(b, 5)
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			wantState(t, b, resilience.BreakerHalfOpen)
			if n := takes(b, 3); n != 2 {
				t.Errorf("%d of 3 calls refused, want 2", n)
			}
			wantState(t, b, resilience.BreakerOpen)
		}
		if n := logs.count(slog.LevelWarn, ""); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		inner.fail(nil, "take")
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		takes(b, 1)
		wantState(t, b, resilience.BreakerClosed)
	})
}

func TestBreakerHalfOpenLetsOneThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreaker(t, inner, resilience.BreakerConfig{})
		inner.down()
		takes(b, 5)
		inner.up()
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		before := inner.calls()
		inner.hook(func(string) { time.Sleep(time.Second / 2) }) // the one call has a second
		var refused atomic.Int64
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() {
				switch {
				case i%4 == 0:
					batch := batchOf(1)
					b.TakeBatch(context.Background(), batch)
					if batch[0].Err != nil {
						refused.Add(1)
					}
				default:
					refused.Add(int64(takes(b, 1)))
				}
			})
		}
		callers.Wait()
		if n, made := refused.Load(), inner.calls()-before; n != 99 || made != 1 {
			t.Errorf("%d refused, %d made, want 99 and 1", n, made)
		}
		wantState(t, b, resilience.BreakerClosed)
	})
}

func TestBreakerTrialThatIsGivenUpFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, w := newFlaky(t), new(witness)
		b := newBreaker(t, inner, resilience.BreakerConfig{Observer: w, Blind: 10 * time.Second})
		inner.down()
		takes(b, 5)
		inner.up()
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		w.take()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.Take(ctx, oneUnit("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want what the caller did", err)
		}
		wantState(t, b, resilience.BreakerHalfOpen)
		inner.hook(func(string) { panic("of the store's") })
		func() {
			defer func() { _ = recover() }()
			takes(b, 1)
		}()
		inner.hook(nil)
		wantState(t, b, resilience.BreakerHalfOpen)
		w.want(t, "take 1 true")

		inner.hang(true) // with nobody to stop it
		b.TakeBatch(context.Background(), batchOf(1))
		wantState(t, b, resilience.BreakerOpen)
		inner.hang(false)
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		takes(b, 1)
		wantState(t, b, resilience.BreakerClosed)
	})
}

func TestBreakerBlind(t *testing.T) {
	auth := &stint.StoreError{Op: "ping", Kind: stint.KindAuth, Err: errors.New("NOPERM")}
	for _, pinger := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			inner := newFlaky(t)
			var store stint.BatchStore = inner
			if !pinger {
				store = notPinger{inner}
			}
			b := newBreaker(t, store, resilience.BreakerConfig{})
			inner.down()
			takes(b, 5)
			inner.fail(nil)
			inner.fail(auth, "ping")
			time.Sleep(30*time.Second - time.Millisecond)
			wantState(t, b, resilience.BreakerOpen)
			time.Sleep(400 * time.Millisecond)
			wantState(t, b, resilience.BreakerHalfOpen)
			takes(b, 1)
			wantState(t, b, resilience.BreakerClosed)
		})
	}
}

func TestBreakerIsLoudAboutAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		b := newBreaker(t, inner, resilience.BreakerConfig{Logger: logs.logger()})
		inner.fail(&stint.StoreError{Op: "take", Kind: stint.KindAuth, Err: errors.New("WRONGPASS")})
		for range 100 {
			takes(b, 10)
			time.Sleep(time.Second)
		}
		if n, m := logs.count(slog.LevelError, "WRONGPASS"), logs.count(slog.LevelWarn, ""); n != 1 || m != 0 {
			t.Errorf("%d errors and %d warnings, want 1 and none: %s", n, m, logs.buf.String())
		}
	})
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

func TestBreakerCloseEndsProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := resilience.NewBreaker(inner, resilience.BreakerConfig{Logger: slog.New(slog.DiscardHandler)})
		inner.down()
		takes(b, 5)
		inner.hang(true)
		time.Sleep(400 * time.Millisecond) // a ping hangs
		b.Close()
		b.Close()
		pings := inner.pings.Load()
		time.Sleep(time.Minute)
		if inner.pings.Load() != pings {
			t.Error("pings after Close")
		}
	})
}

// trivial answers at once, without allocating.
type trivial struct{ stint.BatchStore }

func (trivial) Take(_ context.Context, r stint.Request) (d stint.Decision, err error) {
	d.Allowed = true
	d.Charge.Claim = r.Claim
	d.Grow(len(r.Limits))[0] = stint.Usage{Used: 1, ResetAfter: time.Minute}
	return d, nil
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
