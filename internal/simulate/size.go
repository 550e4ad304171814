package simulate

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// sizer measures the load that the requests would have put on Redis.
type sizer struct {
	sum            Load         // the load of all requests so far
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
		s.sum.Settlements = s.settlements.Load()
		s.second.reach(now, s.sum)
		s.minute.reach(now, s.sum)
		s.alive.advance(now)
	}
	s.sum.Requests++
}

// charge counts a subject as stored in Redis until the last of the charged limits has reset.
func (s *sizer) charge(to *subject, r *policy.Result, now int64) {
	if to.shared || r.Cost == 0 || len(r.Limits) != len(r.Rule.Limits) {
		return // nothing is charged, or only some of the rule's limits are charged
	}
	until := now
	for i := range r.Usages {
		until = max(until, now+r.Usages[i].ResetAfter.Microseconds())
	}
	s.alive.charge(to, until, now)
}

func (s *sizer) size() Size {
	s.sum.Settlements = s.settlements.Load()
	s.second.finish(s.sum)
	s.minute.finish(s.sum)
	size := Size{Subjects: s.alive.most, Second: s.second.most, Minute: s.minute.most}
	if size.Subjects > 0 {
		size.SubjectsAt = instant(s.alive.mostAt)
	}
	return size
}

// busiest finds the busiest step, such as the second or the minute with the most calls to the
// store. A step begins at a multiple of its length.
type busiest struct {
	length int64 // length of a step in microseconds
	end    int64 // end of the current step, in Unix microseconds
	before Load  // the load of all requests before the current step
	most   Load
}

// reach ends the current step if it is over at the time now. sum is the load of all requests so
// far.
func (b *busiest) reach(now int64, sum Load) {
	if now < b.end {
		return
	}
	b.finish(sum)
	b.end = now - now%b.length + b.length
	b.before = sum
}

// finish records the current step as the busiest one if it was busier than all earlier steps.
func (b *busiest) finish(sum Load) {
	step := Load{
		At: instant(b.end - b.length), Requests: sum.Requests - b.before.Requests,
		Decisions: sum.Decisions - b.before.Decisions, Settlements: sum.Settlements - b.before.Settlements,
	}
	calls, most := step.Decisions+step.Settlements, b.most.Decisions+b.most.Settlements
	if calls > most || calls == most && step.Requests > b.most.Requests {
		b.most = step
	}
}

// countingStore counts the calls to a store.
type countingStore struct {
	Timeless
	sizer *sizer
}

// Take implements [stint.Store].
func (s *countingStore) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	s.sizer.sum.Decisions++
	return s.Timeless.Take(ctx, r)
}

// Amend implements [stint.Store].
func (s *countingStore) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if a.Kind != stint.AmendExtend { // heartbeats follow the machine's clock, not the times in the log
		s.sizer.settlements.Add(1)
	}
	return s.Timeless.Amend(ctx, c, a)
}
