package redisstore

// SetClock replaces the server's clock, in microseconds. There is no way to do
// so outside of tests: processes that share limits must share their clock.
func (s *Store) SetClock(clock func() int64) { s.clock = clock }
