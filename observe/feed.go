package observe

import (
	"slices"
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
	ring    ring[violation]
}

func newFeed(n *names) *feed {
	return &feed{names: n, pending: make([]violation, 0, feedRate), ring: newRing[violation](feedSize)}
}

// full reports whether there is no room for a violation in this second: who asks first is spared to
// make a violation that is not remembered.
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
	ended := slices.Clone(f.pending)
	for i := range ended {
		f.ring.push(ended[i])
	}
	clear(f.pending) // of what it refers to
	f.pending = f.pending[:0]
	f.mu.Unlock()
	return f.show(ended)
}

// show makes violations fit to be shown.
func (f *feed) show(list []violation) []Violation {
	shown := make([]Violation, len(list))
	for i := range list {
		shown[i] = f.showOne(&list[i])
	}
	return shown
}

func (f *feed) showOne(e *violation) Violation {
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
	last := f.ring.last(n)
	f.mu.Unlock()
	return f.show(last)
}

// subjectOf returns whom a ref stands for, if it is that of a violation that is remembered.
func (f *feed) subjectOf(ref string) (string, bool) {
	f.mu.Lock()
	last := f.ring.last(feedSize)
	f.mu.Unlock()
	for i := range last {
		if f.names.ref(last[i].subject) == ref {
			return last[i].subject, true
		}
	}
	return "", false
}
