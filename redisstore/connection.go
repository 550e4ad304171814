package redisstore

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// connection holds the client, and replaces it when it is stuck: to a server that has become a
// replica, for behind an address that has moved on only new connections reach the new master; to a
// connection that is out of step; or to masters that a Cluster has replaced.
type connection struct {
	client atomic.Pointer[rueidis.Client]
	owned  bool // whether it is ours to close
	// dial makes another, which asks these servers if any are given. It is nil if the client cannot
	// be replaced.
	dial func(servers ...string) (rueidis.Client, error)

	mu       sync.Mutex
	renewed  time.Time
	renewing bool
	masters  []slotOwner // of a Cluster, that the client was last known to follow
	closed   bool
}

// renewEvery is how often a client is replaced at most.
const renewEvery = 500 * time.Millisecond

func (c *connection) get() rueidis.Client { return *c.client.Load() }

// renew replaces the client in the background, unless that was just done.
func (c *connection) renew() {
	if c.dial == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.renewing || time.Since(c.renewed) < renewEvery {
		return
	}
	c.renewed = time.Now()
	go func() { _ = c.replace() }() // the next failure tries again
}

var errRenewing = errors.New("the connections are just being replaced")

// replace replaces the client with a new one. Calls that are under way fail.
func (c *connection) replace(servers ...string) error {
	c.mu.Lock()
	busy := c.renewing
	c.renewing = true
	c.mu.Unlock()
	if busy {
		return errRenewing
	}
	client, err := c.dial(servers...)
	c.mu.Lock()
	c.renewing = false
	unused := client
	switch {
	case err != nil:
	case c.closed:
	case client.Mode() != c.get().Mode():
		// A server that does not show its Cluster at the moment passes for a single one.
		err = errors.New("the servers are not of the same kind any more")
	default:
		unused = *c.client.Swap(&client)
	}
	c.mu.Unlock()
	if unused != nil {
		unused.Close() // which takes its time: nobody else waits for it
	}
	return err
}

// follow asks a Cluster for its masters, and replaces the client if others have taken over since it
// last did. The client finds out by itself, but up to a second later.
func (c *connection) follow(ctx context.Context) error {
	masters, node, err := mastersOf(ctx, c.get())
	if err != nil {
		return err
	}
	c.mu.Lock()
	changed := c.masters != nil && !slices.Equal(c.masters, masters)
	c.mu.Unlock()
	if changed && c.dial != nil {
		if err := c.replace(node); err != nil { // others may not know of it yet
			return err
		}
	}
	c.mu.Lock()
	c.masters = masters
	c.mu.Unlock()
	return nil
}

// knownMasters returns who owned which slots of a Cluster at the last ping. Calls for slots that
// have moved since reach their new owner, but wait for those to the old one.
func (c *connection) knownMasters() []slotOwner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.masters
}

// settled reports whether calls do not have to wait for connections, as far as that is known.
func (c *connection) settled() bool {
	client, ok := c.get().(*connectingClient)
	return !ok || client.settled()
}

// slotOwner is a master of a Cluster, and where a range of its slots begins.
type slotOwner struct {
	first int64
	addr  string
}

// ownerOf returns the address of the master of a slot, "" if that is not known.
func ownerOf(masters []slotOwner, slot uint16) string {
	i, exact := slices.BinarySearchFunc(masters, int64(slot), func(o slotOwner, slot int64) int {
		return cmp.Compare(o.first, slot)
	})
	if !exact {
		i--
	}
	if i < 0 {
		return ""
	}
	return masters[i].addr
}

// mastersOf returns who owns which slots, in their order, according to the first node that answers:
// a silent one does not use up the time.
func mastersOf(ctx context.Context, client rueidis.Client) (owners []slotOwner, addr string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type view struct {
		owners []slotOwner
		addr   string
		err    error
	}
	nodes := client.Nodes()
	views := make(chan view, len(nodes))
	for addr, node := range nodes {
		go func() {
			ranges, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
			views <- view{ownersOf(ranges), addr, err}
		}()
	}
	err = errors.New("no node is known")
	for range nodes {
		select {
		case v := <-views:
			if v.err == nil {
				return v.owners, v.addr, nil
			}
			err = v.err
		case <-ctx.Done(): // which a node whose connection is being made may not heed
			return nil, "", ctx.Err()
		}
	}
	return nil, "", err
}

// ownersOf reads the reply of CLUSTER SLOTS.
func ownersOf(ranges []rueidis.RedisMessage) (owners []slotOwner) {
	for i := range ranges { // first slot, last slot, master, replicas
		fields, _ := ranges[i].ToArray()
		if len(fields) < 3 {
			continue
		}
		first, _ := fields[0].AsInt64()
		master, _ := fields[2].ToArray()
		if len(master) >= 2 {
			host, _ := master[0].ToString()
			port, _ := master[1].AsInt64()
			owners = append(owners, slotOwner{first, net.JoinHostPort(host, strconv.FormatInt(port, 10))})
		}
	}
	slices.SortFunc(owners, func(a, b slotOwner) int { return cmp.Compare(a.first, b.first) })
	return owners
}

func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	client := c.get() // the last: replace sees that it is closed
	c.mu.Unlock()
	if c.owned {
		client.Close()
	}
}
