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

// scanTime is how long what reads much of the store may take, unless the caller set a deadline.
const scanTime = 30 * time.Second

// look asks the store as a [driver.Inspector] or a [driver.Keeper], within some time; the error is
// [errors.ErrUnsupported] if it is none. What becomes of the call does not count in the breaker: it
// may take long where much is stored, and a store that is full or a replica can be read all the
// same.
func look[T any](ctx context.Context, s *Stack, op string, most time.Duration, f func(context.Context, T) error) error {
	store, ok := s.store.store.(T)
	if !ok {
		return &stint.InvalidError{Err: fmt.Errorf("the store does not support %s, want a %v: %w", op,
			reflect.TypeFor[T](), errors.ErrUnsupported)}
	}
	if err := s.store.refused(op); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return f(ctx, store)
}

// Inspect shows what the store knows, if that is a [driver.Inspector]; else the error is
// [errors.ErrUnsupported]. What is decided in this process alone, without the store, is not shown,
// and units that it has leased are shown as used.
func (s *Stack) Inspect(ctx context.Context, c stint.Claim) (shown driver.Inspection, err error) {
	err = look(ctx, s, opInspect, amendTime, func(ctx context.Context, from driver.Inspector) (err error) {
		begin := time.Now()
		shown, err = from.Inspect(ctx, c)
		observeCall(ctx, s.config.Observer, opInspect, 1, begin, err)
		return err
	})
	s.noteFailure(err, &c)
	return shown, err
}

// Bans lists the bans that the store knows of, if that is a [driver.Inspector].
func (s *Stack) Bans(ctx context.Context, n int) (bans []driver.Banned, err error) {
	err = look(ctx, s, "bans", scanTime, func(ctx context.Context, from driver.Inspector) (err error) {
		bans, err = from.Bans(ctx, n)
		return err
	})
	return bans, err
}

// Scopes lists the scopes in which the store counts something of a subject, if that is a
// [driver.Inspector]. What is decided in this process alone, without the store, is not among them.
func (s *Stack) Scopes(ctx context.Context, subject string) (scopes []string, err error) {
	err = look(ctx, s, "scopes", scanTime, func(ctx context.Context, from driver.Inspector) (err error) {
		scopes, err = from.Scopes(ctx, subject)
		return err
	})
	return scopes, err
}

// Keep writes to a table of the store, if that is a [driver.Keeper].
func (s *Stack) Keep(ctx context.Context, table string, rows []driver.Row, seen int64, missing bool) (
	version int64, err error) {
	err = look(ctx, s, "keep", scanTime, func(ctx context.Context, in driver.Keeper) (err error) {
		version, err = in.Keep(ctx, table, rows, seen, missing)
		return err
	})
	return version, err
}

// Kept reads a table of the store. See [Stack.Keep].
func (s *Stack) Kept(ctx context.Context, table string, since int64, f func(driver.Row)) (
	version int64, rows driver.Rows, err error) {
	err = look(ctx, s, "kept", scanTime, func(ctx context.Context, in driver.Keeper) (err error) {
		version, rows, err = in.Kept(ctx, table, since, f)
		return err
	})
	return version, rows, err
}

// StoredName is the store's, or the subject itself.
func (s *Stack) StoredName(subject string) string {
	if keeper, ok := s.store.store.(driver.Keeper); ok {
		return keeper.StoredName(subject)
	}
	return subject
}
