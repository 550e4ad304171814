package resilience

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

var _ driver.Keeper = (*Stack)(nil)

// Keep writes to a table of the store, if that is a [driver.Keeper]; else the error is
// [errors.ErrUnsupported].
func (s *Stack) Keep(ctx context.Context, table string, rows []driver.Row, seen int64, missing bool) (int64, error) {
	keeper, err := s.keeper("keep")
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	return keeper.Keep(ctx, table, rows, seen, missing)
}

// Kept reads a table of the store. See [Stack.Keep].
func (s *Stack) Kept(ctx context.Context, table string, since int64, f func(driver.Row)) (int64, driver.Rows, error) {
	keeper, err := s.keeper("kept")
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

// keeper returns the store as a keeper, if it is one and may be asked.
func (s *Stack) keeper(op string) (driver.Keeper, error) {
	keeper, ok := s.store.store.(driver.Keeper)
	if !ok {
		return nil, &stint.InvalidError{Err: fmt.Errorf("the store keeps no tables, want a driver.Keeper: %w", errors.ErrUnsupported)}
	}
	return keeper, s.store.refused(op)
}
