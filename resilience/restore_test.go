package resilience

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/memorystore"
)

// volatile is a store that can lose its memory.
type volatile struct {
	driver.BatchStore
	memory atomic.Pointer[memorystore.Store]
	lost   atomic.Int64
}

func newVolatile(t *testing.T) *volatile {
	t.Helper()
	v := &volatile{}
	v.flush(t)
	return v
}

func (v *volatile) flush(t *testing.T) {
	t.Helper()
	v.memory.Store(newMemory(t, memorystore.Config{}))
	v.lost.Add(1)
}

func (v *volatile) TakeBatch(ctx context.Context, batch []*driver.Call) {
	for _, c := range batch {
		c.Decision, c.Err = v.memory.Load().Take(ctx, c.Request)
	}
}

func (v *volatile) Command(ctx context.Context, c stint.Command) error {
	return v.memory.Load().Command(ctx, c)
}

func (v *volatile) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	return v.memory.Load().Announcements(ctx, f)
}

func (v *volatile) Present(_ context.Context, p driver.Presence) (driver.Presence, error) {
	p.Processes, p.Memory = 1, fmt.Sprint(v.lost.Load())
	return p, nil
}

// wantUsed checks what is counted of a limit.
func (v *volatile) wantUsed(t *testing.T, l stint.Limit, want int64) {
	t.Helper()
	wantUsed(t, v.memory.Load(), "user", l, want)
}

func takeUnits(t *testing.T, s *Stack, cost int64, limits ...stint.Limit) {
	t.Helper()
	wantDecided(t, s, ask("user", cost, limits...), true, false)
}

// A store that has lost its memory learns what was used from the processes that are left, whether
// or not they have asked it since. What was used counts for as long as it would have.
func TestALossIsRestored(t *testing.T) {
	limits := []stint.Limit{stint.PerHour(10), stint.PerDay(1000),
		{Max: 20, Window: 24 * time.Hour, Algorithm: stint.AlgorithmFixed},
		stint.Monthly(30), stint.TokenBucket(20, 1, time.Hour), stint.PerMinute(10).BurstTimes(3)}
	for name, asks := range map[string]bool{"without a question": false, "with a question": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVolatile(t)
				s := newStack(t, v, alone)
				takeUnits(t, s, 5, limits...)
				time.Sleep(10 * time.Minute)
				takeUnits(t, s, 3, limits...)
				time.Sleep(3 * time.Second)
				v.flush(t)
				if asks {
					takeUnits(t, s, 1, limits...)
				}
				time.Sleep(3 * time.Second)
				for i, want := range map[bool][]int64{false: {8, 8, 8, 8, 8, 3}, true: {9, 9, 9, 9, 8, 3}}[asks] {
					v.wantUsed(t, limits[i], want)
				}
				time.Sleep(55 * time.Minute)
				v.wantUsed(t, limits[0], map[bool]int64{false: 3, true: 4}[asks]) // which have not left the hour
			})
		})
	}
}

// What was reset, has expired or was not to be restored is no loss.
func TestNoLossIsRestored(t *testing.T) {
	reset := stint.Command{Kind: stint.CommandReset, Subject: "user", Limits: []stint.Limit{stint.PerHour(100)}}
	for name, test := range map[string]func(t *testing.T, v *volatile, s *Stack){
		"a reset by this process":    func(t *testing.T, _ *volatile, s *Stack) { mustCommand(t, s, reset) },
		"a reset by another process": func(t *testing.T, v *volatile, _ *Stack) { mustCommand(t, v, reset) },
		"a reset before a loss": func(t *testing.T, v *volatile, _ *Stack) {
			mustCommand(t, v, reset)
			time.Sleep(3 * time.Second)
			v.flush(t)
		},
		"all of it has left its window": func(t *testing.T, v *volatile, _ *Stack) {
			time.Sleep(time.Hour)
			v.flush(t)
		},
		"it is switched off": func(t *testing.T, v *volatile, _ *Stack) { v.flush(t) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, limit, config := newVolatile(t), stint.PerHour(100), alone
				config.NoRestore = name == "it is switched off"
				s := newStack(t, v, config)
				takeUnits(t, s, 60, limit)
				time.Sleep(3 * time.Second)
				test(t, v, s)
				takeUnits(t, s, 1, limit)
				time.Sleep(3 * time.Second)
				v.wantUsed(t, limit, 1)
			})
		})
	}
}

// The latest answer of all processes counts what each was granted. Their sum would be too much.
func TestTheLatestAnswerIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, limit := newVolatile(t), stint.PerHour(100)
		a, b, c := newStack(t, v, alone), newStack(t, v, alone), newStack(t, v, alone)
		for i, s := range []*Stack{a, b, c, a, b} {
			takeUnits(t, s, int64(i+1), limit)
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Second) // answers since the last heartbeat are not sent
		v.flush(t)
		time.Sleep(3 * time.Second)
		v.wantUsed(t, limit, 15)
	})
}
