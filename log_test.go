package stint_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/guardtest"
)

// Every method of a limiter logs failures, denials and admissions, without the full subject.
func TestWithLogger(t *testing.T) {
	memory := guardtest.Memory(t)
	lost := guardtest.Failing{Err: &stint.StoreError{Op: "any", Err: errors.New("no store today")}}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	over := func(store stint.Store) *stint.Limiter {
		return limiterOver(t, store, stint.PerMinute(2), stint.PerDay(1000), stint.WithLogger(logger))
	}
	ctx, who := t.Context(), "user:somebody"
	works, fails := over(memory), over(lost)
	allow := func() error { _, err := works.Allow(ctx, who); return err }
	const failed = `level=ERROR msg="stint: a request could not be decided" cause="stint: any: no store today" key=user:somebo… limit="2/1m, 1000/1d"`
	for _, c := range []struct {
		name string
		ask  func() error
		want string // "" if nothing is logged
	}{
		{"allowed", allow, `level=DEBUG msg="stint: allowed" key=user:somebo… limit=2/1m used=1 remaining=1`},
		{"the last one", allow, `level=DEBUG msg="stint: allowed" key=user:somebo… limit=2/1m used=2 remaining=0`},
		{"denied", allow, `level=WARN msg="stint: denied" key=user:somebo… limit=2/1m retry_after=`},
		{"a peek", func() error { _, err := works.Peek(ctx, who); return err }, ""},
		{"a mistake", func() error { _, err := works.AllowN(ctx, "", -1); return err }, ""},
		{"no wait", func() error {
			_, err := works.WaitFor(ctx, stint.Request{Claims: []stint.Claim{{Subject: who, Cost: 1}}, MaxWait: 1000})
			return err
		}, `level=WARN msg="stint: denied"`},
		{"no store to ask", func() error { _, err := over(guardtest.Away{}).Allow(ctx, who); return err },
			`level=WARN msg="stint: denied" key=user:somebo… limit=2/1m retry_after=1s degraded=true unavailable=true`},
		{"Allow fails", func() error { _, err := fails.Allow(ctx, who); return err }, failed},
		{"Take fails", func() error {
			_, err := fails.Take(ctx, stint.Request{Claims: []stint.Claim{{Subject: who, Cost: 1}}})
			return err
		}, failed},
		{"Wait fails", func() error { _, err := fails.Wait(ctx, who); return err }, failed},
		{"Refund fails", func() error {
			_, err := fails.Refund(ctx, stint.Decision{Charge: driver.NewCharge([]stint.Claim{{Subject: who,
				Limits: fails.Limits()}}, driver.ChargeData{ID: 1})})
			return err
		}, strings.Replace(failed, "a request could not be decided", "a charge could not be corrected", 1)},
		{"settled into too large a debt", func() error {
			bucket := limiterOver(t, memory, stint.TokenBucket(100, 1, time.Hour), stint.WithLogger(logger))
			d, _ := bucket.Allow(ctx, who)
			_, err := bucket.Settle(ctx, d, 5000)
			return err
		}, `level=WARN msg="stint: a part of a settlement is not charged: its debt would be too large" cost=5000 charged=200 key=user:somebo… limit="1/1h`},
		{"Reset fails", func() error { return fails.Reset(ctx, who) },
			strings.Replace(failed, "a request could not be decided", "a command failed", 1)},
	} {
		log.Reset()
		_ = c.ask() // the test checks only the log
		if got := log.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) ||
			strings.Contains(got, "somebody") {
			t.Errorf("%s: got %s; want %s", c.name, got, c.want)
		}
	}
	log.Reset()
	for range 100 {
		_ = allow() // the test checks only the log
	}
	if n := strings.Count(log.String(), "\n"); n > 10 { // the records of at most two seconds
		t.Errorf("%d records of 100 denials, want 5 per second", n)
	}
}
