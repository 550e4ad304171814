package resilience

// held is how many denials are in the table, those that have ended included.
func (c *denyCache) held() int {
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

// room is how many denials the table has room for.
func (c *denyCache) room() int { return len(c.sets) * len(denialSet{}) }
