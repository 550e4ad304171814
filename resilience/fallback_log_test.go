package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// wantLog checks how often the log says that the store was lost, still is, and is back.
func wantLog(t *testing.T, logs *logbook, lost, still, back int) {
	t.Helper()
	synctest.Wait()
	if n := logs.count(slog.LevelError, "store cannot be asked"); n != lost {
		t.Errorf("the log says %d times that the store is lost, want %d", n, lost)
	}
	if n := logs.count(slog.LevelError, "still cannot be asked"); n != still {
		t.Errorf("the log says %d times that it still is, want %d", n, still)
	}
	if n := logs.count(slog.LevelInfo, "can be asked again"); n != back {
		t.Errorf("the log says %d times that it is back, want %d", n, back)
	}
	if t.Failed() {
		t.Fatal(logs)
	}
}

func TestFallbackLogsEveryOutage(t *testing.T) { // F45
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallbackFor(t, inner, Config{Instances: 1, Logger: logs.logger()})
		for i := range 3 {
			inner.down()
			who := fmt.Sprintf("user-%d", i)
			admitted(t, f, 50, oneUnit(who))
			wantLog(t, logs, i+1, 0, i)
			if n := logs.count(slog.LevelError, "key="+who); n != 1 { // not that of an outage before
				t.Errorf("%d messages name %s, want 1: %s", n, who, logs)
			}
			inner.up()
			mustDecide(t, f, oneUnit("a"))
			time.Sleep(2500 * time.Millisecond)
			wantLog(t, logs, i+1, 0, i+1)
		}
		if n := logs.count(slog.LevelInfo, "decisions_without_it=50"); n != 3 {
			t.Errorf("%d outages are said to have had 50 decisions, want 3: %s", n, logs)
		}
	})
}

func TestFallbackLogsThatAnOutageLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallbackFor(t, inner, Config{Instances: 1, Logger: logs.logger()})
		inner.down()
		mustDecide(t, f, oneUnit("a"))
		time.Sleep(50 * time.Millisecond) // from here on nothing happens at the same instant
		for range 350 {                   // ten a second
			mustDecide(t, f, oneUnit("a"))
			time.Sleep(100 * time.Millisecond)
		}
		wantLog(t, logs, 1, 3, 0)
		if n := logs.count(slog.LevelError, "decisions_without_it=100"); n != 3 {
			t.Errorf("%d reminders tell of 100 decisions, want 3: %s", n, logs)
		}
		// No request comes, and it is still down.
		time.Sleep(time.Minute)
		wantLog(t, logs, 1, 9, 0)
		inner.up()
		time.Sleep(2 * time.Second)
		wantLog(t, logs, 1, 9, 1)
		if n := logs.count(slog.LevelInfo, "decisions_without_it=351"); n != 1 {
			t.Errorf("the end does not tell of all 351 decisions: %s", logs)
		}
		asked := inner.calls()
		time.Sleep(time.Minute)
		if inner.calls() != asked {
			t.Error("the process asks, although nothing is wrong")
		}
	})
}

func TestFallbackLogsNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallbackFor(t, inner, Config{Instances: 1, Logger: logs.logger()})
		for range 227 { // it comes and goes, nine times a second
			inner.down()
			admitted(t, f, 50, oneUnit("a"))
			inner.up()
			mustDecide(t, f, oneUnit("a"))
			time.Sleep(110 * time.Millisecond)
		}
		wantLog(t, logs, 1, 2, 0)
		time.Sleep(2 * time.Second)
		wantLog(t, logs, 1, 2, 1)
		if n := logs.count(slog.LevelInfo, "decisions_without_it=11350"); n != 1 {
			t.Errorf("the decisions are not all told: %s", logs)
		}
	})
}

func TestFallbackIsLoudAboutAuth(t *testing.T) { // F29
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallbackFor(t, inner, Config{Instances: 1, Logger: logs.logger()})
		inner.fail(&stint.StoreError{Op: "take", Kind: errkind.Auth, Err: errors.New("NOAUTH")})
		for range 50 {
			admitted(t, f, 10, oneUnit("a"))
			time.Sleep(500 * time.Millisecond)
		}
		if n, m := logs.count(slog.LevelError, "NOAUTH"), logs.count(slog.LevelWarn, ""); n != 3 || m != 0 {
			t.Errorf("%d errors and %d warnings in 25 s, want 3 and none: %s", n, m, logs)
		}
		inner.up()
		time.Sleep(3 * time.Second)
		wantLog(t, logs, 0, 0, 1)

		// Another outage, which turns out to be a wrong password.
		inner.down()
		mustDecide(t, f, oneUnit("a"))
		wantLog(t, logs, 1, 0, 1)
		inner.fail(&stint.StoreError{Op: "command", Kind: errkind.Auth, Err: errors.New("WRONGPASS")})
		_ = f.Command(t.Context(), stint.Command{Kind: stint.CommandUnban, Subject: "a"})
		time.Sleep(1500 * time.Millisecond)
		if n := logs.count(slog.LevelError, "password"); n != 4 {
			t.Errorf("%d errors after a command, want 4: %s", n, logs)
		}
	})
}

