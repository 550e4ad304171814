package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

// connection holds the client of the servers. It makes the client in the background, and retries
// until that succeeds. Later it replaces a client that no longer works because its server has
// become a replica, its connection is out of sync, or the masters of the Cluster have changed. That
// is necessary even if a new master has the old address: only new connections reach the new master.
type connection struct {
	client atomic.Pointer[rueidis.Client]
	usable atomic.Bool // whether the client is connected and the servers can keep limits
	// dial makes a client, starting from the given servers if there are any. It is nil if the
	// client belongs to the caller: that client is neither replaced nor closed.
	dial func(ctx context.Context, servers ...string) (rueidis.Client, error)
	most int32 // maximum number of batch connections per server

	life  context.Context // ends when the connection is closed
	end   context.CancelFunc
	work  sync.WaitGroup
	ready chan struct{} // closed when the first attempt to connect has ended
	hurry chan struct{} // ends the pause before the next attempt

	began time.Time
	lost  atomic.Int64 // when a connection for batches was last lost; see connection.now
	rooms sync.Map     // rooms by address, see roomAt
	left  atomic.Int32 // calls that continue without their callers

	mu       sync.Mutex
	cause    error         // why the connection is not usable
	tried    time.Time     // when the last attempt to connect ended
	ended    chan struct{} // closed when the attempt under way, or else the next one, ends
	renewed  time.Time
	renewing bool
	masters  []slotOwner     // masters of a Cluster when follow last succeeded
	term     context.Context // ends when the client is replaced
	endTerm  context.CancelFunc
}

const (
	// connectTime is the maximum duration of one attempt to connect.
	connectTime = 3 * time.Second
	// connectEvery is the approximate pause between two attempts.
	connectEvery = time.Second
	// connectAgain is the time after an attempt during which a ping returns the error of that
	// attempt, instead of waiting for the next one.
	connectAgain = 100 * time.Millisecond
	// renewEvery is the minimum time between two replacements of the client.
	renewEvery = 500 * time.Millisecond
)

var (
	errConnecting = errors.New("still connecting")
	errClosed     = errors.New("the store is closed")
	errRenewing   = errors.New("the connections are already being replaced")
)

// init prepares a connection. start connects it.
func (c *connection) init() {
	c.most, c.cause, c.began = ownConnections, errConnecting, time.Now()
	c.life, c.end = context.WithCancel(context.Background())
	c.term, c.endTerm = context.WithCancel(c.life)
	c.ready, c.hurry, c.ended = make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
}

// start connects in the background and retries until an attempt succeeds.
func (c *connection) start(attempt func(context.Context) error) {
	c.work.Go(func() {
		for first := true; c.life.Err() == nil; first = false {
			ctx, done := context.WithTimeout(c.life, connectTime)
			err := attempt(ctx)
			done()
			c.mu.Lock()
			c.cause, c.tried = err, time.Now()
			c.usable.Store(err == nil)
			close(c.ended)
			c.ended = make(chan struct{})
			c.mu.Unlock()
			if first {
				close(c.ready)
			}
			if err == nil {
				return
			}
			c.pause()
		}
	})
}

func (c *connection) pause() {
	timer := time.NewTimer(connectEvery*4/5 + rand.N(connectEvery*2/5))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.hurry:
	case <-c.life.Done():
	}
}

// await waits for the first attempt to connect. If the connection is not usable, it returns the
// cause.
func (c *connection) await(ctx context.Context) error {
	if c.usable.Load() {
		return nil
	}
	return c.awaitEnd(ctx, c.ready)
}

// reach is like await, but it starts the next attempt early, and waits for it unless the last
// attempt has just ended.
func (c *connection) reach(ctx context.Context) error {
	if c.usable.Load() {
		return nil
	}
	c.mu.Lock()
	ended, recent := c.ended, time.Since(c.tried) < connectAgain
	c.mu.Unlock()
	if recent {
		ended = c.ready
	}
	select {
	case c.hurry <- struct{}{}:
	default:
	}
	return c.awaitEnd(ctx, ended)
}

