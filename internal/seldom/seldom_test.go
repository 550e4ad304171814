package seldom_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/seldom"
)

// step is some events at a time, of which some are let through, and what those tell of the others.
type step struct {
	at      time.Duration
	events  int
	through int
	told    int64
}

func TestGate(t *testing.T) {
	const minute = time.Minute
	tests := []struct {
		name  string
		take  func(*seldom.Gate, int, time.Duration) (int64, bool)
		most  int
		steps []step
	}{
		{"one a minute", (*seldom.Gate).Take, 1, []step{
			{0, 1, 1, 0}, {1, 4, 0, 0}, {minute - 1, 5, 0, 0}, {minute, 1, 1, 9}, {minute + 1, 1, 0, 0}, {2 * minute, 1, 1, 1},
		}},
		{"a few a minute", (*seldom.Gate).Take, 3, []step{
			{0, 2, 2, 0}, {minute / 2, 10, 1, 0}, {minute, 5, 3, 9}, {5 * minute, 1, 1, 2},
		}},
		{"the interval begins with its first event", (*seldom.Gate).Take, 1, []step{
			{0, 1, 1, 0}, {minute + minute/2, 1, 1, 0}, {2 * minute, 1, 0, 0}, {3*minute - minute/2, 1, 1, 1},
		}},
		{"what is rare is never left out", (*seldom.Gate).Take, 1, []step{
			{0, 1000, 1, 0}, {minute, 1, 1, 999}, {2 * minute, 1, 1, 0},
		}},
		{"sampled, the interval's few", (*seldom.Gate).Sample, 3, []step{
			{0, 2, 2, 0}, {1, 2, 1, 0}, {minute, 15, 3, 1}, {minute, 20, 0, 0},
		}},
		{"sampled, after a few that are no flood", (*seldom.Gate).Sample, 1, []step{
			{0, 17, 1, 0}, {minute, 1, 1, 16}, {2 * minute, 2, 1, 0}, {3 * minute, 1, 1, 1},
		}},
		{"sampled, without floods", (*seldom.Gate).Sample, 1, []step{
			{0, 1, 1, 0}, {minute, 1, 1, 0}, {2 * minute, 1, 1, 0},
		}},
		{"sampled, after a flood", (*seldom.Gate).Sample, 1, []step{
			{0, 100, 1, 0}, {minute, 13, 0, 0}, {minute, 1, 1, 112},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var gate seldom.Gate
				for i, s := range test.steps {
					time.Sleep(s.at - time.Since(start))
					through, told := 0, int64(0)
					for range s.events {
						if left, ok := test.take(&gate, test.most, minute); ok {
							through++
							told += left
						}
					}
					if through != s.through || told != s.told {
						t.Errorf("step %d: %d let through, %d told of; want %d and %d", i, through, told, s.through, s.told)
					}
				}
			})
		})
	}
}

// Every event is let through or told of, and no interval has more than it may.
func TestGateInParallel(t *testing.T) {
	for name, take := range map[string]func(*seldom.Gate, int, time.Duration) (int64, bool){
		"Take": (*seldom.Gate).Take, "Sample": (*seldom.Gate).Sample,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const callers, each, most = 8, 500, 3
				var gate seldom.Gate
				var through, told atomic.Int64
				flood := func() {
					var group sync.WaitGroup
					for range callers {
						group.Go(func() {
							for range each {
								if left, ok := take(&gate, most, time.Second); ok {
									through.Add(1)
									told.Add(left)
								}
							}
						})
					}
					group.Wait()
				}
				for second := range int64(3) {
					flood()
					if got, want := through.Load(), most*(second+1); got != want {
						t.Errorf("after %d s: %d let through, want %d", second, got, want)
					}
					time.Sleep(time.Second)
				}
				left, ok := gate.Take(most, time.Second)
				if !ok {
					t.Fatal("the interval is over, and nothing is let through")
				}
				if got, want := through.Load()+told.Load()+left, int64(3*callers*each); got != want {
					t.Errorf("%d were let through or told of, want %d", got, want)
				}
			})
		})
	}
}

func TestGateAllocatesNothing(t *testing.T) {
	var gate seldom.Gate
	got := testing.AllocsPerRun(100, func() {
		gate.Take(1, time.Hour)
		gate.Sample(1, time.Hour)
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}
