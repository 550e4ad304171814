package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

type caller interface {
	B() rueidis.Builder
	Do(context.Context, rueidis.Completed) rueidis.RedisResult
}

const (
	// outlastTime is the minimum time that a call gets, even if its caller has less time: the call
	// may have to open a connection first. It is also the maximum time for opening a connection for
	// batches.
	outlastTime = time.Second
	// maxLeft is roughly the maximum number of calls that may go on after their callers have
	// stopped waiting.
	maxLeft = 1024
)

// B returns a command builder.
func (c *connection) B() rueidis.Builder { return c.get().B() }

// Do makes a call on the shared connection. While the call waits for its answer, other calls are
// sent on that connection.
//
// If the connection is not open, the client opens it within the time of the first call that needs
// it, and all other calls wait. That causes two problems:
//   - A caller may have only 15 ms, which is too short for the two or three round trips to a
//     distant server. Every call would begin a connection and none would complete it.
//   - A caller would miss its deadline while another call connects to a stopped server.
//
// So a call with a deadline runs in its own goroutine, and its caller stops waiting at the
// deadline. The call may continue after that: a request carries its deadline as its not-after, and
// the server refuses the request after that time.
func (c *connection) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	deadline, ok := ctx.Deadline()
	switch err := ctx.Err(); {
	case !ok:
		return c.share(ctx, cmd)
	case err != nil:
		return rueidis.NewErrorResult(err)
	case c.left.Load() >= maxLeft:
		return rueidis.NewErrorResult(errConnecting)
	}
	if end := time.Now().Add(outlastTime); deadline.Before(end) {
		deadline = end
	}
	var over atomic.Bool // set by the caller or the goroutine, whichever finishes first
	done := make(chan rueidis.RedisResult, 1)
	go func() {
		longer, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
		done <- c.share(longer, cmd)
		if !over.CompareAndSwap(false, true) {
			c.left.Add(-1)
		}
	}()
	select {
	case result := <-done:
		return result
	case <-ctx.Done():
		if over.CompareAndSwap(false, true) {
			c.left.Add(1)
		}
		return rueidis.NewErrorResult(ctx.Err())
	}
}

// share makes a call on the shared connection, without a goroutine.
func (c *connection) share(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return c.get().Do(ctx, cmd.ToPipe())
}

// flight carries a batch to a server, on a connection that no other call uses until the answer has
// arrived or the batch's time is up. That is faster because nothing else reads from the connection.
// The connection is closed if the answer is late. So calls outside of batches, which may have
// little time, do not use flights. If no such connection is free, the batch is sent on the shared
// connection.
type flight struct {
	*connection
	room *room // if nil, the batch uses the shared connection
	addr string
}

// room counts the connections for batches to one server.
type room struct {
	used    atomic.Int32 // connections in use
	made    atomic.Int32 // all connections, in use or not
	growing atomic.Bool
}

// takeOff begins a flight to the master with the given address. Without a Cluster there is only one
// master, and addr is "". If ctx has no deadline, the flight uses the shared connection. It also
// does so if all connections for batches are in use; takeOff may then open another one in the
// background. The batch itself never opens a connection. So late batches do not cause more
// connections than allowed, and no batch waits for a connection.
func (c *connection) takeOff(ctx context.Context, addr string) flight {
	if _, timed := ctx.Deadline(); !timed {
		return flight{connection: c}
	}
	r := c.roomAt(addr)
	if r.used.Add(1) <= r.made.Load() {
		return flight{c, r, addr}
	}
	if r.made.Load() >= c.most || !r.growing.CompareAndSwap(false, true) {
		r.used.Add(-1)
		return flight{connection: c}
	}
	go func() {
		ctx, cancel := context.WithTimeout(c.life, outlastTime)
		defer cancel()
		c.grow(ctx, addr)
		r.growing.Store(false)
		r.used.Add(-1)
	}()
	return flight{connection: c}
}

func (c *connection) roomAt(addr string) *room {
	if r, ok := c.rooms.Load(addr); ok {
		return r.(*room)
	}
	r := &room{}
	if c.dial == nil { // the caller's client makes its own connections
		r.made.Store(c.most)
	}
	shared, _ := c.rooms.LoadOrStore(addr, r)
	return shared.(*room)
}

// ownKey is the context key of calls that use the connections for batches. If such a call opens a
// connection, a room counts it: the room for "" if the value of ownKey is "", otherwise the room
// for the dialed address.
type ownKey struct{}

// grow opens one more connection for batches, by making a call that needs a new connection.
func (c *connection) grow(ctx context.Context, addr string) {
	client := c.get()
	if addr != "" {
		if client = client.Nodes()[addr]; client == nil {
			return
		}
	}
	ctx = context.WithValue(ctx, ownKey{}, addr)
	for errors.Is(client.Do(ctx, client.B().Ping().Build()).Error(), errStale) {
	} // try again: the next connection may not be stale
}

// land ends a flight, which frees its connection.
func (f flight) land() {
	if f.room != nil {
		f.room.used.Add(-1)
	}
}

// Do makes a call on the flight's connection.
func (f flight) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if f.room == nil {
		return f.share(ctx, cmd)
	}
	return f.get().Do(context.WithValue(ctx, ownKey{}, f.addr), cmd)
}

// DoMulti sends several calls together on the flight's connection.
func (f flight) DoMulti(ctx context.Context, cmds rueidis.Commands) []rueidis.RedisResult {
	if f.room != nil {
		return f.get().DoMulti(context.WithValue(ctx, ownKey{}, f.addr), cmds...)
	}
	for i := range cmds {
		cmds[i] = cmds[i].ToPipe()
	}
	return f.get().DoMulti(ctx, cmds...)
}

// listen calls f with each published message. With a single server it uses a separate connection:
// on a connection that listens, the client hands every call from one goroutine to another, which
// takes 10 µs. With a client of several servers, it uses a shared connection: when that client no
// longer uses a server, it closes only the shared connections to it, so a separate connection would
// go on listening to that server.
func (c *connection) listen(ctx context.Context, channel string, f func(rueidis.PubSubMessage)) error {
	c.mu.Lock()
	client, term := c.get(), c.term
	c.mu.Unlock()
	subscribe := client.B().Subscribe().Channel(channel).Build()
	if client.Mode() != rueidis.ClientModeStandalone {
		return client.Receive(ctx, subscribe, f)
	}
	done := make(chan error, 1)
	go func() { // with a silent server, neither connecting nor closing honors the context
		own, _ := client.Dedicate()
		// Do not return the connection to the pool: that would unsubscribe, which panics if the
		// server is busy.
		defer own.Close()
		defer context.AfterFunc(term, own.Close)()
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
