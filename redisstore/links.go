package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// ownConnections is the maximum number of batch connections per server. With the shared connection
// and the one that listens, there are at most eight connections per server.
const ownConnections = 6

// idle is the time after which a connection for batches is closed if nothing was sent or received
// on it. The client pings only shared connections, so it does not notice that a NAT or the server
// has dropped a connection for batches.
const idle = 30 * time.Second

// errStale is in the error chain of a call that was not sent because its connection was no longer
// trusted.
var errStale = errors.New("the connection was idle for too long, or other connections to the servers were just lost")

// newClient makes a client, and gives up if ctx ends first. The client's connections for batches
// are links.
func (c *connection) newClient(ctx context.Context, co rueidis.ClientOption) (rueidis.Client, error) {
	opening, end := context.WithCancel(ctx)
	defer end()
	var opened atomic.Bool
	dial := dialerOf(co)
	co.DialCtxFn = func(
		ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config,
	) (net.Conn, error) {
		if opened.Load() {
			conn, err := dial(ctx, addr, dialer, config)
			return c.link(ctx, addr, conn, err)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(opening, cancel)()
		conn, err := dial(ctx, addr, dialer, config)
		if err == nil {
			context.AfterFunc(opening, func() {
				if !opened.Load() { // the server is silent: do not wait for the handshake
					_ = conn.Close()
				}
			})
		}
		return c.link(ctx, addr, conn, err)
	}
	client, err := rueidis.NewClient(co) // takes timeouts, but no context
	opened.Store(true)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return client, nil
}

type dialer func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

func dialerOf(co rueidis.ClientOption) dialer {
	switch {
	case co.DialCtxFn != nil:
		return co.DialCtxFn
	case co.DialFn != nil:
		return func(_ context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			return co.DialFn(addr, dialer, config)
		}
	}
	return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		if config != nil {
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
		}
		return dialer.DialContext(ctx, "tcp", addr)
	}
}

// link is a connection for batches: each caller sends a call, and then reads the complete answer.
// If the connection breaks during a call, the call fails and is not repeated, because the server
// may have executed it. To make that rare, a link refuses a call if it was idle for too long, or if
// another link has broken since this one was last used. A refused call fails with errStale, and can
// safely be sent on another connection.
type link struct {
	net.Conn
	of   *connection
	room *room // room that counts the link

	mu     sync.Mutex
	used   time.Duration // when something was last sent or received
	sent   bool          // whether something was sent since the last receive
	closed bool
	expiry *time.Timer
}

// link turns a new connection into a link if it is for batches. Otherwise it returns the connection
// unchanged.
func (c *connection) link(ctx context.Context, addr string, conn net.Conn, err error) (net.Conn, error) {
	at, own := ctx.Value(ownKey{}).(string)
	if err != nil || !own {
		return conn, err
	}
	if at != "" {
		at = addr
	}
	k := &link{Conn: conn, of: c, room: c.roomAt(at), used: c.now()}
	k.room.made.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expiry = time.AfterFunc(idle, k.expire)
	return k, nil
}

// now returns the time since the store was opened.
func (c *connection) now() time.Duration { return time.Since(c.began) }

func (k *link) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used, k.sent = k.of.now(), false
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		// The server was restarted, or the network failed: calls on other connections would fail as
		// well, unless those connections have been used since.
		k.of.lost.Store(int64(k.used))
	}
	return n, err
}

// Write fails with errStale only if no part of the call was sent.
func (k *link) Write(b []byte) (int, error) {
	k.mu.Lock()
	at := k.of.now()
	stale := !k.sent && (k.closed || at-k.used >= idle || k.used < time.Duration(k.of.lost.Load()))
	if !stale {
		k.used, k.sent = at, true
	}
	k.mu.Unlock()
	if stale {
		return 0, errStale
	}
	return k.Conn.Write(b)
}

// expire closes the connection if it is idle.
func (k *link) expire() {
	k.mu.Lock()
	left := k.used + idle - k.of.now()
	if k.sent {
		left = idle
	}
	if left > 0 && !k.closed {
		k.expiry.Reset(left)
	}
	k.mu.Unlock()
	if left <= 0 {
		_ = k.Close()
	}
}

func (k *link) Close() error {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		k.room.made.Add(-1)
	}
	k.expiry.Stop()
	k.mu.Unlock()
	return k.Conn.Close()
}
