package memorystore

// Sweep looks at every record, as the sweeper does within a minute.
func (s *Store) Sweep() {
	for i := range s.shards {
		for {
			if _, whole := s.shards[i].sweep(); whole {
				break
			}
		}
	}
}
