package resilience_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/resilience"
)

func TestFallbackLogsEpisodesNotDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallback(t, inner, resilience.FallbackConfig{Instances: 1, Logger: logs.logger()})
		for range 20 { // it comes and goes, ten times a second
			inner.down()
			admitted(t, f, 50, oneUnit("a"))
			inner.up()
			mustDecide(t, f, oneUnit("a"))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		inner.down()
		admitted(t, f, 50, oneUnit("a"))
		inner.up()
		admitted(t, f, 5, oneUnit("a"))
		if n, m := logs.count(slog.LevelWarn, "cannot be asked"), logs.count(slog.LevelInfo, "again"); n != 2 || m != 2 {
			t.Errorf("%d lost, %d back, want two of each", n, m)
		}
		if n := logs.count(slog.LevelInfo, "decisions_without_it=1000"); n != 1 { // 19 times 50 that nothing was said of, and 50
			t.Errorf("the decisions are not all told: %s", logs)
		}
	})
}

func TestFallbackIsLoudAboutAuth(t *testing.T) { // F29
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallback(t, inner, resilience.FallbackConfig{Instances: 1, Logger: logs.logger()})
		inner.fail(&stint.StoreError{Op: "take", Kind: stint.KindAuth, Err: errors.New("NOAUTH")})
		for range 60 {
			admitted(t, f, 10, oneUnit("a"))
			time.Sleep(500 * time.Millisecond)
		}
		if n, m := logs.count(slog.LevelError, "NOAUTH"), logs.count(slog.LevelWarn, ""); n != 3 || m != 0 {
			t.Errorf("%d errors and %d warnings in 30 s, want 3 and none: %s", n, m, logs)
		}
		time.Sleep(10 * time.Second)
		_ = f.Command(t.Context(), stint.Command{Kind: stint.Unban, Subject: "a"})
		if n := logs.count(slog.LevelError, "password"); n != 4 {
			t.Errorf("%d errors after a command, want 4", n)
		}
	})
}
