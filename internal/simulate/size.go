package simulate

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/sizing"
	"github.com/stint-limiter/stint/policy"
)

// sizer measures the load that the requests would have put on a Redis.
type sizer struct {
	sum            load         // of all requests
	settlements    atomic.Int64 // a guard settles and releases at the same time
	second, minute busiest
	alive          alive
	layouts        []*sizing.Layout // by index of the rule
}

func newSizer(set *policy.Set) *sizer {
	s := &sizer{
		second: busiest{length: time.Second.Microseconds()}, minute: busiest{length: time.Minute.Microseconds()},
	}
	for _, rule := range set.Rules() {
		s.layouts = append(s.layouts, sizing.NewLayout(rule.Limits))
	}
	return s
}

// begin counts a request. Steps and buckets of expiries end only at the end of a second.
func (s *sizer) begin(now int64) {
	if now >= s.second.end {
		s.sum.calls.Settlements = s.settlements.Load()
		s.second.reach(now, &s.sum)
		s.minute.reach(now, &s.sum)
		s.alive.advance(now)
	}
	s.sum.requests++
}

// state is the state that Redis keeps of a subject for one rule and scope.
type state struct {
	id      uint64 // a hash of the rule and the scope
	expires expiry
	sizing.State
}

// stateID returns the id of a state. It is not 0.
func stateID(rule int, scope string) uint64 {
	id := uint64(rule) + 1
	for i := range len(scope) { // FNV-1a
		id = (id ^ uint64(scope[i])) * 1099511628211
	}
	return id
}

// stateOf returns the state of a subject. Most subjects have one.
func (s *subject) stateOf(id uint64) *state {
	if s.state.id == 0 {
		s.state.id = id
	}
	if s.state.id == id {
		return &s.state
	}
	for i := range s.states {
		if s.states[i].id == id {
			return &s.states[i]
		}
	}
	s.states = append(s.states, state{id: id})
	return &s.states[len(s.states)-1]
}

// charge counts what a result charges to a subject.
func (s *sizer) charge(to *subject, r *policy.Result, now int64) {
	if r.Cost == 0 || len(r.Limits) != len(r.Rule.Limits) {
		return // nothing is charged, or only a part of the rule, for a path with several readings
	}
	st := to.stateOf(stateID(r.Rule.Index, r.Scope))
	was, expired := st.Bytes, st.Expires
	st.Charge(s.layouts[r.Rule.Index], len("stint:{}:limits")+len(r.Subject)+len(r.Scope), r.Usages, r.Cost, now)
	if st.Expires == expired && st.Bytes == was {
		return
	}
	st.expires = s.alive.replace(st.expires, held{bytes: int64(was)}, held{bytes: int64(st.Bytes)}, st.Expires, now)
	if !to.shared && (st.Expires > to.until || now >= to.until) {
		to.until = st.Expires
		to.expires = s.alive.replace(to.expires, held{subjects: 1}, held{subjects: 1}, to.until, now)
	}
}

// size returns the measured size.
func (s *sizer) size() Size {
	s.sum.calls.Settlements = s.settlements.Load()
	s.second.finish(&s.sum)
	s.minute.finish(&s.sum)
	size := Size{
		Subjects: s.alive.most.subjects, Memory: s.alive.most.bytes,
		Second: s.second.load(), Minute: s.minute.load(),
		Plain: needOf(&sizing.Plain, s.second.most.calls), Batched: needOf(&sizing.Batched64, s.second.most.calls),
	}
	if size.Subjects > 0 {
		size.SubjectsAt = instant(s.alive.subjectsAt)
	}
	if size.Memory > 0 {
		size.MemoryAt = instant(s.alive.bytesAt)
	}
	return size
}

func (b *busiest) load() Load {
	l := Load{Requests: b.most.requests, Decisions: b.most.calls.Decisions, Settlements: b.most.calls.Settlements}
	if l.Requests > 0 {
		l.At = instant(b.mostAt)
	}
	return l
}

// needOf returns the resources that calls within a second need.
func needOf(way *sizing.Way, calls sizing.Calls) Need {
	cost := way.Need(calls)
	whole := func(n float64) int64 { return int64(math.Round(n)) }
	return Need{Cores: math.Round(cost.Cores()*1e6) / 1e6, In: whole(cost.In), Out: whole(cost.Out),
		Replicated: whole(cost.Replicated)}
}

// countingStore counts the calls to a store.
type countingStore struct {
	Timeless
	sizer *sizer
}

// Take implements [stint.Store].
func (s *countingStore) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	c := &s.sizer.sum.calls
	c.Decisions++
	c.Subjects += int64(len(r.Claims))
	for i := range r.Claims {
		c.Windows += int64(len(r.Claims[i].Limits))
	}
	return s.Timeless.Take(ctx, r)
}

// Amend implements [stint.Store].
func (s *countingStore) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if a.Kind != stint.AmendExtend { // extensions follow the clock of the machine, not of the log
		s.sizer.settlements.Add(1)
	}
	return s.Timeless.Amend(ctx, c, a)
}
