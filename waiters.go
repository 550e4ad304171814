package stint

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint/internal/keypart"
)

// announcer is a store that announces when a subject may have room earlier; see package driver.
type announcer interface {
	Announcements(ctx context.Context, f func(subject string, commanded bool)) error
}

// waiters holds the callers of Wait and WaitFor that wait for a later time. While there are any,
// the limiter listens to the announcements of its store. When units are given back to a subject,
// its waiters ask for an earlier time.
//
// The waiters of one subject form a line, in order of arrival. They do not all ask at once, but one
// after the other, with a pause of moveUpApart in between. A waiter asks again only after
// moveUpPause or, if that takes longer, after all others have asked. So a limiter asks at most a
// hundred times a second for one subject, however many callers wait and however much is given back.
// Asking does not let a waiter overtake another. That is why a waiter that could not move up asks
// once more: by that time, the waiters ahead of it, in other processes too, may have moved. A
// waiter that joins a line while other waiters in it are moving up also asks, because it has booked
// behind them.
//
// A missed announcement costs only time, because the booking remains. The first waiter asks once
// after pollAfter, in case its subject was announced before the limiter listened. If the store announces
// nothing, or while the limiter cannot listen to it, a waiter asks whenever half of its remaining
// wait has passed, but pauses for at least pollAfter each time. In a wait of ten seconds, it does
// not ask at all; in a wait of a minute, three times; in a wait of an hour, nine times.
type waiters struct {
	store announcer // nil if the store announces nothing

	mu    sync.Mutex
	lines map[string][]*waiter // by the name of the subject, in order of arrival
	asked map[string]time.Time // time at which a waiter in a line last asked
	heard map[string]time.Time // time at which a subject was last announced; "" stands for all subjects
	hears bool
	stop  context.CancelFunc
}

// maxHeard is the maximum number of announced subjects that a limiter remembers. It remembers them
// because a caller becomes a waiter only when the store has answered, which may be after its
// subject was announced.
const maxHeard = 1000

const (
	moveUpApart = 10 * time.Millisecond
	moveUpPause = time.Second
	pollAfter   = 10 * time.Second
	// listenAgain is the pause after the limiter fails to listen.
	listenAgain = 5 * time.Second
)

// waiter is a caller of Wait or WaitFor. A nil waiter stands for a repeat, or for a wait so short
// that announcements do not matter.
type waiter struct {
	names []string
	woken chan struct{} // signaled when the time to ask may have changed

	// Guarded by waiters.mu:
	askAt time.Time // the time to ask; zero if there is no reason to ask
	next  time.Time // the earliest time at which the waiter may ask
	again bool      // whether the waiter asks once more if it cannot move up
	// checkAt is the time at which the waiter asks even if nothing was announced; zero if there is
	// none. The first waiter has one, because its subject may have been announced after the store
	// answered and before the limiter listened.
	checkAt time.Time
	pause   time.Duration // minimum time between two requests for an earlier booking
}

// join adds a waiter and returns it. The answer d booked a later time or denied the request; asked
// is the time at which the request was made. If there is no need to wait for announcements, join
// returns nil.
func (ws *waiters) join(claims []Claim, d *Decision, asked time.Time) *waiter {
	if d.RetryAfter < moveUpPause || d.Repeat {
		return nil
	}
	w := &waiter{woken: make(chan struct{}, 1), pause: moveUpPause}
	for i := range claims {
		if name := keypart.Name(claims[i].Subject); !slices.Contains(w.names, name) {
			w.names = append(w.names, name)
		}
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.lines) == 0 {
		ws.lines, ws.asked, ws.heard = map[string][]*waiter{}, map[string]time.Time{}, map[string]time.Time{}
		if ws.store != nil {
			ctx, cancel := context.WithCancel(context.Background())
			ws.stop, ws.hears = cancel, true
			w.checkAt = time.Now().Add(pollAfter)
			go ws.listen(ctx)
		}
	}
	for _, name := range w.names {
		moving := slices.ContainsFunc(ws.lines[name], func(o *waiter) bool { return !o.askAt.IsZero() })
		if moving || asked.Before(ws.heard[name]) || asked.Before(ws.heard[""]) {
			w.askAt, w.again = time.Now().Add(moveUpPause), true
		}
		ws.lines[name] = append(ws.lines[name], w)
	}
	return w
}

