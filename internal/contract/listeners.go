package contract

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// ErrSilent reports that announcements are not available, or no longer available.
// [Listeners.Listen] returns it after a call to [Listeners.End].
var ErrSilent = errors.New("announcements are not available")

// Listeners passes the announcements of a store to several listeners in one process: see
// [driver.Announcer]. The zero Listeners is ready for use. Tell takes a nanosecond if there are no
// listeners.
type Listeners struct {
	any  atomic.Bool
	mu   sync.Mutex
	list []*listener
}

type listener struct {
	f     func(subject string, commanded bool)
	ended chan struct{}
}

// Listen calls f with each announcement, until ctx is done or End is called. f must not block.
func (l *Listeners) Listen(ctx context.Context, f func(subject string, commanded bool)) error {
	me := &listener{f, make(chan struct{})}
	l.mu.Lock()
	l.list = append(l.list, me)
	l.any.Store(true)
	l.mu.Unlock()
	select {
	case <-me.ended:
		return ErrSilent
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(o *listener) bool { return o == me })
	l.any.Store(len(l.list) > 0)
	return ctx.Err()
}

// Tell passes an announcement to all listeners.
func (l *Listeners) Tell(subject string, commanded bool) {
	if !l.any.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.list {
		o.f(subject, commanded)
	}
}

// End makes all current calls to Listen return [ErrSilent]. A store calls it when it may miss
// announcements from now on.
func (l *Listeners) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.list {
		close(o.ended)
	}
	l.list = nil
	l.any.Store(false)
}
