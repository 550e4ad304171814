package server

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

const (
	// connectTime is how long one attempt to connect may take.
	connectTime = 3 * time.Second
	// connectEvery is how long to wait between two, more or less, and connectSay how often to say that it goes on.
	connectEvery = time.Second
	connectSay   = time.Minute
)

// lateStore is a Redis that need not be there yet: until it is, every call is a failure of the store. Others decide
// meanwhile what comes of that, as they do when it goes away later.
type lateStore struct {
	store atomic.Pointer[redisstore.Store]
	cause atomic.Pointer[error] // why it is not there

	stop context.CancelFunc
	work sync.WaitGroup
}

var (
	_ stint.BatchStore     = (*lateStore)(nil)
	_ stint.Inspector      = (*lateStore)(nil)
	_ resilience.Pinger    = (*lateStore)(nil)
	_ resilience.Roster    = (*lateStore)(nil)
	_ resilience.Announcer = (*lateStore)(nil)
)

// newLateStore returns a store that is there, or for want of one the reason that it is not.
func newLateStore(store *redisstore.Store, cause error) *lateStore {
	l := &lateStore{stop: func() {}}
	if store != nil {
		l.store.Store(store)
	}
	l.cause.Store(&cause)
	return l
}

// connect tries to open the store in the background until that succeeds or the store is closed.
func (l *lateStore) connect(logger *slog.Logger, open func(context.Context) (*redisstore.Store, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.work.Go(func() {
		said := time.Now()
		for {
			if pause(ctx, connectEvery*4/5+rand.N(connectEvery*2/5)); ctx.Err() != nil {
				return
			}
			within, done := context.WithTimeout(ctx, connectTime)
			store, err := open(within)
			done()
			if err == nil {
				l.store.Store(store)
				logger.Info("server: the store is there now")
				return
			}
			if (*l.cause.Load()).Error() != err.Error() || time.Since(said) > connectSay {
				said = time.Now()
				logger.Error("server: the store still cannot be used", "error", err)
			}
			l.cause.Store(&err)
		}
	})
}

// get returns the store, or the error of an operation on one that is not there.
func (l *lateStore) get(op string) (*redisstore.Store, error) {
	if store := l.store.Load(); store != nil {
		return store, nil
	}
	cause := *l.cause.Load()
	return nil, &stint.StoreError{Op: op, Kind: redisstore.KindOf(cause), Err: cause}
}

// Take implements [stint.Store].
func (l *lateStore) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	store, err := l.get("take")
	if err != nil {
		return stint.Decision{}, err
	}
	return store.Take(ctx, r)
}

// TakeBatch implements [stint.BatchStore].
func (l *lateStore) TakeBatch(ctx context.Context, batch []*stint.Call) {
	store, err := l.get("take")
	if err != nil {
		for _, call := range batch {
			call.Err = err
		}
		return
	}
	store.TakeBatch(ctx, batch)
}

// Amend implements [stint.Store].
func (l *lateStore) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	store, err := l.get("amend")
	if err != nil {
		return false, err
	}
	return store.Amend(ctx, c, a)
}

// Command implements [stint.Store].
func (l *lateStore) Command(ctx context.Context, c stint.Command) error {
	store, err := l.get("command")
	if err != nil {
		return err
	}
	return store.Command(ctx, c)
}

// Inspect implements [stint.Inspector].
func (l *lateStore) Inspect(ctx context.Context, c stint.Claim) (stint.Inspection, error) {
	store, err := l.get("inspect")
	if err != nil {
		return stint.Inspection{}, err
	}
	return store.Inspect(ctx, c)
}

// Bans implements [stint.Inspector].
func (l *lateStore) Bans(ctx context.Context, n int) ([]stint.Banned, error) {
	store, err := l.get("bans")
	if err != nil {
		return nil, err
	}
	return store.Bans(ctx, n)
}

// Scopes implements [stint.Inspector].
func (l *lateStore) Scopes(ctx context.Context, subject string) ([]string, error) {
	store, err := l.get("scopes")
	if err != nil {
		return nil, err
	}
	return store.Scopes(ctx, subject)
}

// Info asks the servers how they are. See [redisstore.Store.Info].
func (l *lateStore) Info(ctx context.Context) (redisstore.Info, error) {
	store, err := l.get("info")
	if err != nil {
		return redisstore.Info{}, err
	}
	return store.Info(ctx)
}

// Ping implements [resilience.Pinger].
func (l *lateStore) Ping(ctx context.Context) error {
	store, err := l.get("ping")
	if err != nil {
		return err
	}
	return store.Ping(ctx)
}

// Present implements [resilience.Roster].
func (l *lateStore) Present(ctx context.Context, id string) (int, error) {
	store, err := l.get("present")
	if err != nil {
		return 0, err
	}
	return store.Present(ctx, id)
}

// Announcements implements [resilience.Announcer].
func (l *lateStore) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	store, err := l.get("listen")
	if err != nil {
		return err
	}
	return store.Announcements(ctx, f)
}

// Close gives up connecting, and closes the store if there is one.
func (l *lateStore) Close() error {
	l.stop()
	l.work.Wait()
	if store := l.store.Load(); store != nil {
		return store.Close()
	}
	return nil
}

// pause waits for d, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
