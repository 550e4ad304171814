package stores

import (
	"context"
	"errors"
	"fmt"
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
	// connectAgain is how soon after an attempt a ping may cause the next one.
	connectAgain = 100 * time.Millisecond
)

// connecting is a Redis that may not be reachable yet. Until it is, every call fails as a call of a
// store does, and the layers above handle it as they do when Redis goes away later.
type connecting struct {
	open   func(context.Context) (*redisstore.Store, error)
	logger *slog.Logger
	store  atomic.Pointer[redisstore.Store]
	life   context.Context // until Close
	stop   context.CancelFunc
	work   sync.WaitGroup
	hurry  chan struct{} // ends the pause before the next attempt

	mu    sync.Mutex
	cause error         // of the last attempt, or why there was none
	tried time.Time     // when it ended
	ended chan struct{} // closed when the attempt under way, or else the next one, ends
}

var (
	_ driver.BatchStore = (*connecting)(nil)
	_ driver.Inspector  = (*connecting)(nil)
)

// errConnecting is in what calls fail with before the first attempt has ended, and errClosed in
// what they fail with after Close.
var (
	errConnecting = errors.New("still connecting")
	errClosed     = errors.New("the store is closed")
)

func newConnecting(where string, logger *slog.Logger,
	open func(context.Context) (*redisstore.Store, error)) *connecting {
	c := &connecting{
		open: open, logger: logger,
		hurry: make(chan struct{}, 1), cause: fmt.Errorf("%w to %s", errConnecting, where), ended: make(chan struct{}),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	return c
}

// start begins to connect, which goes on in the background until it succeeds or the store is
// closed. It returns the error of the first attempt, or errConnecting at the end of ctx.
func (c *connecting) start(ctx context.Context) error {
	first := make(chan error)
	c.work.Go(func() {
		err := c.attempt()
		select {
		case first <- err:
		case <-ctx.Done():
			c.log(err)
		}
		c.retry(err)
	})
	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return errConnecting
	}
}

// retry connects after a failed attempt.
func (c *connecting) retry(err error) {
	for logged := time.Now(); err != nil; {
		if c.pause(); c.life.Err() != nil {
			return
		}
		last := errkind.Of(err) // the texts differ in the ports that connections come from
		err = c.attempt()
		if err == nil || errkind.Of(err) != last || time.Since(logged) > connectLogEvery {
			logged = time.Now()
			c.log(err)
		}
	}
}

func (c *connecting) log(err error) {
	switch {
	case c.life.Err() != nil:
	case err == nil:
		c.logger.Info("stint: the store is connected")
	default:
		c.logger.Error("stint: the store still cannot be used", "error", err)
	}
}

// attempt tries to connect once.
func (c *connecting) attempt() error {
	ctx, done := context.WithTimeout(c.life, connectTime)
	store, err := c.open(ctx)
	done()
	if err == nil {
		c.store.Store(store)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cause, c.tried = err, time.Now()
	close(c.ended)
	c.ended = make(chan struct{})
	return err
}

// pause waits before the next attempt.
func (c *connecting) pause() {
	timer := time.NewTimer(connectEvery*4/5 + rand.N(connectEvery*2/5))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.hurry:
	case <-c.life.Done():
	}
}

// reach asks Redis whether it is there. While it is not connected, it waits for an attempt.
func (c *connecting) reach(ctx context.Context) error {
	c.mu.Lock()
	ended, last, recent := c.ended, c.cause, time.Since(c.tried) < connectAgain
	c.mu.Unlock()
	if c.store.Load() == nil && !recent {
		select {
		case c.hurry <- struct{}{}:
		default:
		}
		select {
		case <-ended:
		case <-c.life.Done():
		case <-ctx.Done():
			if errors.Is(last, errConnecting) {
				last = fmt.Errorf("%w: %w", last, ctx.Err())
			}
			return failed("ping", last)
		}
	}
	return c.Ping(ctx)
}

// get returns the store, or the error of an operation while it is not connected.
func (c *connecting) get(op string) (*redisstore.Store, error) {
	if store := c.store.Load(); store != nil {
		return store, nil
	}
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if c.life.Err() != nil {
		cause = errClosed
	}
	return nil, failed(op, cause)
}

// failed is the error of an operation that needs a connection, with why there is none.
func failed(op string, cause error) error {
	kind := errkind.Of(cause)
	if open, ok := cause.(*stint.StoreError); ok {
		cause = open.Err
	}
	return &stint.StoreError{Op: op, Kind: kind, Err: cause}
}

// with calls a method of the store. While that is not connected, it returns the error of the
// operation.
func with[T any](c *connecting, op string, call func(*redisstore.Store) (T, error)) (result T, err error) {
	store, err := c.get(op)
	if err == nil {
		result, err = call(store)
	}
	return result, err
}

func (c *connecting) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	store, err := c.get("take")
	if err != nil {
		return stint.Decision{}, err
	}
	return store.Take(ctx, r)
}

func (c *connecting) TakeBatch(ctx context.Context, batch []*driver.Call) {
	store, err := c.get("take")
	if err != nil {
		for _, call := range batch {
			call.Err = err
		}
		return
	}
	store.TakeBatch(ctx, batch)
}

func (c *connecting) Amend(ctx context.Context, charge stint.Charge, a stint.Amendment) (stint.Amended, error) {
	return with(c, "amend", func(s *redisstore.Store) (stint.Amended, error) { return s.Amend(ctx, charge, a) })
}

func (c *connecting) Command(ctx context.Context, command stint.Command) error {
	store, err := c.get("command")
	if err != nil {
		return err
	}
	return store.Command(ctx, command)
}

func (c *connecting) Inspect(ctx context.Context, claim stint.Claim) (driver.Inspection, error) {
	return with(c, "inspect", func(s *redisstore.Store) (driver.Inspection, error) { return s.Inspect(ctx, claim) })
}

func (c *connecting) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	return with(c, "bans", func(s *redisstore.Store) ([]driver.Banned, error) { return s.Bans(ctx, n) })
}

func (c *connecting) Scopes(ctx context.Context, subject string) ([]string, error) {
	return with(c, "scopes", func(s *redisstore.Store) ([]string, error) { return s.Scopes(ctx, subject) })
}

// Info asks the servers for their state. See [redisstore.Store.Info].
func (c *connecting) Info(ctx context.Context) (redisstore.Info, error) {
	return with(c, "info", func(s *redisstore.Store) (redisstore.Info, error) { return s.Info(ctx) })
}

// Ping is for package resilience.
func (c *connecting) Ping(ctx context.Context) error {
	store, err := c.get("ping")
	if err != nil {
		return err
	}
	return store.Ping(ctx)
}

// Present is for package resilience.
func (c *connecting) Present(ctx context.Context, id string) (int, error) {
	return with(c, "present", func(s *redisstore.Store) (int, error) { return s.Present(ctx, id) })
}

// Announcements is for package resilience, which reports an error of permissions as one to listen:
// that there is no connection is no such error.
func (c *connecting) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	if store := c.store.Load(); store != nil {
		return store.Announcements(ctx, f)
	}
	return errConnecting
}

// Close stops connecting, and closes the store if there is one.
func (c *connecting) Close() error {
	c.stop()
	c.work.Wait()
	if store := c.store.Swap(nil); store != nil { // clients of a Cluster answer after they are closed
		return store.Close()
	}
	return nil
}
