package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// SetClock replaces the server's clock. There is no way to do so outside of tests: processes that
// share limits must share their clock.
func (s *Store) SetClock(clock func() time.Time) {
	for s.GiveBacks() > 0 { // which look at it in the background
		time.Sleep(time.Millisecond)
	}
	s.clock.fixed = func() int64 { return clock().UnixMicro() }
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

// Verbs calls each method of a store that is no batch, with so much time for each, and returns their
// errors by name.
func Verbs(ctx context.Context, s *Store, d time.Duration) map[string]error {
	claim := stint.Claim{Subject: "user:1", Cost: 1, Limits: []stint.Limit{stint.PerHour(1000)}}
	charge := driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 1, At: time.Now().UnixMicro()})
	errs := map[string]error{}
	for name, call := range map[string]func(context.Context) error{
		"take": func(ctx context.Context) error {
			_, err := s.Take(ctx, stint.Request{Claims: []stint.Claim{claim}})
			return err
		},
		"amend": func(ctx context.Context) error {
			_, err := s.Amend(ctx, charge, stint.Amendment{Kind: stint.AmendSettle})
			return err
		},
		"command": func(ctx context.Context) error {
			return s.Command(ctx, stint.Command{Kind: stint.CommandUnban, Subject: "user:1"})
		},
		"present": func(ctx context.Context) error {
			_, err := s.Present(ctx, driver.Presence{ID: "p"})
			return err
		},
		"inspect": func(ctx context.Context) error { _, err := s.Inspect(ctx, claim); return err },
		"bans":    func(ctx context.Context) error { _, err := s.Bans(ctx, 1); return err },
		"scopes":  func(ctx context.Context) error { _, err := s.Scopes(ctx, "user:1"); return err },
		"info":    func(ctx context.Context) error { _, err := s.Info(ctx); return err },
		"ping":    s.Ping,
	} {
		within, cancel := context.WithTimeout(ctx, d)
		errs[name] = call(within)
		cancel()
	}
	return errs
}
