package resilience

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

// wantLog checks how often the log says that the store was lost, still is, and is back.
func wantLog(t *testing.T, logs *logbook, lost, still, back int) {
	t.Helper()
	synctest.Wait()
	if n := logs.count(slog.LevelError, "store is unavailable"); n != lost {
		t.Errorf("the log says %d times that the store is lost, want %d", n, lost)
	}
	if n := logs.count(slog.LevelError, "is still unavailable"); n != still {
		t.Errorf("the log says %d times that it still is, want %d", n, still)
	}
	if n := logs.count(slog.LevelInfo, "is available again"); n != back {
		t.Errorf("the log says %d times that it is back, want %d", n, back)
	}
	if t.Failed() {
		t.Fatal(logs)
	}
}

// logged runs a test of a stack that logs.
func logged(t *testing.T, c Config, test func(t *testing.T, store *fake, s *Stack, logs *logbook)) {
	t.Helper()
	logs := new(logbook)
	c.Logger = logs.logger()
	over(t, c, func(t *testing.T, store *fake, s *Stack) { test(t, store, s, logs) })
}

// Every outage is logged, with what was asked, whatever the failure mode. F45
func TestOutagesAreLogged(t *testing.T) {
	for _, mode := range []stint.FailureMode{stint.FailLocal, stint.FailAllow, stint.FailDeny, stint.FailError} {
		t.Run(mode.String(), func(t *testing.T) {
			c := alone
			c.Failure.Mode = mode
			logged(t, c, func(t *testing.T, store *fake, s *Stack, logs *logbook) {
				for i := range 3 {
					store.down()
					for range 50 {
						_, _ = s.Take(t.Context(), oneUnit(fmt.Sprintf("user:%d-somebody", i), stint.PerHour(70)))
					}
					wantLog(t, logs, i+1, 0, i)
					want := fmt.Sprintf("mode=%s key=user:%d-some… limit=70/1h", mode, i)
					if logs.count(slog.LevelError, want) != 1 || logs.count(slog.LevelError, "somebody") != 0 {
						t.Errorf("want one message with %s, and no subject in full: %s", want, logs)
					}
					store.up()
					time.Sleep(2500 * time.Millisecond)
					wantLog(t, logs, i+1, 0, i+1)
				}
				if n := logs.count(slog.LevelInfo, "decisions_without_it=50"); n != 3 && mode != stint.FailError {
					t.Errorf("%d outages are said to have had 50 decisions, want 3: %s", n, logs)
				}
			})
		})
	}
}

// While an outage lasts, that is logged every 10 s, also if no request comes. After it, the process
// does not ask on.
func TestLongOutageIsLogged(t *testing.T) {
	logged(t, alone, func(t *testing.T, store *fake, s *Stack, logs *logbook) {
		store.fail(refusedCall())
		mustDecide(t, s, oneUnit("a"))
		time.Sleep(50 * time.Millisecond) // from here on nothing happens at the same instant
		for range 350 {                   // ten a second
			mustDecide(t, s, oneUnit("a"))
			time.Sleep(100 * time.Millisecond)
		}
		wantLog(t, logs, 1, 3, 0)
		if n := logs.count(slog.LevelError, "decisions_without_it=100"); n != 3 {
			t.Errorf("%d reminders tell of 100 decisions, want 3: %s", n, logs)
		}
		time.Sleep(time.Minute)
		wantLog(t, logs, 1, 9, 0)
		store.up()
		time.Sleep(2 * time.Second)
		wantLog(t, logs, 1, 9, 1)
		if n := logs.count(slog.LevelInfo, "decisions_without_it=351"); n != 1 {
			t.Errorf("the end does not tell of all 351 decisions: %s", logs)
		}
		asked := len(store.batches())
		time.Sleep(time.Minute)
		if len(store.batches()) != asked {
			t.Error("the process asks, although nothing is wrong")
		}
	})
}

// One late answer is a warning. If answers stay late, or the breaker opens, an error follows that
// tells a store that is slow from one that is silent.
func TestLateAnswersAreLogged(t *testing.T) {
	logged(t, Config{Instances: 1}, func(t *testing.T, store *fake, s *Stack, logs *logbook) {
		late := storeError(stint.KindTimeout)
		store.fail(late, opTake)
		mustDecide(t, s, oneUnit("a"))
		store.up()
		time.Sleep(3 * time.Second)
		wantLog(t, logs, 0, 0, 1)
		if n := logs.count(slog.LevelWarn, "did not answer in time"); n != 1 {
			t.Fatalf("%d warnings, want 1: %s", n, logs)
		}
		store.fail(late, opTake)
		for range 4 { // too few in a row for the breaker
			mustDecide(t, s, oneUnit("a"))
			time.Sleep(400 * time.Millisecond)
		}
		wantLog(t, logs, 1, 0, 1)
		if n := logs.count(slog.LevelError, "it answers too late"); n != 1 {
			t.Fatalf("%d errors about a slow store, want 1: %s", n, logs)
		}
		store.up()
		time.Sleep(5 * time.Second)
		wantLog(t, logs, 1, 0, 2)
		store.fail(late) // pings too
		admitted(t, s, 10, oneUnit("a"))
		wantState(t, s, "open")
		wantLog(t, logs, 2, 0, 2)
		if n := logs.count(slog.LevelError, "does not answer"); n != 1 {
			t.Fatalf("%d errors about a silent store, want 1: %s", n, logs)
		}
	})
}

