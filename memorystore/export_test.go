package memorystore

// Sweep looks at every record, as the sweeper does within a minute.
func (s *Store) Sweep() {
	for i := range s.shards {
		for range 2 { // the first time perhaps from the middle on
			for whole := false; !whole; {
				_, whole = s.shards[i].sweep()
			}
		}
	}
	s.compareLoads()
}

// Len is how many subjects are kept.
func (s *Store) Len() int { return int(s.subjects.Load()) }
