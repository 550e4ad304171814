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

// storeAs returns the store as a [driver.Inspector] or a [driver.Keeper], if it is one and may be
// asked; else the error is [errors.ErrUnsupported], or why it may not be asked. What becomes of
// calls that take long where much is stored does not count.
func storeAs[T any](s *Stack, op string) (T, error) {
	store, ok := s.store.store.(T)
	if !ok {
		return store, &stint.InvalidError{Err: fmt.Errorf("the store does not support %s, want a %v: %w", op,
			reflect.TypeFor[T](), errors.ErrUnsupported)}
	}
	return store, s.store.refused(op)
}

// Inspect shows what the store knows, if that is a [driver.Inspector]; else the error is
// [errors.ErrUnsupported]. What is decided in this process alone, without the store, is not shown,
// and units that it has leased are shown as used.
func (s *Stack) Inspect(ctx context.Context, c stint.Claim) (shown driver.Inspection, err error) {
	inspector, err := storeAs[driver.Inspector](s, opInspect)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, amendTime)
		defer cancel()
		shown, err = s.store.inspect(ctx, inspector, c)
	}
	s.noteFailure(err, &c)
	return shown, err
}

// inspect is Inspect of the store. Its failures count as those of other calls do. Its successes do
// not: a store that is full, or a replica by now, can be read all the same.
func (b *breaker) inspect(ctx context.Context, from driver.Inspector, c stint.Claim) (driver.Inspection, error) {
	var a attempt
	b.mu.Lock()
	b.begin(&a, opInspect, 1)
	b.mu.Unlock()
	shown, err := from.Inspect(ctx, c)
	if err == nil {
		observeCall(ctx, b.config.Observer, opInspect, 1, a.begin, nil)
	} else {
		b.leave(ctx, &a, err)
	}
	return shown, err
}

// Bans lists the bans that the store knows of, if that is a [driver.Inspector].
func (s *Stack) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	inspector, err := storeAs[driver.Inspector](s, "bans")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	return inspector.Bans(ctx, n)
}

// Scopes lists the scopes in which the store counts something of a subject, if that is a
// [driver.Inspector]. What is decided in this process alone, without the store, is not among them.
func (s *Stack) Scopes(ctx context.Context, subject string) ([]string, error) {
	inspector, err := storeAs[driver.Inspector](s, "scopes")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	return inspector.Scopes(ctx, subject)
}

// Keep writes to a table of the store, if that is a [driver.Keeper].
func (s *Stack) Keep(ctx context.Context, table string, rows []driver.Row, seen int64, missing bool) (int64, error) {
	keeper, err := storeAs[driver.Keeper](s, "keep")
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	return keeper.Keep(ctx, table, rows, seen, missing)
}

// Kept reads a table of the store. See [Stack.Keep].
func (s *Stack) Kept(ctx context.Context, table string, since int64, f func(driver.Row)) (int64, driver.Rows, error) {
	keeper, err := storeAs[driver.Keeper](s, "kept")
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	return keeper.Kept(ctx, table, since, f)
}

// StoredName is the store's, or the subject itself.
func (s *Stack) StoredName(subject string) string {
	if keeper, ok := s.store.store.(driver.Keeper); ok {
		return keeper.StoredName(subject)
	}
	return subject
}
