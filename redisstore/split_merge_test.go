package redisstore

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// What a group was charged and is given back is subtracted once, however often its decision is
// merged.
func TestMergeLeavesTheGroupsAlone(t *testing.T) {
	limits := []stint.Limit{stint.PerHour(10)}
	r := &stint.Request{
		Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 1}, {Subject: "b", Limits: limits, Cost: 2}},
	}
	q := &split{r: r, groups: groups(r.Claims)}
	first, second := &q.groups[0], &q.groups[1]
	first.asked, first.decision = true, stint.Decision{RetryAfter: 1}
	first.decision.MakeUsages(1)[0] = stint.Usage{Used: 10, RetryAfter: 1}
	second.asked, second.decision = true, stint.Decision{
		Allowed: true, Charge: driver.NewCharge(nil, driver.ChargeData{ID: 1, At: 1})}
	second.decision.MakeUsages(1)[0] = stint.Usage{Used: 5}
	for range 2 {
		d := q.merge()
		if want := []stint.Usage{{Used: 10, RetryAfter: 1}, {Used: 3}}; d.Allowed || !slices.Equal(d.Usages(), want) {
			t.Errorf("allowed %v, %+v; want denied, %+v", d.Allowed, d.Usages(), want)
		}
	}
}

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
