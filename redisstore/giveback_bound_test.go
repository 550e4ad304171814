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
	b := newGiveBacks(nil, slog.New(slog.NewTextHandler(&log, nil)))
	release := make(chan struct{})
	if !b.start(maxGiveBacks, func() { <-release }) {
		t.Fatal("refused at once")
	}
	left := false
	for range 5 {
		b.add(driver.NewCharge(nil, driver.ChargeData{ID: 1}))
	}
	b.follow(nil, 3, func() { left = true })
	if n := b.dropped.Load(); n != 8 || !left {
		t.Errorf("%d were dropped, want 8", n)
	}
	if n := strings.Count(log.String(), "cannot be given back"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, log.String())
	}
	close(release)
	b.close()
	if b.start(1, func() {}) {
		t.Error("something was begun after the end")
	}
}
