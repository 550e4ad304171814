package server

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/redisstore"
)

const (
	// connectTime is how long one attempt to connect may take.
	connectTime = 3 * time.Second
	// connectEvery is the approximate pause between two attempts, and connectLogEvery how often to
	// log that they go on.
	connectEvery    = time.Second
	connectLogEvery = time.Minute
)

// connectingStore is a Redis that may not be reachable yet. Until it is, every call fails as a call
// of a store does, and the layers above handle it as they do when Redis goes away later.
type connectingStore struct {
	store atomic.Pointer[redisstore.Store]
	cause atomic.Pointer[error] // why it is not connected

	stop context.CancelFunc
	work sync.WaitGroup
}

var (
	_ driver.BatchStore = (*connectingStore)(nil)
	_ driver.Inspector  = (*connectingStore)(nil)
)

// newConnectingStore returns a store that is connected, or one that fails with the cause.
func newConnectingStore(store *redisstore.Store, cause error) *connectingStore {
	l := &connectingStore{stop: func() {}}
	if store != nil {
		l.store.Store(store)
	}
	l.cause.Store(&cause)
	return l
}

// connect tries to open the store in the background until it succeeds or the store is closed.
func (l *connectingStore) connect(logger *slog.Logger, open func(context.Context) (*redisstore.Store, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.work.Go(func() {
		logged := time.Now()
		for {
			if pause(ctx, connectEvery*4/5+rand.N(connectEvery*2/5)); ctx.Err() != nil {
				return
			}
			within, done := context.WithTimeout(ctx, connectTime)
			store, err := open(within)
			done()
			if err == nil {
				l.store.Store(store)
				logger.Info("server: the store is connected")
				return
			}
			if (*l.cause.Load()).Error() != err.Error() || time.Since(logged) > connectLogEvery {
				logged = time.Now()
				logger.Error("server: the store still cannot be used", "error", err)
			}
			l.cause.Store(&err)
		}
	})
}

// get returns the store, or the error of an operation while it is not connected.
func (l *connectingStore) get(op string) (*redisstore.Store, error) {
	if store := l.store.Load(); store != nil {
		return store, nil
	}
	cause := *l.cause.Load()
	return nil, &stint.StoreError{Op: op, Kind: errkind.Of(cause), Err: cause}
}

// with calls a method of the store. While that is not connected, it returns the error of the
// operation.
func with[T any](l *connectingStore, op string, call func(*redisstore.Store) (T, error)) (result T, err error) {
	store, err := l.get(op)
	if err == nil {
		result, err = call(store)
	}
	return result, err
}

func (l *connectingStore) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	store, err := l.get("take")
	if err != nil {
		return stint.Decision{}, err
	}
	return store.Take(ctx, r)
}

func (l *connectingStore) TakeBatch(ctx context.Context, batch []*driver.Call) {
	store, err := l.get("take")
	if err != nil {
		for _, call := range batch {
			call.Err = err
		}
		return
	}
	store.TakeBatch(ctx, batch)
}

func (l *connectingStore) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	return with(l, "amend", func(s *redisstore.Store) (bool, error) { return s.Amend(ctx, c, a) })
}

func (l *connectingStore) Command(ctx context.Context, c stint.Command) error {
	store, err := l.get("command")
	if err != nil {
		return err
	}
	return store.Command(ctx, c)
}

func (l *connectingStore) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	return with(l, "inspect", func(s *redisstore.Store) (driver.Inspection, error) { return s.Inspect(ctx, c) })
}

func (l *connectingStore) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	return with(l, "bans", func(s *redisstore.Store) ([]driver.Banned, error) { return s.Bans(ctx, n) })
}

func (l *connectingStore) Scopes(ctx context.Context, subject string) ([]string, error) {
	return with(l, "scopes", func(s *redisstore.Store) ([]string, error) { return s.Scopes(ctx, subject) })
}

// Info asks the servers for their state. See [redisstore.Store.Info].
func (l *connectingStore) Info(ctx context.Context) (redisstore.Info, error) {
	return with(l, "info", func(s *redisstore.Store) (redisstore.Info, error) { return s.Info(ctx) })
}

// Ping is for package resilience.
func (l *connectingStore) Ping(ctx context.Context) error {
	store, err := l.get("ping")
	if err != nil {
		return err
	}
	return store.Ping(ctx)
}

// Present is for package resilience.
func (l *connectingStore) Present(ctx context.Context, id string) (int, error) {
	return with(l, "present", func(s *redisstore.Store) (int, error) { return s.Present(ctx, id) })
}

// Announcements is for package resilience.
func (l *connectingStore) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	store, err := l.get("listen")
	if err != nil {
		return err
	}
	return store.Announcements(ctx, f)
}

// Close stops connecting, and closes the store if there is one.
func (l *connectingStore) Close() error {
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
