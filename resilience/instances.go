package resilience

import (
	"context"
	crand "crypto/rand"
	"slices"
	"time"
)

// Instances is how many processes are taken to share the store: as many as the roster
// counted last, else as configured, else one.
func (f *Fallback) Instances() int {
	if n := f.present.Load(); n > 0 {
		return int(n)
	}
	return max(f.config.Instances, 1)
}

// shared is Instances for when it matters.
func (f *Fallback) shared() int64 {
	if f.config.Instances == 0 && f.present.Load() == 0 {
		f.alone.Do(func() {
			f.config.Logger.Warn("stint: how many processes share the store is not known; assuming this one alone, " +
				"so that each admits whole limits without the store; say how many there are " +
				"(failure.instances in a configuration, Instances in Go)")
		})
	}
	return int64(f.Instances())
}

const (
	// beatEvery is how often a process says that it is there, and beatTime how long that
	// may take.
	beatEvery = time.Second
	beatTime  = time.Second
	// beatsKept is how many counts the largest is taken of. A roster that lost its memory
	// counts from one again, until everybody has been heard of: to believe that would let
	// each process admit too much.
	beatsKept = 10
)

// beat says that the process is there, and counts those that are.
func (f *Fallback) beat() {
	id := crand.Text()
	var counts [beatsKept]int
	for n := 0; ; {
		ctx, cancel := context.WithTimeout(f.life, beatTime)
		count, err := f.config.Roster.Present(ctx, id)
		cancel()
		if err == nil && count > 0 {
			counts[n%beatsKept] = count
			n++
			f.present.Store(int64(slices.Max(counts[:])))
		}
		if sleep(f.life, jitter(beatEvery)); f.life.Err() != nil {
			return
		}
	}
}
