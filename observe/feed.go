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
	// feedSize is the maximum number of violations kept, and feedRate is the maximum number kept per
	// second.
	feedSize = 1000
	feedRate = 200
)

// violation is a Violation before it is converted for display. Its strings are not yet shortened or
// escaped.
type violation struct {
	at                    time.Time
	subject, tier, policy string
	limit                 stint.Limit // the limit that denied the request; zero if none did
	reason                string
	retryAfter            time.Duration
	degraded              bool
}

// feed keeps the last violations. It keeps only the first feedRate violations of each second, so
// that a flood costs little and does not displace all other violations. It is safe for concurrent
// use.
type feed struct {
	names *names
	taken atomic.Int64 // number of violations kept since the last drain

	mu      sync.Mutex
	pending []violation // violations kept since the last drain
	ring    ring[violation]
}

func newFeed(n *names) *feed {
	return &feed{names: n, pending: make([]violation, 0, feedRate), ring: newRing[violation](feedSize)}
}

// full reports whether this second already has feedRate violations. Callers check it first, so that
// they do not build violations that would be dropped.
func (f *feed) full() bool { return f.taken.Load() >= feedRate }

// add keeps a violation unless this second already has feedRate violations.
func (f *feed) add(e violation) {
	if f.full() || f.taken.Add(1) > feedRate {
		return
	}
	e.subject = f.names.kept(e.subject)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) < feedRate { // pending may be full: drain resets taken before it empties pending
		f.pending = append(f.pending, e)
	}
}

// drain moves the violations kept since the last call to the ring, and returns them, newest last.
// It is called once a second.
func (f *feed) drain() []Violation {
	f.taken.Store(0)
	f.mu.Lock()
	ended := slices.Clone(f.pending)
	for i := range ended {
		f.ring.push(ended[i])
	}
	clear(f.pending) // so that the strings can be garbage collected
	f.pending = f.pending[:0]
	f.mu.Unlock()
	return f.show(ended)
}

func (f *feed) show(list []violation) []Violation {
	shown := make([]Violation, len(list))
	for i := range list {
		e, v := &list[i], &shown[i]
		*v = Violation{
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
	}
	return shown
}

// recent returns the last n violations that were drained, or all of them if there are fewer, newest
// last.
func (f *feed) recent(n int) []Violation {
	f.mu.Lock()
	last := f.ring.last(n)
	f.mu.Unlock()
	return f.show(last)
}