// awaitEnd waits for the end of an attempt. If the connection is not usable, it returns the cause.
func (c *connection) awaitEnd(ctx context.Context, ended <-chan struct{}) error {
	select {
	case <-ended:
	case <-c.life.Done():
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.life.Err() != nil:
		return errClosed
	case errors.Is(c.cause, errConnecting):
		return fmt.Errorf("%w: %w", c.cause, ctx.Err())
	}
	return c.cause
}

// notConnected returns the error of an operation that failed because there is no connection.
func notConnected(op string, cause error) error {
	if failed, ok := cause.(*stint.StoreError); ok {
		return &stint.StoreError{Op: op, Kind: failed.Kind, Err: failed.Err}
	}
	return wrap(op, cause)
}

func (c *connection) get() rueidis.Client { return *c.client.Load() }

// renew replaces the client in the background, unless that was just done or the client belongs to
// the caller.
func (c *connection) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dial == nil || !c.usable.Load() || c.renewing || time.Since(c.renewed) < renewEvery {
		return
	}
	c.renewed = time.Now()
	c.work.Go(func() { _ = c.replace() }) // after an error, the next failed call tries again
}

// spawn runs f in the background if there is a connection, and reports whether there is one.
// connection.stop waits until f returns.
func (c *connection) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.usable.Load() {
		return false
	}
	c.work.Go(f)
	return true
}

// replace replaces the client with a new one. Calls under way fail.
func (c *connection) replace(servers ...string) error {
	c.mu.Lock()
	busy := c.renewing
	c.renewing = true
	c.mu.Unlock()
	if busy {
		return errRenewing
	}
	client, err := c.dial(c.life, servers...)
	c.mu.Lock()
	c.renewing = false
	unused := client
	switch {
	case err != nil:
	case c.life.Err() != nil:
	case client.Mode() != c.get().Mode():
		// A server that temporarily does not report its Cluster looks like a single server.
		err = errors.New("the servers are no longer of the same kind (single, Sentinel or Cluster)")
	default:
		unused = *c.client.Swap(&client)
		c.endTerm()
		c.term, c.endTerm = context.WithCancel(c.life)
	}
	c.mu.Unlock()
	if unused != nil {
		unused.Close() // slow, so without the lock
	}
	return err
}

// follow asks a Cluster for its masters, and replaces the client if they have changed since follow
// last succeeded. The client also notices such changes, but up to a second later.
func (c *connection) follow(ctx context.Context) error {
	masters, node, err := mastersOf(ctx, c.get())
	if err != nil {
		return err
	}
	c.mu.Lock()
	changed := c.masters != nil && !slices.Equal(c.masters, masters)
	c.mu.Unlock()
	if changed && c.dial != nil {
		// Start from node, because other nodes may not know about the change yet.
		if err := c.replace(node); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.masters = masters
	c.mu.Unlock()
	return nil
}

// knownMasters returns the owners of a Cluster's slots, as connection.follow last found them. If a
// slot has moved since, calls for that slot still reach the new owner. But they are sent with the
// calls to the old owner, and wait until those are answered.
func (c *connection) knownMasters() []slotOwner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.masters
}

// stop ends background work, and makes later calls fail.
func (c *connection) stop() {
	c.mu.Lock()
	c.usable.Store(false)
	c.end()
	c.mu.Unlock()
	c.work.Wait()
}

// close closes the client, unless it belongs to the caller. stop must be called first.
func (c *connection) close() {
	if client := c.client.Load(); client != nil && c.dial != nil {
		(*client).Close()
	}
}

// await waits until the first attempt to connect has ended or ctx ends. If there is no connection,
// it returns an error for the operation op.
func (s *Store) await(ctx context.Context, op string) error {
	if err := s.conn.await(ctx); err != nil {
		return notConnected(op, err)
	}
	return nil
}
