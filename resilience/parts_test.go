package resilience

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

// Every part can be switched off, alone and with all others. The stack then still decides, is
// observed once per decision, and does not do what the part does.
func TestPartsCanBeSwitchedOff(t *testing.T) {
	leased := stint.PerMinute(1_000_000).WithLease()
	for name, c := range map[string]Config{
		"nothing":    {},
		"deny cache": {NoDenyCache: true},
		"leases":     {NoLeases: true},
		"fallback":   {NoFallback: true},
		"deadline":   {NoDeadline: true},
		"batching":   {NoBatching: true},
		"breaker":    {NoBreaker: true},
		"everything": {NoDenyCache: true, NoLeases: true, NoFallback: true, NoDeadline: true, NoBatching: true,
			NoBreaker: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, seen := newFlaky(t), &counter{}
				off := c
				c.Observer, c.Instances, c.BreakerFailures = seen, 1, 2
				if !c.NoDeadline {
					c.Failure.Budget = 20 * time.Millisecond
				}
				s := newStack(t, store, c)
				asked := int64(0)
				take := func(subject string, limit stint.Limit) (stint.Decision, error) {
					asked++
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					defer cancel()
					return s.Take(ctx, oneUnit(subject, limit))
				}
				want := func(what string, got, want bool) {
					t.Helper()
					if got != want {
						t.Errorf("%s: %v, want %v", what, got, want)
					}
				}

				for i, allowed := range []bool{true, false, false} {
					if d, err := take("few", stint.PerHour(1)); err != nil || d.Allowed != allowed {
						t.Errorf("request %d of few: allowed %v, %v; want %v", i, d.Allowed, err, allowed)
					}
				}
				want("denials from memory", seen.denials.Load() > 0, !off.NoDenyCache)
				for range 2000 {
					if d, err := take("many", leased); err != nil || !d.Allowed {
						t.Fatalf("many: allowed %v, %v", d.Allowed, err)
					}
					if !off.NoLeases && seen.leased.Load() > 0 {
						break
					}
					time.Sleep(time.Microsecond)
				}
				want("units from leases", seen.leased.Load() > 0, !off.NoLeases)
				want("calls of batches", store.batches.Load() > 0, !off.NoBatching)

				store.hang(true)
				begin := time.Now()
				d, err := take("slow", stint.PerHour(1))
				want("decided at once", time.Since(begin) < 150*time.Millisecond, !off.NoDeadline)
				want("decided without the store", err == nil && d.Degraded && d.Allowed, !off.NoFallback)
				store.hang(false)
				store.down()
				for range 10 {
					_, _ = take("down", stint.PerHour(1))
				}
				want("breaker opened", s.Breaker() != "closed", !off.NoBreaker)
				if got := seen.decisions.Load(); got != asked {
					t.Errorf("%d decisions observed, want %d", got, asked)
				}
				if s.Instances() != 1 {
					t.Errorf("%d instances, want 1", s.Instances())
				}
				store.up()
			})
		})
	}
}
