package redisstore

import (
	"context"
	"errors"
	"time"
)

// SetClock replaces the server's clock. There is no way to do so outside of tests: processes that
// share limits must share their clock.
func (s *Store) SetClock(clock func() time.Time) {
	for s.GiveBacks() > 0 { // which look at it in the background
		time.Sleep(time.Millisecond)
	}
	s.clock = func() int64 { return clock().UnixMicro() }
}

// OpenNow is Open that fails unless the store can be used. An attempt to connect that takes too
// long is followed by others: a busy machine is no mistake.
func OpenNow(ctx context.Context, c Config) (*Store, error) {
	s, err := Open(ctx, c)
	if err != nil {
		return nil, err
	}
	for range 300 {
		if err = s.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// GiveBacks is how many charges wait to be given back.
func (s *Store) GiveBacks() int { return int(s.backs.waiting.Load()) }

// idStep: the ends of request ids are multiples of it, in microseconds; see lua/ids.lua.
const idStep = 16

// Key is a key of a subject, in no scope.
func Key(s *Store, subject, what string) string {
	c, _ := s.newCall(nil, 0)
	return string(c.beginKey(nil, subject, "")) + what
}

// Ready is closed when the first attempt to connect has ended.
func (s *Store) Ready() <-chan struct{} { return s.conn.ready }
