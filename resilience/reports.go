package resilience

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// reports tells operators what happens, never once per decision.
type reports struct {
	logger *slog.Logger

	nextAuth, nextLost, nextDropped atomic.Int64 // when that may be said again
	said                            atomic.Bool  // that the store was lost
	since                           atomic.Int64 // decisions without it, since that was said
}

// newsEvery is how often the same thing is said: a store that comes and goes does so many times a second.
const newsEvery = int64(10 * time.Second)

// sayAgain reports whether something that was said may be said again.
func sayAgain(next *atomic.Int64, now int64) bool {
	at := next.Load()
	return now >= at && next.CompareAndSwap(at, now+newsEvery)
}

// auth is loud about a store that does not accept us: no waiting will mend that. It reports
// whether that is what the failure is.
func (n *reports) auth(cause *stint.StoreError, now int64) bool {
	if cause.Kind != stint.KindAuth {
		return false
	}
	if sayAgain(&n.nextAuth, now) {
		n.said.Store(true)
		n.logger.Error("stint: the store does not accept us: limits are not shared until that is mended; "+
			"check the user, the password and the permissions (ACL) of stint", "cause", cause)
	}
	return true
}

// lost says that an episode has begun.
func (n *reports) lost(cause *stint.StoreError, now int64) {
	if sayAgain(&n.nextLost, now) {
		n.said.Store(true)
		n.logger.Warn("stint: the store cannot be asked; deciding without it", "cause", cause, "kind", cause.Kind.String())
	}
}

// back says that an episode has ended, if it was said that it began.
func (n *reports) back(decisions int64) {
	n.since.Add(decisions)
	if n.said.Swap(false) {
		n.logger.Info("stint: the store can be asked again", "decisions_without_it", n.since.Swap(0))
	}
}
