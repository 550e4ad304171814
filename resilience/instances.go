package resilience

import (
	"context"
	"crypto/rand"
	"slices"
	"time"
)

// instances is the number of processes taken to share the store: as many as the store counted last,
// else as configured, else one.
func (f *fallback) instances() int {
	if n := f.counted.Load(); n > 0 {
		return int(n)
	}
	return max(f.config.Instances, 1)
}

func (f *fallback) sharing() int64 { return int64(f.instances()) }

// sharedBy warns if a decision without the store is based on a guess of the number of instances.
func (f *fallback) sharedBy() {
	if f.config.Instances == 0 && f.counted.Load() == 0 {
		f.warnAlone.Do(func() {
			f.config.Logger.Warn("stint: how many processes share the store is not known; assuming this one alone, " +
				"so that each admits whole limits without the store; say how many there are " +
				"(failure.instances in a configuration, Instances in Go)")
		})
	}
}

const (
	// presentEvery is how often a process registers itself, and presentTime how long that may take.
	presentEvery = time.Second
	presentTime  = time.Second
	// countsKept is how many counts the largest is taken of. A store that lost its state counts
	// from one again until every process has registered: to believe that would let each process
	// admit too much.
	countsKept = 10
)

// countInstances registers the process every second, in the background, and keeps the count of
// those that are registered. The last count stands while the store fails.
func (f *fallback) countInstances(counter instanceCounter) {
	f.run(func() {
		id := rand.Text()
		var counts [countsKept]int
		for n := 0; f.life.Err() == nil; sleep(f.life, jitter(presentEvery)) {
			ctx, cancel := context.WithTimeout(f.life, presentTime)
			count, err := counter.Present(ctx, id)
			cancel()
			if err != nil {
				f.suspect() // so that an outage is logged even if no request comes
			}
			if err == nil && count > 0 {
				counts[n%countsKept] = count
				n++
				f.counted.Store(int64(slices.Max(counts[:])))
			}
		}
	})
}
