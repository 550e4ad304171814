package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// connectingClient is a client that connects with a timeout of its own.
//
// By itself a client connects when a call needs it to, within the time of that call, and other
// calls wait for the connection however little time they have. A decision has 15 ms. That is too
// short for the two or three round trips to a distant server: every decision would begin a
// connection and none would complete it. And a decision would exceed it waiting for the connection
// that a heartbeat makes to a stopped server. So while connections come and go, calls run in
// goroutines of their own, and callers leave when their time is up.
type connectingClient struct {
	rueidis.Client
	*links
	life context.Context // until it is closed
	end  context.CancelFunc
}

const (
	// connectTime is how long a connection may take that a call began, if its caller does not wait
	// for longer.
	connectTime = time.Second
	// calm is how long nothing must change for connections to count as made.
	calm = 2 * time.Second
	// maxLeft is how many calls may go on without their callers, approximately; on a Cluster, per
	// range of slots.
	maxLeft = 1024
)

var errConnecting = errors.New("still connecting")

// connect makes such a client, within ctx.
func connect(ctx context.Context, co rueidis.ClientOption) (rueidis.Client, error) {
	opening, end := context.WithCancel(ctx)
	defer end()
	l := &links{start: time.Now(), dialer: co, opening: opening}
	co.DialCtxFn = l.dial
	client, err := rueidis.NewClient(co) // has timeouts, but no context
	l.opened.Store(true)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	life, end := context.WithCancel(context.Background())
	return &connectingClient{client, l, life, end}, nil
}

// Close closes all connections.
func (p *connectingClient) Close() {
	p.end()
	p.Client.Close()
}

// Receive listens to a channel. A single server is listened to on a connection of its own: on one
// that listens, the client passes every call on between goroutines, which takes 10 µs. Clients of
// several servers close shared connections when they leave one of them, and no others.
func (p *connectingClient) Receive(ctx context.Context, subscribe rueidis.Completed,
	f func(rueidis.PubSubMessage)) error {
	if p.Mode() != rueidis.ClientModeStandalone {
		return p.Client.Receive(ctx, subscribe, f)
	}
	done := make(chan error, 1)
	go func() { // with a silent server, neither connecting nor leaving heeds the context
		own, _ := p.Dedicate()
		defer own.Close() // to use it again, the client would unsubscribe, and panic if the server is busy
		defer context.AfterFunc(p.life, own.Close)()
		done <- own.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) {
			if ctx.Err() == nil {
				f(m)
			}
		})
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do makes a call, and returns an error when the caller's time is up. The call may then go on: what
// it asks for carries its own not-after.
func (p *connectingClient) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if p.settled() || ctx.Done() == nil {
		return p.Client.Do(ctx, cmd)
	}
	left := p.leftOf(&cmd)
	switch err := ctx.Err(); {
	case err != nil:
		return rueidis.NewErrorResult(err)
	case left.Load() >= maxLeft:
		return rueidis.NewErrorResult(errConnecting)
	}
	var over atomic.Bool // for the one or the other
	done := make(chan rueidis.RedisResult, 1)
	go func() {
		longer, cancel := outlast(ctx)
		defer cancel()
		done <- p.Client.Do(longer, cmd)
		if !over.CompareAndSwap(false, true) {
			left.Add(-1)
		}
	}()
	select {
	case result := <-done:
		return result
	case <-ctx.Done():
		if over.CompareAndSwap(false, true) {
			left.Add(1)
		}
		return rueidis.NewErrorResult(ctx.Err())
	}
}

// outlast returns a context for a call that goes on when its caller has left: for as long as a
// connection may take. A caller without a deadline may wait for any time.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(connectTime)
	if deadline, ok := ctx.Deadline(); ok {
		if deadline.After(end) {
			end = deadline
		}
		return context.WithDeadline(context.WithoutCancel(ctx), end)
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(time.Until(end), cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

// leftOf returns the count of calls without callers that a command belongs to. Those to a silent
// node must not keep back calls to others: nodes mostly own ranges of slots, so each range has its
// own count.
func (p *connectingClient) leftOf(cmd *rueidis.Completed) *atomic.Int32 {
	if p.Mode() != rueidis.ClientModeCluster {
		return &p.left[0]
	}
	return &p.left[int(cmd.Slot())/1024%len(p.left)]
}

// links watches the connections of a client.
type links struct {
	start   time.Time
	dialer  rueidis.ClientOption
	opening context.Context  // bounds the first connections
	opened  atomic.Bool      // they are made
	making  atomic.Int32     // connections that are being made
	changed atomic.Int64     // when one last came or went, in nanoseconds since start
	left    [16]atomic.Int32 // calls that go on without their callers, see leftOf
}

// settled reports whether all connections in use are made.
func (l *links) settled() bool {
	return l.making.Load() == 0 && int64(time.Since(l.start))-l.changed.Load() > int64(calm)
}

func (l *links) change(making int32) {
	l.changed.Store(int64(time.Since(l.start)))
	l.making.Add(making)
}

// dial makes a connection as the client would.
func (l *links) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	l.change(+1)
	first := !l.opened.Load()
	if first {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.opening, cancel)()
		ctx = within
	}
	conn, err := l.connect(ctx, addr, dialer, config)
	if err != nil {
		l.change(-1)
		return nil, err
	}
	made := &link{Conn: conn, links: l}
	if first {
		context.AfterFunc(l.opening, func() {
			if !l.opened.Load() { // the server is silent: do not wait for its part of the handshake
				_ = made.Close()
			}
		})
	}
	return made, nil
}

func (l *links) connect(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	switch {
	case l.dialer.DialCtxFn != nil:
		return l.dialer.DialCtxFn(ctx, addr, dialer, config)
	case l.dialer.DialFn != nil:
		return l.dialer.DialFn(addr, dialer, config)
	case config != nil:
		return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
	}
	return dialer.DialContext(ctx, "tcp", addr)
}

// link is a connection. It counts as made when the server has first answered: the handshake is a
// part of making it.
type link struct {
	net.Conn
	links  *links
	there  atomic.Bool
	closed atomic.Bool
}

func (k *link) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b)
	if n > 0 && !k.there.Load() && k.there.CompareAndSwap(false, true) {
		k.links.change(-1)
	}
	return n, err
}

func (k *link) Close() error {
	if k.closed.CompareAndSwap(false, true) {
		if k.there.CompareAndSwap(false, true) {
			k.links.change(-1)
		} else {
			k.links.change(0)
		}
	}
	return k.Conn.Close()
}
