package outbound

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// Stats is what became of the calls to an API, in this process, since the registry was made.
type Stats struct {
	// Name is the API's, and Limits are those in force; nil if it is no longer registered.
	Name   string
	Limits []stint.Limit
	// Calls is how many were admitted.
	Calls int64
	// Waited is how many had to wait, also those who gave up or were refused in the end.
	Waited int64
	// TotalWait is how long they waited in all, and LongestWait the longest of them. Example: the
	// average is TotalWait / Waited.
	TotalWait, LongestWait time.Duration
	// Denied is how many were refused: they would have had to wait, or to wait for too long.
	Denied int64
	// Failed is how many ended in any other error: the store's, or the end of their context.
	Failed int64
	// Waiting is how many callers wait now.
	Waiting int64
	// Cooldowns is how many pauses the API imposed on this process.
	Cooldowns int64
	// CoolingUntil is the end of the pause that is in force, as far as this process knows; zero if
	// there is none.
	CoolingUntil time.Time
}

// counts are the numbers behind [Stats].
type counts struct {
	calls, waited, denied, failed, waiting, cooldowns atomic.Int64
	total, longest                                    atomic.Int64
}

// called counts a call and its wait.
func (n *counts) called(wait time.Duration, err error) {
	if wait > 0 {
		n.waited.Add(1)
		n.total.Add(int64(wait))
		n.raise(int64(wait))
	}
	switch {
	case err == nil:
		n.calls.Add(1)
	case isDenied(err):
		n.denied.Add(1)
	default:
		n.failed.Add(1)
	}
}

// raise raises the longest wait.
func (n *counts) raise(wait int64) {
	for was := n.longest.Load(); wait > was; was = n.longest.Load() {
		if n.longest.CompareAndSwap(was, wait) {
			return
		}
	}
}

func isDenied(err error) bool {
	_, ok := errors.AsType[*stint.DeniedError](err)
	return ok
}

// stats returns what became of the calls to the API.
func (c *Client) stats() Stats {
	n := &c.counts
	s := Stats{
		Name:  c.name,
		Calls: n.calls.Load(), Waited: n.waited.Load(),
		TotalWait: time.Duration(n.total.Load()), LongestWait: time.Duration(n.longest.Load()),
		Denied: n.denied.Load(), Failed: n.failed.Load(), Waiting: n.waiting.Load(),
		Cooldowns: n.cooldowns.Load(),
	}
	if e, err := c.registry.find(c.name); err == nil {
		s.Limits = slices.Clone(e.api.Limits)
	}
	if end := c.cooldown.end(); end > c.registry.now() {
		s.CoolingUntil = c.registry.start.Add(end)
	}
	return s
}

// Stats returns what became of the calls to every API that is registered, by name.
func (r *Registry) Stats() []Stats {
	var all []Stats
	table := *r.table.Load()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		all = append(all, table[name].client.stats())
	}
	return all
}
