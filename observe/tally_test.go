package observe

import (
	"sync"
	"testing"
)

// TestTallyIsExact counts from many goroutines, whose stacks choose their shards.
func TestTallyIsExact(t *testing.T) {
	const counters, goroutines, each = 21, 50, 2_000
	tally := newTally(counters)
	var used [shards]sync.Once
	var group sync.WaitGroup
	count := 0
	var mu sync.Mutex
	for range goroutines {
		group.Go(func() {
			for i := range each {
				in := shardOf(&i)
				used[in].Do(func() { mu.Lock(); count++; mu.Unlock() })
				tally.add(in, i%counters, 2)
			}
		})
	}
	group.Wait()
	var sum int64
	for i := range counters {
		sum += tally.sum(i)
	}
	if sum != 2*goroutines*each {
		t.Errorf("counted %d, want %d", sum, 2*goroutines*each)
	}
	if count < 2 {
		t.Errorf("%d goroutines use %d of %d shards", goroutines, count, shards)
	}
}