// An outage during which no request comes is noticed by the heartbeat that counts processes.
func TestOutageWithoutRequestsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, logs := &roster{fake: newFake(t)}, new(logbook)
		newStack(t, store, Config{Logger: logs.logger()})
		time.Sleep(5 * time.Second)
		store.down()
		time.Sleep(5 * time.Second)
		wantLog(t, logs, 1, 0, 0)
		store.up()
		time.Sleep(5 * time.Second)
		wantLog(t, logs, 1, 0, 1)
	})
}

// A slot of a Cluster that is being moved is no outage: the log does not say so.
func TestMovingSlotIsNoOutage(t *testing.T) {
	logged(t, Config{Instances: 1}, func(t *testing.T, store *fake, s *Stack, logs *logbook) {
		store.fail(storeError(stint.KindMigrating))
		wantAdmitted(t, s, 9, oneUnit("a", stint.PerHour(3)), 3)
		wantState(t, s, "closed")
		store.up()
		time.Sleep(5 * time.Second)
		wantLog(t, logs, 0, 0, 0)
		wantUsed(t, store, "a", stint.PerHour(3), 3)
	})
}

// TestFlappingIsOneOutage checks that a store that comes and goes nine times a second has one outage.
func TestFlappingIsOneOutage(t *testing.T) {
	logged(t, alone, func(t *testing.T, store *fake, s *Stack, logs *logbook) {
		for range 227 {
			store.fail(refusedCall())
			admitted(t, s, 5, oneUnit("a"))
			store.up()
			mustDecide(t, s, oneUnit("a"))
			time.Sleep(110 * time.Millisecond)
		}
		wantLog(t, logs, 1, 2, 0)
		time.Sleep(2 * time.Second)
		wantLog(t, logs, 1, 2, 1)
		if n := logs.count(slog.LevelInfo, "decisions_without_it=1135"); n != 1 {
			t.Errorf("the decisions are not all told: %s", logs)
		}
	})
}

// TestRejectedCredentialsAreLogged checks that a store that rejects our credentials is logged as
// such, at once, also if that becomes known during an outage. F29
func TestRejectedCredentialsAreLogged(t *testing.T) {
	logged(t, alone, func(t *testing.T, store *fake, s *Stack, logs *logbook) {
		store.fail(storeError(stint.KindAuth))
		for range 50 {
			admitted(t, s, 10, oneUnit("a"))
			time.Sleep(500 * time.Millisecond)
		}
		if n, m := logs.count(slog.LevelError, "password"), logs.count(slog.LevelWarn, ""); n != 3 || m != 0 {
			t.Errorf("%d errors and %d warnings in 25 s, want 3 and none: %s", n, m, logs)
		}
		store.up()
		time.Sleep(3 * time.Second)
		wantLog(t, logs, 1, 2, 1)
		store.down() // another outage, which turns out to be a wrong password
		mustDecide(t, s, oneUnit("a"))
		wantLog(t, logs, 2, 2, 1)
		store.fail(storeError(stint.KindAuth))
		_ = s.Command(t.Context(), stint.Command{Kind: stint.CommandUnban, Subject: "a"})
		synctest.Wait()
		if n := logs.count(slog.LevelError, "password"); n != 4 {
			t.Errorf("%d errors after a command, want 4: %s", n, logs)
		}
	})
}

// TestRecoveryWithoutRequests checks that a process finds out by itself that its store is well again,
// although no request comes, and not before.
func TestRecoveryWithoutRequests(t *testing.T) {
	for _, mode := range []stint.FailureMode{stint.FailLocal, stint.FailError} {
		for kind, ops := range map[stint.StoreErrorKind][]string{
			stint.KindUnreachable: nil,
			stint.KindFull:        {opTake}, // it can be read
		} {
			c := Config{Failure: stint.FailurePolicy{Mode: mode}, Instances: 1}
			logged(t, c, func(t *testing.T, store *fake, s *Stack, logs *logbook) {
				store.fail(storeError(kind), ops...)
				for i := range 10 {
					_, _ = s.Take(t.Context(), oneUnit(fmt.Sprint(i)))
				}
				for range 60 {
					time.Sleep(time.Second)
					if synctest.Wait(); s.Breaker() == "closed" {
						t.Fatal("the breaker is closed")
					}
				}
				wantLog(t, logs, 1, 6, 0)
				store.up()
				time.Sleep(3 * time.Second)
				wantState(t, s, "closed")
				wantLog(t, logs, 1, 6, 1)
			})
		}
	}
}

// writerFunc writes what is logged.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestCallFailsAtTheEndOfAnOutage checks that a call that fails while the end of an outage is logged
// begins another one.
func TestCallFailsAtTheEndOfAnOutage(t *testing.T) {
	logs, c := new(logbook), alone
	var s *Stack
	var failed atomic.Bool
	c.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "is available again") && failed.CompareAndSwap(false, true) {
			s.outage.decisions.Add(1) // as failed does first; its goroutine has to wait for the CPU then
		}
		return logs.Write(p)
	}), nil))
	over(t, c, func(t *testing.T, store *fake, stack *Stack) {
		s = stack
		store.down()
		mustDecide(t, s, oneUnit("a"))
		store.up()
		time.Sleep(10 * time.Second)
		wantLog(t, logs, 2, 0, 2)
	})
}
