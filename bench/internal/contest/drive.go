package contest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Call makes one call for a caller and reports whether it was allowed.
type Call func(ctx context.Context, caller int) (allowed bool, err error)

// Calls is the result of [Drive].
type Calls struct {
	Count   int
	Rate    float64         // calls per second
	Allowed float64         // share of the calls that were allowed
	Took    []time.Duration // how long the timed calls took, sorted
}

// Drive makes concurrent callers call for the given time. Each caller makes its next call as soon
// as it has an answer. The last of every `timed` calls is timed, and a caller ends only after such
// a call: for contenders that answer from memory, reading the clock costs as much as the answer.
func Drive(ctx context.Context, callers, timed int, length time.Duration, call Call) (Calls, error) {
	type caller struct {
		count, allowed int
		took           []time.Duration
		err            error
	}
	all := make([]caller, callers)
	var group sync.WaitGroup
	start := time.Now()
	for i := range all {
		group.Go(func() {
			var c caller
			for now := start; c.err == nil && now.Sub(start) < length; {
				c.count++
				last := c.count%timed == 0
				if last {
					now = time.Now()
				}
				var ok bool
				if ok, c.err = call(ctx, i); ok {
					c.allowed++
				}
				if last {
					began := now
					now = time.Now()
					c.took = append(c.took, now.Sub(began))
				}
			}
			all[i] = c
		})
	}
	group.Wait()
	seconds := time.Since(start).Seconds()
	var sum caller
	for _, c := range all {
		sum.count += c.count
		sum.allowed += c.allowed
		sum.took = append(sum.took, c.took...)
		sum.err = cmp.Or(sum.err, c.err)
	}
	slices.Sort(sum.took)
	return Calls{
		Count: sum.count, Rate: float64(sum.count) / seconds, Allowed: float64(sum.allowed) / float64(sum.count),
		Took: sum.took,
	}, sum.err
}
