package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// caller makes calls.
type caller interface {
	B() rueidis.Builder
	Do(context.Context, rueidis.Completed) rueidis.RedisResult
}

const (
	// outlastTime is how long a call may go on that began a connection and whose caller has left.
	outlastTime = time.Second
	// maxLeft is how many calls may go on without their callers, approximately.
	maxLeft = 1024
)

// B returns what builds commands.
func (c *connection) B() rueidis.Builder { return c.get().B() }

// Do makes a call on the connection that calls share: while it waits for its answer, others are
// sent.
//
// By itself a client makes that connection when a call needs it, within the time of that call, and
// other calls wait for it however little time they have. A caller may have 15 ms. That is too short
// for the two or three round trips to a distant server: every call would begin a connection and
// none would complete it. And a caller would exceed its time waiting for the connection that
// another makes to a stopped server. So a call with a deadline runs in a goroutine of its own, and
// its caller leaves when its time is up. The call may then go on: what it asks for carries its own
// not-after.
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
	var over atomic.Bool // for the one or the other
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

// share is Do without a goroutine.
func (c *connection) share(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return c.get().Do(ctx, cmd.ToPipe())
}

// flight is the way of a batch to a server: on a connection that no other call uses until the
// answer is there or the batch's time is up. That is quicker: nobody else reads from the
// connection. A connection on which an answer is late is closed, so callers with little time must
// not use it themselves, but wait for a batch that has more. Where there is none, a batch is sent
// on the connection that calls share.
type flight struct {
	*connection
	room *room // nil: it shares a connection
	addr string
}

// room is for batches with a connection of their own to a server.
type room struct {
	used    atomic.Int32 // connections in use
	made    atomic.Int32 // and all of them
	growing atomic.Bool
}

// takeOff begins a flight to a master of a Cluster, or to the only one, which is "". Batches make
// no connection: while they are late no more are made than there may be, and none has to wait until
// one is made.
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

// roomAt returns the room at a server.
func (c *connection) roomAt(addr string) *room {
	if r, ok := c.rooms.Load(addr); ok {
		return r.(*room)
	}
	r := &room{}
	if c.dial == nil { // the caller's client has the connections that it has
		r.made.Store(c.most)
	}
	shared, _ := c.rooms.LoadOrStore(addr, r)
	return shared.(*room)
}

// ownKey is in the contexts of calls for which a connection is made that is counted in a room: in
// that of "", or else in that of the address it is made to.
type ownKey struct{}

// grow makes one more connection for batches, by a call that needs one.
func (c *connection) grow(ctx context.Context, addr string) {
	client := c.get()
	if addr != "" {
		if client = client.Nodes()[addr]; client == nil {
			return
		}
	}
	ctx = context.WithValue(ctx, ownKey{}, addr)
	for errors.Is(client.Do(ctx, client.B().Ping().Build()).Error(), errStale) {
	} // the next one may not be
}

// land ends a flight.
func (f flight) land() {
	if f.room != nil {
		f.room.used.Add(-1)
	}
}

// Do makes a call.
func (f flight) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if f.room == nil {
		return f.share(ctx, cmd)
	}
	return f.get().Do(context.WithValue(ctx, ownKey{}, f.addr), cmd)
}

// DoMulti makes calls at a time.
func (f flight) DoMulti(ctx context.Context, cmds rueidis.Commands) []rueidis.RedisResult {
	if f.room != nil {
		return f.get().DoMulti(context.WithValue(ctx, ownKey{}, f.addr), cmds...)
	}
	for i := range cmds {
		cmds[i] = cmds[i].ToPipe()
	}
	return f.get().DoMulti(ctx, cmds...)
}

// listen calls f with what is published, on a connection of its own to a single server: on one that
// listens, the client passes every call on between goroutines, which takes 10 µs. Clients of
// several servers close shared connections when they leave one of them, and no others.
func (c *connection) listen(ctx context.Context, channel string, f func(rueidis.PubSubMessage)) error {
	c.mu.Lock()
	client, term := c.get(), c.term
	c.mu.Unlock()
	subscribe := client.B().Subscribe().Channel(channel).Build()
	if client.Mode() != rueidis.ClientModeStandalone {
		return client.Receive(ctx, subscribe, f)
	}
	done := make(chan error, 1)
	go func() { // with a silent server, neither connecting nor leaving heeds the context
		own, _ := client.Dedicate()
		defer own.Close() // to use it again, the client would unsubscribe, and panic if the server is busy
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
