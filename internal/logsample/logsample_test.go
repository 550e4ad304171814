package logsample_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/logsample"
)

// step is some events at a time, how many are let through, and how many they count as left out.
type step struct {
	at      time.Duration
	events  int
	through int
	counted int64
}

func TestGate(t *testing.T) {
	const minute = time.Minute
	tests := []struct {
		name  string
		take  func(*logsample.Sampler, int, time.Duration) (int64, bool)
		most  int
		steps []step
	}{
		{"one a minute", (*logsample.Sampler).Allow, 1, []step{
			{0, 1, 1, 0}, {1, 4, 0, 0}, {minute - 1, 5, 0, 0}, {minute, 1, 1, 9}, {minute + 1, 1, 0, 0},
			{2 * minute, 1, 1, 1},
		}},
		{"a few a minute", (*logsample.Sampler).Allow, 3, []step{
			{0, 2, 2, 0}, {minute / 2, 10, 1, 0}, {minute, 5, 3, 9}, {5 * minute, 1, 1, 2},
		}},
		{"the interval begins with its first event", (*logsample.Sampler).Allow, 1, []step{
			{0, 1, 1, 0}, {minute + minute/2, 1, 1, 0}, {2 * minute, 1, 0, 0}, {3*minute - minute/2, 1, 1, 1},
		}},
		{"what is rare is never left out", (*logsample.Sampler).Allow, 1, []step{
			{0, 1000, 1, 0}, {minute, 1, 1, 999}, {2 * minute, 1, 1, 0},
		}},
		{"sampled, the interval's few", (*logsample.Sampler).Sample, 3, []step{
			{0, 2, 2, 0}, {1, 2, 1, 0}, {minute, 15, 3, 1}, {minute, 20, 0, 0},
		}},
		{"sampled, after a few that are no flood", (*logsample.Sampler).Sample, 1, []step{
			{0, 17, 1, 0}, {minute, 1, 1, 16}, {2 * minute, 2, 1, 0}, {3 * minute, 1, 1, 1},
		}},
		{"sampled, without floods", (*logsample.Sampler).Sample, 1, []step{
			{0, 1, 1, 0}, {minute, 1, 1, 0}, {2 * minute, 1, 1, 0},
		}},
		{"sampled, after a flood", (*logsample.Sampler).Sample, 1, []step{
			{0, 100, 1, 0}, {minute, 13, 0, 0}, {minute, 1, 1, 112},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var gate logsample.Sampler
				for i, s := range test.steps {
					time.Sleep(s.at - time.Since(start))
					through, counted := 0, int64(0)
					for range s.events {
						if left, ok := test.take(&gate, test.most, minute); ok {
							through++
							counted += left
						}
					}
					if through != s.through || counted != s.counted {
						t.Errorf("step %d: %d let through, %d counted; want %d and %d", i, through, counted, s.through, s.counted)
					}
				}
			})
		})
	}
}

// Every event is let through or counted, and no interval has more than it may.
func TestGateInParallel(t *testing.T) {
	for name, take := range map[string]func(*logsample.Sampler, int, time.Duration) (int64, bool){
		"Take": (*logsample.Sampler).Allow, "Sample": (*logsample.Sampler).Sample,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const callers, each, most = 8, 500, 3
				var gate logsample.Sampler
				var through, counted atomic.Int64
				flood := func() {
					var group sync.WaitGroup
					for range callers {
						group.Go(func() {
							for range each {
								if left, ok := take(&gate, most, time.Second); ok {
									through.Add(1)
									counted.Add(left)
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
				left, ok := gate.Allow(most, time.Second)
				if !ok {
					t.Fatal("the interval is over, and nothing is let through")
				}
				if got, want := through.Load()+counted.Load()+left, int64(3*callers*each); got != want {
					t.Errorf("%d were let through or counted, want %d", got, want)
				}
			})
		})
	}
}

func TestGateAllocatesNothing(t *testing.T) {
	var gate logsample.Sampler
	got := testing.AllocsPerRun(100, func() {
		gate.Allow(1, time.Hour)
		gate.Sample(1, time.Hour)
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}
