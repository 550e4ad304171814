package outbound

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// Stats holds statistics on the calls that this process has made to one API since the registry was
// created.
type Stats struct {
	// Name is the API's name. Limits are its limits, or nil if the API is no longer registered.
	Name   string
	Limits []stint.Limit
	// Calls is the number of calls that were admitted.
	Calls int64
	// Waited is the number of calls that had to wait, including those that then gave up or were
	// refused.
	Waited int64
	// TotalWait is the sum of the waits that Waited counts, and LongestWait is the longest of them.
	// The average wait is TotalWait / Waited.
	TotalWait, LongestWait time.Duration
	// Denied is the number of calls that failed with a [*stint.DeniedError]; see [Client.Wait]. It
	// includes calls that were refused because the store was unavailable and the API's Failure is
	// [stint.FailDeny].
	Denied int64
	// Failed is the number of calls that ended with any other error, such as a store error or the
	// end of their context.
	Failed int64
	// Waiting is the number of calls that are in [Client.Wait] or [Client.WaitFor] now.
	Waiting int64
	// Cooldowns is the number of pauses that the API imposed on this process.
	Cooldowns int64
	// CoolingUntil is the end of the pause in force; zero if this process knows of no pause.
	CoolingUntil time.Time
}

// count applies change to the counters of the API, under their lock.
func (c *Client) count(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.counted)
}

func (s *Stats) called(wait time.Duration, err error) {
	if wait > 0 {
		s.Waited++
		s.TotalWait += wait
		s.LongestWait = max(s.LongestWait, wait)
	}
	_, denied := errors.AsType[*stint.DeniedError](err)
	switch {
	case err == nil:
		s.Calls++
	case denied:
		s.Denied++
	default:
		s.Failed++
	}
}

func (c *Client) stats() Stats {
	c.mu.Lock()
	s := c.counted
	c.mu.Unlock()
	s.Name = c.name
	if e, err := c.registry.find(c.name); err == nil {
		s.Limits = slices.Clone(e.api.Limits)
	}
	if end := c.cooldown.end(); end > c.registry.now() {
		s.CoolingUntil = c.registry.start.Add(end)
	}
	return s
}

// Stats returns the statistics of every registered API, sorted by name.
func (r *Registry) Stats() []Stats {
	var all []Stats
	table := *r.table.Load()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		all = append(all, table[name].client.stats())
	}
	return all
}
