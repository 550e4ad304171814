package simulate

import "github.com/stint-limiter/stint/internal/sizing"

// busiest finds the step of time with the most calls to the store. Steps begin at multiples of
// their length.
type busiest struct {
	length int64 // microseconds
	end    int64 // of the current step, in Unix microseconds
	before load  // at its start
	most   load
	mostAt int64
}

// load is a number of requests and the store calls that they cause.
type load struct {
	requests int64
	calls    sizing.Calls
}

// reach ends the current step if now is past it. The sum covers all requests so far.
func (b *busiest) reach(now int64, sum *load) {
	if now < b.end {
		return
	}
	b.finish(sum)
	b.end = now - now%b.length + b.length
	b.before = *sum
}

// finish compares the current step with the busiest one.
func (b *busiest) finish(sum *load) {
	step := load{sum.requests - b.before.requests, sum.calls.Minus(b.before.calls)}
	calls := step.calls.Decisions + step.calls.Settlements
	most := b.most.calls.Decisions + b.most.calls.Settlements
	if calls > most || calls == most && step.requests > b.most.requests {
		b.most, b.mostAt = step, b.end-b.length
	}
}
