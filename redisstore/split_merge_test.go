package redisstore

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/driver"
)

// What waits to be given back is bounded; what is more is counted, and said once in a while.
func TestGiveBacksAreBounded(t *testing.T) {
	var log strings.Builder
	s := newStore(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	s.conn.usable.Store(true)
	s.backs.waiting.Store(maxGiveBacks)
	for range 5 {
		s.giveBack(driver.NewCharge(nil, driver.ChargeData{ID: 1}))
	}
	s.giveBack(driver.NewCharge(nil, driver.ChargeData{})) // nothing
	s.backs.waiting.Store(0)
	s.conn.stop()
	s.giveBack(driver.NewCharge(nil, driver.ChargeData{ID: 1}))
	if n := s.backs.dropped.Load(); n != 6 || s.backs.waiting.Load() != 0 {
		t.Errorf("%d were dropped, want 6", n)
	}
	if n := strings.Count(log.String(), "cannot be given back"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, log.String())
	}
}
