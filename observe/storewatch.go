package observe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/label"
)

const (
	// probeEvery is how often a store is asked how it is, and probeTime how long it may take to say
	// so.
	probeEvery = 5 * time.Second
	probeTime  = 2 * time.Second
	// quiet is for how long there must have been no call for a probe to have the last word on
	// whether the store works. What calls find out is worth more: a Redis that is out of memory
	// still reports its health.
	quiet = 2 * probeEvery
)

// storeWatch knows how the store is: by the calls that are made, by the breaker, and by asking it.
//
// A store is down from the first call that fails until one succeeds, while the breaker is not
// closed, and when it does not answer the question how it is and nobody else has called it. A
// breaker that is half-open needs no care: the process itself makes the call that closes it. It is
// safe for concurrent use.
type storeWatch struct {
	succeeded atomic.Int64 // when a call last succeeded, in nanoseconds since the start
	down      atomic.Bool  // since some call failed
	start     time.Time
	life      context.Context // of all polls
	end       context.CancelFunc
	polls     sync.WaitGroup

	mu        sync.Mutex
	since     time.Time // when it went down; zero if it is not
	failed    time.Time // when a call last failed
	lastError string
	errorAt   time.Time
	state     string // of the breaker
	probed    StoreHealth
	stop      context.CancelFunc // of the last poll
}

// newStoreWatch returns a watch of a store that is taken to be up.
func newStoreWatch() *storeWatch {
	w := &storeWatch{start: time.Now(), stop: func() {}}
	w.life, w.end = context.WithCancel(context.Background())
	w.succeeded.Store(-int64(quiet))
	return w
}

// called follows every call to the store.
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
	w.lastError, w.errorAt = label.Line(err.Error()), now
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

func (w *storeWatch) health() StoreHealth {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.probed
	s.Up = w.since.IsZero()
	if !s.Up {
		since := w.since
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
