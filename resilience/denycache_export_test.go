package resilience

import "time"

// SetClock replaces the clock: the time since the cache was made.
func (c *DenyCache) SetClock(now func() time.Duration) { c.clock = now }

// Held is how many denials are in the table, those that have ended included.
func (c *DenyCache) Held() int {
	n := 0
	for i := range c.sets {
		for k := range c.sets[i] {
			if c.sets[i][k].denial.Load() != nil {
				n++
			}
		}
	}
	return n
}

// Room is how many denials the table has room for.
func (c *DenyCache) Room() int { return len(c.sets) * len(denialSet{}) }
