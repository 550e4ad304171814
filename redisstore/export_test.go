package redisstore

import "time"

// SetClock replaces the server's clock. There is no way to do so outside of tests: processes that
// share limits must share their clock.
func (s *Store) SetClock(clock func() time.Time) {
	for s.GiveBacks() > 0 { // which look at it in the background
		time.Sleep(time.Millisecond)
	}
	s.clock = func() int64 { return clock().UnixMicro() }
}

// Settle makes the connections count as made, as they do after two calm seconds.
func (s *Store) Settle() { s.conn.get().(*connectingClient).changed.Store(-int64(time.Hour)) }

// GiveBacks is how many charges wait to be given back.
func (s *Store) GiveBacks() int { return s.backs.left() }

// Key is a key of a subject, in no scope.
func Key(s *Store, subject, what string) string {
	k, _ := s.newKeys()
	k.inScope(subject, "", what)
	return k.strings()[0]
}