// The store is well again and no request comes: the process finds out by itself.
func TestStackRecoversWithoutRequests(t *testing.T) {
	full := &stint.StoreError{Op: "take", Kind: errkind.Full, Err: errDown}
	for name, test := range map[string]struct {
		failure error
		ops     []string // that fail
		mode    stint.FailureMode
	}{
		"unreachable":                {failure: unreachable()},
		"unreachable, with an error": {failure: unreachable(), mode: stint.FailError},
		"full, but answers pings":    {failure: full, ops: []string{"take"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, logs := newFlaky(t), new(logbook)
				inner.looks = true
				s, err := New(inner, Config{
					Failure: stint.FailurePolicy{Mode: test.mode}, Instances: 1, Logger: logs.logger()})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				inner.fail(test.failure, test.ops...)
				for i := range 10 {
					_, _ = s.Take(t.Context(), oneUnit(fmt.Sprint(i)))
				}
				wantClosed := func(want bool) {
					t.Helper()
					synctest.Wait()
					if got := s.Breaker() == "closed"; got != want {
						t.Fatalf("the breaker is %v", s.Breaker())
					}
				}
				for range 60 {
					time.Sleep(time.Second)
					wantClosed(false)
				}
				wantLog(t, logs, 1, 6, 0)
				inner.fail(nil, test.ops...)
				time.Sleep(3 * time.Second)
				wantClosed(true)
				wantLog(t, logs, 1, 6, 1)
			})
		})
	}
}

// A slot of a Cluster that is being moved is no outage: the log does not say so.
func TestFallbackMovingSlotIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallbackFor(t, inner, Config{Instances: 1, Logger: logs.logger()})
		inner.fail(&stint.StoreError{Op: "take", Kind: errkind.Migrating, Err: errDown})
		if got := admitted(t, f, 5, oneUnit("a", stint.PerHour(3))); got != 3 {
			t.Errorf("%d admitted, want 3", got)
		}
		inner.up()
		time.Sleep(5 * time.Second)
		wantLog(t, logs, 0, 0, 0)
		if got := usedOf(t, inner, "a", stint.PerHour(3)); got != 3 {
			t.Errorf("the store has counted %d, want 3", got)
		}
	})
}

// Every outage is logged with what was asked, however short it is and whatever the failure mode.
func TestFallbackLogsWhatWasAsked(t *testing.T) {
	for _, mode := range []stint.FailureMode{stint.FailLocal, stint.FailAllow, stint.FailDeny, stint.FailError} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, logs := newFlaky(t), new(logbook)
				f := newFallbackFor(t, inner, Config{Failure: stint.FailurePolicy{Mode: mode}, Instances: 1,
					Logger: logs.logger()})
				for i := range 3 {
					inner.down()
					_, _ = f.Take(t.Context(), oneUnit("user:somebody", stint.PerHour(7))) // it is for the log to say
					inner.up()
					want := "mode=" + mode.String() + " key=user:somebo… limit=7/1h"
					if n := logs.count(slog.LevelError, want); n != i+1 {
						t.Errorf("%d records have %q after %d outages: %s", n, want, i+1, logs)
					}
					time.Sleep(3 * time.Second)
				}
				if logs.count(slog.LevelError, "somebody") != 0 {
					t.Errorf("a subject is logged in full: %s", logs)
				}
			})
		})
	}
}

// An outage during which no request comes is logged, too.
func TestStackLogsAnOutageWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := &counting{flaky: newFlaky(t)}, new(logbook)
		s, err := New(inner, Config{Logger: logs.logger()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		time.Sleep(5 * time.Second)
		inner.down()
		time.Sleep(5 * time.Second)
		wantLog(t, logs, 1, 0, 0)
		inner.up()
		time.Sleep(5 * time.Second)
		wantLog(t, logs, 1, 0, 1)
	})
}

// counting is a store that counts processes while it works.
type counting struct{ *flaky }

func (c *counting) Present(ctx context.Context, _ string) (int, error) {
	if _, err := c.Take(ctx, oneUnit("presence")); err != nil {
		return 0, err
	}
	return 1, nil
}
