package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// connection holds the client, and replaces it when it is stuck to a server that
// has become a replica: behind an address that has moved on, only new connections
// reach the new master.
type connection struct {
	client atomic.Pointer[rueidis.Client]
	owned  bool                           // whether it is ours to close
	dial   func() (rueidis.Client, error) // nil if it cannot be replaced

	mu      sync.Mutex
	renewed time.Time
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
	go func() {
		client, err := c.dial()
		if err != nil {
			return // the next failure tries again
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			client.Close()
			return
		}
		(*c.client.Swap(&client)).Close()
	}()
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.owned {
		c.get().Close()
	}
}
