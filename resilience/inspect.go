package resilience

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

var (
	_ driver.Inspector = (*Stack)(nil)
	_ driver.Keeper    = (*Stack)(nil)
)

// scanTime is the time limit of calls that may read much of the store, unless the caller set an
// earlier deadline.
const scanTime = 30 * time.Second

// look calls f with the store, converted to T, and returns the result. T is [driver.Inspector] or
// [driver.Keeper]; if the store is not a T, the error is [errors.ErrUnsupported]. most is the time
// limit of the call. The breaker does not count the outcome of the call: a call may take long if
// much is stored, and a store that is full, or that is a replica, can still be read.
func look[T, R any](ctx context.Context, s *Stack, op string, most time.Duration,
	f func(context.Context, T) (R, error)) (result R, err error) {
	store, ok := s.store.store.(T)
	if !ok {
		return result, &stint.InvalidError{Err: fmt.Errorf("the store does not support %s; want a %v: %w", op,
			reflect.TypeFor[T](), errors.ErrUnsupported)}
	}
	if err := s.store.refused(op); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return f(ctx, store)
}

// Inspect shows what the store knows about a claim, if the store is a [driver.Inspector]; otherwise
// the error is [errors.ErrUnsupported]. Decisions that this process made without the store are not
// shown. Units that it has leased are shown as used.
func (s *Stack) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	shown, err := look(ctx, s, opInspect, amendTime,
		func(ctx context.Context, from driver.Inspector) (shown driver.Inspection, err error) {
			begin := time.Now()
			shown, err = from.Inspect(ctx, c)
			observeCall(ctx, s.config.Observer, opInspect, 1, begin, err)
			return shown, err
		})
	s.noteFailure(err, &c)
	return shown, err
}

// Bans lists at most n bans in the store, if the store is a [driver.Inspector].
func (s *Stack) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	return look(ctx, s, "bans", scanTime,
		func(ctx context.Context, from driver.Inspector) ([]driver.Banned, error) { return from.Bans(ctx, n) })
}

// Scopes lists the scopes in which the store counts something for a subject, if the store is a
// [driver.Inspector]. Scopes in which all decisions were made without the store are not listed.
func (s *Stack) Scopes(ctx context.Context, subject string) ([]string, error) {
	return look(ctx, s, "scopes", scanTime,
		func(ctx context.Context, from driver.Inspector) ([]string, error) { return from.Scopes(ctx, subject) })
}

// Keep writes to a table of the store, if the store is a [driver.Keeper].
func (s *Stack) Keep(ctx context.Context, table string, rows []driver.Row, seen int64, missing bool) (
	version int64, err error) {
	return look(ctx, s, "keep", scanTime, func(ctx context.Context, in driver.Keeper) (int64, error) {
		return in.Keep(ctx, table, rows, seen, missing)
	})
}

// Kept reads a table of the store. See [Stack.Keep].
func (s *Stack) Kept(ctx context.Context, table string, since int64, f func(driver.Row)) (
	version int64, rows driver.Rows, err error) {
	version, err = look(ctx, s, "kept", scanTime, func(ctx context.Context, in driver.Keeper) (n int64, err error) {
		n, rows, err = in.Kept(ctx, table, since, f)
		return n, err
	})
	return version, rows, err
}

// StoredName returns the store's name for a subject, or the subject itself if the store is not a
// [driver.Keeper].
func (s *Stack) StoredName(subject string) string {
	if keeper, ok := s.store.store.(driver.Keeper); ok {
		return keeper.StoredName(subject)
	}
	return subject
}