// leave removes a waiter. When no waiter is left, the limiter stops listening.
func (ws *waiters) leave(w *waiter) {
	if w == nil {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range w.names {
		line := ws.lines[name]
		if line = slices.DeleteFunc(line, func(o *waiter) bool { return o == w }); len(line) > 0 {
			ws.lines[name] = line
		} else {
			delete(ws.lines, name)
			delete(ws.asked, name)
		}
	}
	if len(ws.lines) == 0 && ws.stop != nil {
		ws.stop()
		ws.stop, ws.hears = nil, false
	}
}

// wake returns the channel that wakes a waiter early. It is nil if the waiter is nil.
func (w *waiter) wake() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.woken
}

// pause returns how long a waiter should sleep now: until the given remaining wait has passed or
// until the waiter should ask, whichever is earlier.
func (ws *waiters) pause(w *waiter, left time.Duration) time.Duration {
	pause := left
	if w == nil {
		return pause
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.askAt.IsZero() && !ws.hears && left > pollAfter {
		w.askAt = time.Now().Add(max(left/2, pollAfter))
	}
	for _, at := range [...]time.Time{w.askAt, w.checkAt} {
		if !at.IsZero() {
			pause = min(pause, time.Until(at))
		}
	}
	return max(pause, 0)
}

// told reports whether it is time for a waiter to ask for an earlier booking. If so, it records
// that the waiter asks now.
func (ws *waiters) told(w *waiter) bool {
	if w == nil {
		return false
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := time.Now()
	if !w.checkAt.IsZero() && !now.Before(w.checkAt) {
		w.checkAt, w.askAt = time.Time{}, now
	}
	if w.askAt.IsZero() || now.Before(w.askAt) {
		return false
	}
	for _, name := range w.names {
		if next := ws.asked[name].Add(moveUpApart); next.After(now) {
			w.askAt = next
			return false
		}
	}
	for _, name := range w.names {
		ws.asked[name] = now
	}
	w.askAt, w.next = time.Time{}, now.Add(w.pause)
	return true
}

// answered records that a waiter has asked, and whether it could move up. If it could not, but may
// ask once more, answered sets the time for that.
func (ws *waiters) answered(w *waiter, moved bool) {
	if w == nil {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.again && !moved && w.askAt.IsZero() {
		w.askAt = w.next
	}
	w.again = false
}

// listen receives the announcements of the store until the last waiter has left. Each announcement
// makes waiters ask earlier.
func (ws *waiters) listen(ctx context.Context) {
	for ctx.Err() == nil {
		start := time.Now()
		_ = ws.store.Announcements(ctx, func(subject string, _ bool) { ws.announced(ctx, subject) })
		lasted := time.Since(start) > moveUpPause
		ws.setHears(ctx, false)
		_, _ = sleep(ctx, listenAgain, nil)
		ws.setHears(ctx, true)
		if lasted {
			ws.announced(ctx, "") // announcements may have been missed
		}
	}
}

// setHears records whether the limiter listens, and wakes all waiters so that they adapt their
// pauses. It does nothing if a newer listener has taken over.
func (ws *waiters) setHears(ctx context.Context, hears bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	ws.hears = hears
	for _, line := range ws.lines {
		for _, w := range line {
			w.checkAt = time.Time{} // pause sets other times
			w.wakeUp()
		}
	}
}

// announced makes the waiters of a subject ask for an earlier time, or all waiters if subject is
// "".
func (ws *waiters) announced(ctx context.Context, subject string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	now, name := time.Now(), keypart.Name(subject)
	if len(ws.heard) >= maxHeard {
		clear(ws.heard)
		ws.heard[""] = now
	}
	ws.heard[name] = now
	if subject != "" {
		tell(ws.lines[name], now)
		return
	}
	for _, line := range ws.lines {
		tell(line, now)
	}
}

// tell makes a line of waiters ask, one after the other.
func tell(line []*waiter, now time.Time) {
	pause := max(moveUpPause, time.Duration(len(line))*moveUpApart)
	for i, w := range line {
		at := now.Add(time.Duration(i) * moveUpApart)
		if w.next.After(at) {
			at = w.next
		}
		w.again, w.pause = true, pause
		if w.askAt.IsZero() || at.Before(w.askAt) {
			w.askAt = at
			w.wakeUp()
		}
	}
}

func (w *waiter) wakeUp() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}
