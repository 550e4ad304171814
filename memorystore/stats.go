package memorystore

// Stats is how full a store is.
type Stats struct {
	// Subjects and Bytes are what is kept, counted as [Config] bounds it by MaxSubjects and
	// MaxBytes.
	Subjects, MaxSubjects int64
	Bytes, MaxBytes       int64
	// Evicted is how many subjects, counted likewise, were forgotten to make room since the store
	// was made, although they had not expired.
	Evicted int64
}

// Stats returns how full the store is. It takes no lock.
func (s *Store) Stats() Stats {
	return Stats{
		Subjects: s.subjects.Load(), MaxSubjects: s.bounds.subjects,
		Bytes: s.bytes.Load(), MaxBytes: s.bounds.bytes,
		Evicted: s.evicted.Load(),
	}
}
