package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// connection holds the client, and replaces it when it is stuck: to a server that
// has become a replica, for behind an address that has moved on only new connections
// reach the new master; to a connection that is out of step; or to masters that a
// Cluster has replaced.
type connection struct {
	client atomic.Pointer[rueidis.Client]
	owned  bool // whether it is ours to close
	// dial makes another, which asks these servers if any are given. It is nil if the client
	// cannot be replaced.
	dial func(servers ...string) (rueidis.Client, error)

	mu      sync.Mutex
	renewed time.Time
	masters string // of a Cluster, when they were last asked for
	closed  bool
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
	if c.closed || time.Since(c.renewed) < renewEvery {
		return
	}
	c.renewed = time.Now()
	go func() { _ = c.replace() }() // the next failure tries again
}

// replace puts a new client in the place of the one there is. Calls that are under way fail.
func (c *connection) replace(servers ...string) error {
	client, err := c.dial(servers...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		client.Close()
		return nil
	}
	(*c.client.Swap(&client)).Close()
	return nil
}

// follow asks a Cluster for its masters, and replaces the client if others have taken over
// since it last did. The client finds out by itself, but up to a second later.
func (c *connection) follow(ctx context.Context) error {
	masters, node, err := mastersOf(ctx, c.get())
	if err != nil {
		return err
	}
	c.mu.Lock()
	changed := c.masters != "" && c.masters != masters
	c.masters = masters
	c.mu.Unlock()
	if changed && c.dial != nil {
		return c.replace(node) // others may not have heard of it yet
	}
	return nil
}

// mastersOf tells who owns which slots, as the first node sees it that answers.
func mastersOf(ctx context.Context, client rueidis.Client) (masters, addr string, err error) {
	err = errors.New("no node is known")
	for addr, node := range client.Nodes() {
		var ranges []rueidis.RedisMessage
		if ranges, err = node.Do(ctx, node.B().ClusterSlots().Build()).ToArray(); err != nil {
			continue
		}
		var owners []string
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
				owners = append(owners, fmt.Sprintf("%05d %s:%d", first, host, port))
			}
		}
		slices.Sort(owners) // nodes tell them in different orders
		return strings.Join(owners, ", "), addr, nil
	}
	return "", "", err
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.owned {
		c.get().Close()
	}
}
