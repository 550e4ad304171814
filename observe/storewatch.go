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
)

const (
	// probeEvery is how often a store is asked how it is, and askAgain how often while calls fail.
	// probeTime is how long it may take to say so.
	probeEvery = 5 * time.Second
	askAgain   = time.Second
	probeTime  = 2 * time.Second
	// quiet is for how long there must have been no call for a probe to have the last word on
	// whether the store works. What calls find out is worth more: a Redis that is out of memory
	// still reports its health.
	quiet = 2 * probeEvery
	// answerLife is for how long a ping or a probe that was answered shows that the store answers.
	answerLife = 5 * time.Second
	// grace is for how long answers may be late before that is an outage: one is not. An outage is
	// over when no call has failed for as long: of a slow store some calls succeed.
	grace = time.Second
)

// storeWatch knows how the store is: by the calls that are made, by the breaker, and by asking it.
//
// A store is down from the first call that fails until one succeeds, while the breaker is not
// closed, and when it does not answer the question how it is and nobody else has called it. A
// breaker that is half-open needs no care: the process itself makes the call that closes it. A
// Cluster is down too while one of its masters does not answer, although calls to others succeed.
// It is safe for concurrent use.
type storeWatch struct {
	succeeded atomic.Int64 // when a call last succeeded, in nanoseconds since the start
	down      atomic.Bool  // since some call failed
	start     time.Time
	life      context.Context // of all polls
	end       context.CancelFunc
	polls     sync.WaitGroup
	hurry     chan struct{} // a call has failed: the store is to be asked soon

	mu        sync.Mutex
	since     time.Time     // when it went down; zero if it is not
	lostSince time.Time     // when a node was found to be lost; zero if none is
	failed    time.Time     // when a call last failed
	answered  time.Time     // when a ping or a probe was last answered
	failure   error         // why the last call failed
	votes     errkind.Votes // on what is wrong, since it went down
	lastError string
	errorAt   time.Time
	state     string // of the breaker
	probed    StoreHealth
	outage    *Outage            // the present one, as last shown
	before    *Outage            // the last that has ended
	stop      context.CancelFunc // of the last poll
}

// newStoreWatch returns a watch of a store that is taken to be up.
func newStoreWatch() *storeWatch {
	w := &storeWatch{start: time.Now(), stop: func() {}, hurry: make(chan struct{}, 1)}
	w.life, w.end = context.WithCancel(context.Background())
	w.succeeded.Store(-int64(quiet))
	return w
}

// pinged follows every ping. One that is answered does not mean that calls succeed.
func (w *storeWatch) pinged(err error, now time.Time) {
	if err != nil {
		w.called(err, now)
		return
	}
	w.mu.Lock()
	w.answered = now
	w.mu.Unlock()
}

// called follows every other call to the store.
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

// isFailure reports whether an error says something about the store: not that a caller gave up,
// that one slot is being moved, nor that the call was not made.
func isFailure(err error) bool {
	var failure *stint.StoreError
	return errors.As(err, &failure) && failure.Kind != errkind.Refused && failure.Kind != errkind.Migrating &&
		!errors.Is(err, context.Canceled)
}

func (w *storeWatch) up() {
	w.since = time.Time{}
	w.down.Store(false)
}

// fails notes why the store does not.
func (w *storeWatch) fails(err error, now time.Time) {
	w.failure, w.lastError, w.errorAt = err, label.Line(err.Error()), now
	w.votes.Add(err, now)
	if w.since.IsZero() {
		w.since = now
		w.down.Store(true)
	}
}

// trusted is whether the breaker lets calls through to the store.
func (w *storeWatch) trusted() bool {
	return w.state == "" || w.state == breakerStates[0]
}

// breaker follows a change of the breaker's state.
func (w *storeWatch) breaker(state string, now time.Time) {
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

// isDown reports whether the store, or a part of it, cannot be asked. The lock is held.
func (w *storeWatch) isDown(now time.Time) bool {
	late := errkind.Of(w.failure) == errkind.Timeout && w.trusted() && now.Sub(w.since) < grace
	return !w.since.IsZero() && !late || !w.lostSince.IsZero()
}

// follow begins and ends outages. The lock is held.
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
	w.outage = &Outage{Since: since, Fault: string(fault.Kind), Is: fault.Is, Why: fault.Why, Fix: fault.Fix,
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

// fresh reports whether what the store says of itself is not out of date.
func (s *StoreHealth) fresh(now time.Time) bool {
	return s.Redis != nil && now.Sub(s.At) <= probeEvery+2*probeTime
}
