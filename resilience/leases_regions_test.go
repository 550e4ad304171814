package resilience

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

// leaseCallers are goroutines that make calls at the same time: as many as a test may need, for new
// ones are costly under the race detector.
type leaseCallers struct {
	calls chan func()
	group sync.WaitGroup
}

func newLeaseCallers() *leaseCallers {
	c := &leaseCallers{calls: make(chan func())}
	for range 150 {
		c.group.Go(func() {
			for call := range c.calls {
				call()
			}
		})
	}
	return c
}

func (c *leaseCallers) wait() {
	close(c.calls)
	c.group.Wait()
}

// leaseWorld is a number of processes over one store.
type leaseWorld struct {
	limit   stint.Limit
	regions []*leases

	mu       sync.Mutex
	admitted []int64 // instants in microseconds: of the store if it decided, else of here
	late     struct{ wanted, admitted, misses int }
}

// demand is Poisson demand of a rate on one region until a time. Counts are kept of what comes
// after warm.
func (w *leaseWorld) demand(t *testing.T, callers *leaseCallers, region int, rate float64, seed uint64, warm,
	until time.Time) {
	chance := rand.New(rand.NewPCG(seed, uint64(region)))
	for {
		time.Sleep(time.Duration(chance.ExpFloat64() / rate * float64(time.Second)))
		now := time.Now()
		if now.After(until) {
			return
		}
		callers.calls <- func() {
			d := mustLease(t, w.regions[region], leaseAsk("hot", 1, w.limit))
			w.mu.Lock()
			defer w.mu.Unlock()
			at := now.UnixMicro()
			if !fromLease(d) {
				at = d.Charge.Data().At
			}
			if d.Allowed {
				w.admitted = append(w.admitted, at)
			}
			if now.After(warm) {
				w.late.wanted++
				if d.Allowed {
					w.late.admitted++
				}
				if !fromLease(d) {
					w.late.misses++
				}
			}
		}
	}
}

// most is the largest number admitted in any window.
func (w *leaseWorld) most() int {
	slices.Sort(w.admitted)
	most, first := 0, 0
	for i, at := range w.admitted {
		for w.admitted[first] <= at-w.limit.Window.Microseconds() {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Three processes, far from their store, share one limit.
func TestLeasesThreeRegions(t *testing.T) {
	type phase struct {
		lasts time.Duration
		share [3]float64 // of the limit
	}
	for _, c := range []struct {
		name      string
		roundTrip time.Duration
		phases    []phase
		misses    float64 // at most, of all decisions
		admitted  float64 // at least, of what was wanted, or of the limit if that is less
	}{
		{"even", 80 * time.Millisecond, []phase{{40 * time.Second, [3]float64{.3, .3, .3}}}, .01, .95},
		{"uneven", 80 * time.Millisecond, []phase{{40 * time.Second, [3]float64{.81, .045, .045}}}, .01, .95},
		{"shifting", 80 * time.Millisecond, []phase{
			{20 * time.Second, [3]float64{.81, .045, .045}}, {20 * time.Second, [3]float64{.045, .81, .045}},
			{20 * time.Second, [3]float64{.045, .045, .81}},
		}, .01, .95},
		{"farther", 160 * time.Millisecond, []phase{{40 * time.Second, [3]float64{.3, .3, .3}}}, .02, .95},
		{"near", 2 * time.Millisecond, []phase{{40 * time.Second, [3]float64{.3, .3, .3}}}, .01, .95},
		{"light", 80 * time.Millisecond, []phase{{40 * time.Second, [3]float64{.1, .1, .1}}}, .01, .99},
		{"too much", 80 * time.Millisecond, []phase{{40 * time.Second, [3]float64{.8, .8, .8}}}, 1, .90},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newLeaseFar(t, c.roundTrip)
				w := &leaseWorld{limit: stint.Per(3000, 10*time.Second).WithLease()}
				var group sync.WaitGroup
				callers := newLeaseCallers()
				for range 3 {
					w.regions = append(w.regions, newLeasesFor(t, store, Config{}))
				}
				begin := time.Now()
				for p, phase := range c.phases {
					until := time.Now().Add(phase.lasts)
					for region, share := range phase.share {
						group.Go(func() {
							w.demand(t, callers, region, share*300, uint64(p+1), begin.Add(2*time.Second), until)
						})
					}
					time.Sleep(phase.lasts)
				}
				group.Wait()
				callers.wait()
				took := time.Since(begin) - 2*time.Second
				wanted := min(float64(w.late.wanted), 300*took.Seconds())
				t.Logf("wanted %d, admitted %d (%.1f %%), misses %d (%.2f %%), at most %d in a window; %d renewals, %d takes, %d give-backs",
					w.late.wanted, w.late.admitted, 100*float64(w.late.admitted)/wanted, w.late.misses,
					100*float64(w.late.misses)/float64(w.late.wanted),
					w.most(), store.renewals.Load(), store.takes.Load(), store.amends.Load())
				if most := w.most(); most > 3000 {
					t.Errorf("%d admitted in one window, want at most 3000", most)
				}
				if float64(w.late.admitted) < c.admitted*wanted {
					t.Errorf("admitted %d of %.0f, want %.0f %%", w.late.admitted, wanted, 100*c.admitted)
				}
				if float64(w.late.misses) > c.misses*float64(w.late.wanted) {
					t.Errorf("%d of %d decisions were misses, want less than %.0f %%", w.late.misses, w.late.wanted, 100*c.misses)
				}
			})
		})
	}
}
