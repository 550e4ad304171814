package resilience

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

func TestBreakerProbesUntilTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, w, logs := newFlaky(t), new(witness), new(logbook)
		b := newBreakerFor(t, inner, Config{Observer: w, Logger: logs.logger()})
		inner.down()
		takes(b, 5)
		w.take()
		time.Sleep(10 * time.Second)
		wantState(t, b, "open")
		if n := inner.pings.Load(); n < 33 || n > 50 { // 250 ms ± 20 %
			t.Errorf("%d pings in 10 s, want about 40", n)
		}
		w.take()
		inner.up()
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		wantState(t, b, "half-open")
		w.want(t, "ping 0 false", "open to half-open")
		pings := inner.pings.Load()
		time.Sleep(time.Minute) // a call that never comes
		if inner.pings.Load() != pings {
			t.Error("pings go on while half-open")
		}
		wantState(t, b, "half-open")
		takes(b, 2)
		wantState(t, b, "closed")
		w.want(t, "take 1 false", "half-open to closed", "take 1 false")
		if n, m := logs.count(slog.LevelWarn, "breaker open"), logs.count(slog.LevelInfo, "breaker closed"); n != 1 ||
			m != 1 {
			t.Errorf("%d warnings, %d all-clears, want one of each: %s", n, m, logs)
		}
	})
}

func TestBreakerGoesOnProbingWhenTheTrialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		b := newBreakerFor(t, inner, Config{Logger: logs.logger()})
		full := &stint.StoreError{Op: "take", Kind: errkind.Full, Err: errDown}
		inner.fail(full, "take") // answers pings all the same
		takes(b, 5)
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			wantState(t, b, "half-open")
			if n := takes(b, 3); n != 2 {
				t.Errorf("%d of 3 calls refused, want 2", n)
			}
			wantState(t, b, "open")
		}
		if n := logs.count(slog.LevelWarn, ""); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		inner.fail(nil, "take")
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		takes(b, 1)
		wantState(t, b, "closed")
	})
}

func TestBreakerHalfOpenLetsOneThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreakerFor(t, inner, Config{})
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
		wantState(t, b, "closed")
	})
}

func TestBreakerTrialThatIsGivenUpFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, w := newFlaky(t), new(witness)
		b := newBreakerFor(t, inner, Config{Observer: w, BreakerRetry: 10 * time.Second})
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
		wantState(t, b, "half-open")
		inner.hook(func(string) { panic("of the store's") })
		func() {
			defer func() { _ = recover() }()
			takes(b, 1)
		}()
		inner.hook(nil)
		wantState(t, b, "half-open")
		w.want(t, "take 1 true")

		inner.hang(true) // with nobody to stop it
		b.TakeBatch(context.Background(), batchOf(1))
		wantState(t, b, "open")
		inner.hang(false)
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		takes(b, 1)
		wantState(t, b, "closed")
	})
}

func TestBreakerBlind(t *testing.T) {
	auth := &stint.StoreError{Op: "ping", Kind: errkind.Auth, Err: errors.New("NOPERM")}
	for _, pinger := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			inner := newFlaky(t)
			var store driver.BatchStore = inner
			if !pinger {
				store = notPinger{inner}
			}
			b := newBreakerFor(t, store, Config{})
			inner.down()
			takes(b, 5)
			inner.fail(nil)
			inner.fail(auth, "ping")
			time.Sleep(30*time.Second - time.Millisecond)
			wantState(t, b, "open")
			time.Sleep(400 * time.Millisecond)
			wantState(t, b, "half-open")
			takes(b, 1)
			wantState(t, b, "closed")
		})
	}
}

func TestBreakerIsLoudAboutAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		b := newBreakerFor(t, inner, Config{Logger: logs.logger()})
		inner.fail(&stint.StoreError{Op: "take", Kind: errkind.Auth, Err: errors.New("WRONGPASS")})
		for range 100 {
			takes(b, 10)
			time.Sleep(time.Second)
		}
		if n, m := logs.count(slog.LevelError, "WRONGPASS"), logs.count(slog.LevelWarn, ""); n != 1 || m != 0 {
			t.Errorf("%d errors and %d warnings, want 1 and none: %s", n, m, logs)
		}
	})
}

func TestBreakerLogsEveryOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		b := newBreakerFor(t, inner, Config{Logger: logs.logger()})
		openAndClose := func() {
			inner.down()
			takes(b, 5)
			inner.up()
			time.Sleep(310 * time.Millisecond)
			takes(b, 1)
			wantState(t, b, "closed")
		}
		said := func() (opened, closed int) {
			return logs.count(slog.LevelWarn, "breaker open"), logs.count(slog.LevelInfo, "breaker closed")
		}
		for i := range 3 {
			openAndClose()
			if n, m := said(); n != i+1 || m != i+1 {
				t.Fatalf("%d openings and %d closings in the log, want %d of each: %s", n, m, i+1, logs)
			}
			time.Sleep(time.Second)
		}
		for range 10 { // in three seconds
			openAndClose()
		}
		n, m := said()
		if n > 3+4 || m != n {
			t.Errorf("%d openings and %d closings in the log, want a pair per second: %s", n, m, logs)
		}
		inner.down()
		takes(b, 5)
		time.Sleep(time.Second) // at once may be too early
		if again, _ := said(); again != n+1 {
			t.Errorf("%d openings in the log, want %d: %s", again, n+1, logs)
		}
		wantState(t, b, "open")
	})
}

func TestBreakerCloseEndsProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreaker(inner, Config{Logger: slog.New(slog.DiscardHandler)}.withDefaults())
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
