package observe

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
)

const (
	// feedSize is how many violations are remembered, and feedRate how many of a second are.
	feedSize = 1000
	feedRate = 200
)

// violation is a violation as it happens. Its strings are as they were in the request.
type violation struct {
	at                    time.Time
	subject, tier, policy string
	limit                 stint.Limit // that had no room; the zero Limit if that is not known
	reason                string
	retryAfter            time.Duration
	degraded              bool
}

// feed remembers the last violations: the first of every second, so that a flood costs little and
// does not wash away everything else. It is safe for concurrent use.
type feed struct {
	names *names
	taken atomic.Int64 // since the last drain

	mu      sync.Mutex
	pending []violation // what came since the last drain and is remembered
	spare   []violation // replaces pending at the next
	ring    ring[remembered]
}

// remembered is a violation with its subject in full.
type remembered struct {
	Violation
	subject string
}

func newFeed(n *names) *feed {
	return &feed{
		names:   n,
		pending: make([]violation, 0, feedRate),
		spare:   make([]violation, 0, feedRate),
		ring:    newRing[remembered](feedSize),
	}
}

// full reports whether there is no room for a violation in this second: who asks first is spared to
// make an violation that is not remembered.
func (f *feed) full() bool { return f.taken.Load() >= feedRate }

// add remembers a violation if there is room for it in this second.
func (f *feed) add(e violation) {
	if f.full() || f.taken.Add(1) > feedRate {
		return
	}
	e.subject = f.names.kept(e.subject)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) < feedRate { // some that had room in the second before come late
		f.pending = append(f.pending, e)
	}
}

// drain ends a second. It returns its violations, newest last.
func (f *feed) drain() []Violation {
	f.taken.Store(0)
	f.mu.Lock()
	events := f.pending
	f.pending, f.spare = f.spare[:0], nil
	f.mu.Unlock()

	violations := make([]Violation, len(events))
	for i := range events {
		violations[i] = f.show(&events[i])
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range events {
		f.ring.push(remembered{violations[i], events[i].subject})
	}
	clear(events) // of what it refers to
	f.spare = events
	return violations
}

// show makes an violation fit to be shown.
func (f *feed) show(e *violation) Violation {
	v := Violation{
		At:         e.at,
		Subject:    f.names.label(e.subject),
		Ref:        f.names.ref(e.subject),
		Tier:       label.Line(e.tier),
		Policy:     label.Line(e.policy),
		Reason:     e.reason,
		RetryAfter: e.retryAfter.Seconds(),
		Degraded:   e.degraded,
	}
	if e.limit != (stint.Limit{}) {
		v.Limit = label.Line(e.limit.String())
	}
	if e.retryAfter == stint.Never {
		v.RetryAfter = -1
	}
	return v
}

// recent returns up to n violations that were drained, newest last.
func (f *feed) recent(n int) []Violation {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.ring.last(n)
	violations := make([]Violation, len(last))
	for i := range last {
		violations[i] = last[i].Violation
	}
	return violations
}
