package simulate

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// sizer counts the load that the requests would have put on Redis.
type sizer struct {
	sum            load         // the load of all requests so far
	settlements    atomic.Int64 // atomic, because a guard settles and releases concurrently
	second, minute busiest
	alive          alive
}

func newSizer() *sizer {
	return &sizer{second: busiest{length: time.Second.Microseconds()}, minute: busiest{length: time.Minute.Microseconds()}}
}

// begin counts a request. If it is the first request in a new second, begin first compares the
// seconds and minutes that are over with the busiest ones, and removes the subjects that have
// expired.
func (s *sizer) begin(now int64) {
	if now >= s.second.end {
		s.sum.settlements = s.settlements.Load()
		s.second.reach(now, s.sum)
		s.minute.reach(now, s.sum)
		s.alive.advance(now)
	}
	s.sum.requests++
}

// charge counts a subject as stored in Redis until all limits that the result charges have reset.
func (s *sizer) charge(to *subject, r *policy.Result, now int64) {
	if to.shared || r.Cost == 0 || len(r.Limits) != len(r.Rule.Limits) {
		return // nothing is charged, or only some of the limits are
	}
	until := to.until
	for i := range r.Usages {
		until = max(until, now+r.Usages[i].ResetAfter.Microseconds())
	}
	if until > to.until {
		to.until, to.expires = until, s.alive.replace(to.expires, until, now)
	}
}

// size returns the measured size.
func (s *sizer) size() Size {
	s.sum.settlements = s.settlements.Load()
	s.second.finish(s.sum)
	s.minute.finish(s.sum)
	size := Size{Subjects: s.alive.most, Second: s.second.load(), Minute: s.minute.load()}
	if size.Subjects > 0 {
		size.SubjectsAt = instant(s.alive.mostAt)
	}
	return size
}

// busiest finds the step of time, such as a second or a minute, with the most calls to the store. A
// step begins at a multiple of its length.
type busiest struct {
	length int64 // microseconds
	end    int64 // of the current step, in Unix microseconds
	before load  // the load before the current step
	most   load
	mostAt int64
}

// load is a number of requests and the store calls that they cause.
type load struct{ requests, decisions, settlements int64 }

// reach ends the current step if now is past it. sum is the load of all requests so far.
func (b *busiest) reach(now int64, sum load) {
	if now < b.end {
		return
	}
	b.finish(sum)
	b.end = now - now%b.length + b.length
	b.before = sum
}

// finish compares the current step with the busiest one.
func (b *busiest) finish(sum load) {
	step := load{sum.requests - b.before.requests, sum.decisions - b.before.decisions,
		sum.settlements - b.before.settlements}
	calls, most := step.decisions+step.settlements, b.most.decisions+b.most.settlements
	if calls > most || calls == most && step.requests > b.most.requests {
		b.most, b.mostAt = step, b.end-b.length
	}
}

func (b *busiest) load() Load {
	l := Load{Requests: b.most.requests, Decisions: b.most.decisions, Settlements: b.most.settlements}
	if l.Requests > 0 {
		l.At = instant(b.mostAt)
	}
	return l
}

// countingStore counts the calls to a store.
type countingStore struct {
	Timeless
	sizer *sizer
}

// Take implements [stint.Store].
func (s *countingStore) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	s.sizer.sum.decisions++
	return s.Timeless.Take(ctx, r)
}

// Amend implements [stint.Store].
func (s *countingStore) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if a.Kind != stint.AmendExtend { // heartbeats follow the clock of the machine, not the times in the log
		s.sizer.settlements.Add(1)
	}
	return s.Timeless.Amend(ctx, c, a)
}
