package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/keypart"
)

// Store is a [driver.BatchStore] backed by Redis. It is safe for concurrent use.
type Store struct {
	conn     connection
	prefix   string
	nameKeys nameKeys
	guest    bool // see Config.ExistingNames
	names    atomic.Pointer[names]
	refused  atomic.Pointer[error] // why nothing may be sent; nil unless Redis is in use with another name key
	logger   *slog.Logger
	cluster  bool // valid once connected
	calls    atomic.Uint64
	clock    *serverClock
	sets     sets
	settled  contract.SettledSet
	released contract.SettledSet // charges whose places this process released
	ceilings ceilings            // used only on a Cluster, like backs
	backs    giveBacks
}

var (
	_ driver.BatchStore   = (*Store)(nil)
	_ driver.BatchAmender = (*Store)(nil)
)

func newStore(c Config, keys nameKeys) *Store {
	s := &Store{
		prefix:   c.Prefix,
		nameKeys: keys,
		guest:    c.ExistingNames,
		logger:   c.Logger,
		clock:    newServerClock(),
	}
	s.conn.init()
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	s.calls.Store(binary.BigEndian.Uint64(seed[:]))
	return s
}

// Close closes the connections, unless the client belongs to the caller. On a Cluster, it first
// waits, for at most a second, until all charges that are to be given back have been given back.
func (s *Store) Close() error {
	s.drainGiveBacks()
	s.conn.stop()
	s.conn.close()
	return nil
}

// nextCall returns an id that no other call of any process has. The store checks that a reply
// repeats the id of its call. Charges have such ids, too.
func (s *Store) nextCall() uint64 { return s.nextCalls(1) }

// nextCalls is nextCall for n consecutive ids. It returns the first.
func (s *Store) nextCalls(n int) uint64 {
	for {
		last := s.calls.Add(uint64(n))
		if first := last - uint64(n) + 1; first <= last && first != 0 {
			return first
		}
	}
}

// Take decides a request. See [stint.Store]. It charges nothing after the context's deadline,
// provided that the server's clock is known.
func (s *Store) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if err := s.await(ctx, "take"); err != nil {
		return stint.Decision{}, err
	}
	return s.take(ctx, r)
}

// take is Take for a connected store.
func (s *Store) take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	c := driver.Call{Request: r}
	s.takeCall(ctx, &c)
	return c.Decision, c.Err
}

// takeCall decides a single call, within its own deadline and that of the context.
func (s *Store) takeCall(ctx context.Context, c *driver.Call) {
	ctx, cancel := until(ctx, c.Deadline)
	defer cancel()
	if len(c.Request.Claims) == 0 {
		c.Err = c.Request.Validate()
	} else if s.cluster && len(c.Request.Claims) > 1 {
		c.Decision, c.Err = s.takeSplit(ctx, &c.Request)
	} else {
		deadline, _ := ctx.Deadline()
		s.takeRun(ctx, run{calls: []*driver.Call{c}, deadline: deadline}, s.nextCalls(2))
	}
	s.done(c)
}

// until returns the context with the deadline, or the context itself if the deadline is zero.
func until(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}

// takeRun decides a run of one call. The script call has the given id, and the charge has the next
// id. If the server refuses the script call because its clock had been set, takeRun repeats it
// once.
func (s *Store) takeRun(ctx context.Context, q run, id uint64) {
	if late := s.send(ctx, &s.conn, []run{q}, id); len(late) > 0 {
		s.send(ctx, &s.conn, late, id)
	}
}

// Command acts on one subject. See [stint.Store].
func (s *Store) Command(ctx context.Context, c stint.Command) error {
	if err := s.await(ctx, "command"); err != nil {
		return err
	}
	return s.command(ctx, c)
}

// command is Command for a connected store.
func (s *Store) command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	call, err := s.encodeCommand(&c)
	if call == nil {
		return s.wrap("command", err)
	}
	reply, err := call.script.run(ctx, &s.conn, call.keys, call.args)
	if err == nil {
		err = call.decodeCommand(reply)
	}
	return s.wrap("command", err)
}

// Ping checks that the server answers. If there is no connection, it waits for an attempt to
// connect, within ctx, and returns the error of that attempt. On a Cluster it asks which masters
// own which slots: callers ping after calls have failed, and a call may have failed because a slot
// has moved.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.conn.reach(ctx); err != nil {
		return notConnected("ping", err)
	}
	if s.cluster {
		return s.wrap("ping", s.conn.follow(ctx))
	}
	return s.wrap("ping", s.conn.Do(ctx, s.conn.B().Ping().Build()).Error())
}

// Present implements [driver.Roster]. On a Cluster, the roster is kept on one master, so only a
// loss of data on that master is noticed.
func (s *Store) Present(ctx context.Context, last driver.Presence) (driver.Presence, error) {
	next := driver.Presence{ID: last.ID}
	if err := s.await(ctx, "present"); err != nil {
		return next, err
	}
	reply, err := presentScript.do(ctx, &s.conn, []string{s.prefix + ":instances"}, []string{last.ID, rand.Text(),
		strconv.FormatInt(last.At, 10), last.Memory, strconv.FormatInt(last.Calls, 10)}).ToArray()
	if err == nil && len(reply) != 4 {
		err = badReply(fmt.Sprintf("%d parts instead of 4", len(reply)))
	}
	if err != nil {
		return next, s.wrap("present", err)
	}
	n, err1 := reply[0].AsInt64()
	at, err2 := reply[1].AsInt64()
	memory, err3 := reply[2].ToString()
	calls, err4 := reply[3].AsInt64()
	next.Processes, next.At, next.Memory, next.Calls = int(n), at, memory, calls
	return next, s.wrap("present", errors.Join(err1, err2, err3, err4))
}

// Announcements implements [driver.Announcer]. It calls f with the subject of each announcement,
// until ctx is done or the connection is lost. commanded reports whether the subject was reset,
// banned or unbanned; otherwise units were given back to it. A settlement is announced only if more
// than half of a limit was used or something is booked. In all other cases, package resilience
// remembers no denial and no caller waits, so the announcement would have no effect.
//
// For a subject that is too long for a key, f receives "~" and a hash. For a hashed subject that
// this process does not remember, f receives the hashed form, as Bans returns it. For an
// announcement that contains no subject, f receives "".
func (s *Store) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	if err := s.conn.await(ctx); err != nil {
		return errConnecting // the cause might look like a missing permission to subscribe
	}
	err := s.conn.listen(ctx, s.prefix+":room", func(m rueidis.PubSubMessage) {
		if m.Message == "" {
			return // the message is from another program
		}
		name, _ := keypart.ReadName(m.Message[1:])
		f(s.names.Load().recall(name), m.Message[0] == '!')
	})
	return s.wrap("listen", err)
}
