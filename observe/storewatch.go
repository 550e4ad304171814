package observe

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/resilience"
)

const (
	// probeEvery is the interval between probes of a store. While calls fail or a node is lost, the
	// interval is askAgain. probeTime is the timeout of a probe.
	probeEvery = 5 * time.Second
	askAgain   = time.Second
	probeTime  = 2 * time.Second
	// quiet is the time without calls after which a probe decides whether the store works. If there
	// are calls, their results decide, because probes can mislead: when Redis's memory is full,
	// Redis still answers probes.
	quiet = 2 * probeEvery
	// answerLife is the time for which an answer to a ping or probe counts as proof that the store
	// answers.
	answerLife = 5 * time.Second
	// grace is the time after which late answers count as an outage, so that a single late answer
	// is not an outage. An outage ends only when no call has failed for this time, because some
	// calls succeed even during an outage.
	grace = time.Second
)

// storeWatch tracks the health of the store, based on calls, the breaker and probes. It is safe for
// concurrent use.
//
// A store is down from the first call that fails until a call succeeds, and while the breaker is
// not closed. If there were no recent calls, it is also down when it does not answer a probe. A
// Cluster is also down while one of its masters does not answer, even if calls to other masters
// succeed.
type storeWatch struct {
	succeeded atomic.Int64 // when a call last succeeded, in nanoseconds since the start
	down      atomic.Bool  // true from a failed call until one succeeds
	start     time.Time
	life      context.Context // context of all polls
	end       context.CancelFunc
	polls     sync.WaitGroup
	hurry     chan struct{} // receives a value when a call fails, so that the store is probed soon

	mu        sync.Mutex
	since     time.Time     // when the store went down; zero if it is up
	lostSince time.Time     // when the loss of a node was detected; zero if no node is lost
	failed    time.Time     // when a call last failed
	answered  time.Time     // when a ping or a probe was last answered
	failure   error         // the error of the last call that failed
	votes     errkind.Votes // faults that recent failures indicate; cleared when an outage ends
	lastError string
	errorAt   time.Time
	state     resilience.BreakerState
	probed    StoreHealth
	outage    *Outage            // the outage found by the last call to health, or nil
	before    *Outage            // the last outage that ended
	stop      context.CancelFunc // stops the current poll
}

func newStoreWatch() *storeWatch {
	w := &storeWatch{start: time.Now(), stop: func() {}, hurry: make(chan struct{}, 1)}
	w.life, w.end = context.WithCancel(context.Background())
	w.succeeded.Store(-int64(quiet))
	return w
}

// pinged records the result of a ping. The answer to a ping does not prove that calls succeed.
func (w *storeWatch) pinged(err error, now time.Time) {
	if err != nil {
		w.called(err, now)
		return
	}
	w.mu.Lock()
	w.answered = now
	w.mu.Unlock()
}

// called records the result of a call to the store, or the failure of a ping.
func (w *storeWatch) called(err error, now time.Time) {
	switch {
	case err == nil:
		w.succeeded.Store(int64(now.Sub(w.start)))
		if w.down.Load() {
			w.mu.Lock()
			if w.trusted() {
				w.up()
			}
			w.mu.Unlock()
		}
	case isFailure(err):
		w.mu.Lock()
		w.failed = now
		w.fails(err, now)
		w.mu.Unlock()
		select {
		case w.hurry <- struct{}{}:
		default:
		}
	}
}

// isFailure reports whether an error means that the store failed. It returns false if the caller
// canceled the call, if the call was not made, or if a slot of a Cluster is being moved.
func isFailure(err error) bool {
	var failure *stint.StoreError
	return errors.As(err, &failure) && failure.Kind != stint.KindRefused && failure.Kind != stint.KindMigrating &&
		!errors.Is(err, context.Canceled)
}

func (w *storeWatch) up() {
	w.since = time.Time{}
	w.down.Store(false)
}

// fails records a failure of the store. The caller holds the lock.
func (w *storeWatch) fails(err error, now time.Time) {
	w.failure, w.lastError, w.errorAt = err, label.Line(err.Error()), now
	w.votes.Add(err, now)
	if w.since.IsZero() {
		w.since = now
		w.down.Store(true)
	}
}

// trusted reports whether the breaker is closed, or its state is not known.
func (w *storeWatch) trusted() bool {
	return w.state == "" || w.state == resilience.BreakerClosed
}

func (w *storeWatch) breaker(state resilience.BreakerState, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	switch {
	case w.trusted():
		w.up()
	case w.since.IsZero():
		w.since = now
		w.down.Store(true)
	}
}

// isDown reports whether the store or a part of it is down. The caller holds the lock.
func (w *storeWatch) isDown(now time.Time) bool {
	late := errkind.Of(w.failure) == stint.KindTimeout && w.trusted() && now.Sub(w.since) < grace
	return !w.since.IsZero() && !late || !w.lostSince.IsZero()
}

// follow begins, updates or ends the current outage. The caller holds the lock.
func (w *storeWatch) follow(now time.Time) {
	if !w.isDown(now) {
		if w.outage != nil && now.Sub(w.failed) >= grace {
			w.before, w.outage = w.outage, nil
			w.before.Until = now
			w.votes.Clear()
		}
		return
	}
	since := w.since
	if since.IsZero() || !w.lostSince.IsZero() && w.lostSince.Before(since) {
		since = w.lostSince
	}
	kind, cause := w.votes.Fault(now)
	switch {
	case len(w.probed.Lost) > 0:
		kind = errkind.Node
	case kind == errkind.Slow && (!w.answered.After(since) || now.Sub(w.answered) > answerLife):
		kind = errkind.Silent
	}
	fault := errkind.FaultOf(kind)
	if len(w.probed.Lost) > 0 {
		fault.Is += ": " + label.Line(strings.Join(w.probed.Lost, ", "))
	}
	if w.outage != nil {
		since = w.outage.Since
	}
	w.outage = &Outage{Since: since, Fault: fault.Name, Is: fault.Is, Why: fault.Why, Fix: fault.Fix,
		Error: w.lastError}
	if cause != nil {
		w.outage.Error = label.Line(cause.Error())
	}
}

func (w *storeWatch) health() StoreHealth {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.follow(time.Now())
	s := w.probed
	s.Up, s.Outage, s.LastOutage = w.outage == nil, w.outage, w.before
	if !s.Up {
		since := w.outage.Since
		s.DownSince = &since
	}
	if w.state != "" {
		s.Breaker = w.state
	}
	if w.lastError != "" {
		at := w.errorAt
		s.LastError, s.LastErrorAt = w.lastError, &at
	}
	return s
}

// fresh reports whether the store's report about itself is up to date.
func (s *StoreHealth) fresh(now time.Time) bool {
	return s.Redis != nil && now.Sub(s.At) <= probeEvery+2*probeTime
}
