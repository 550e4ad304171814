package resilience

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

var _ driver.Inspector = (*Stack)(nil)

// scanTime is how long Bans and Scopes may take unless the caller set a deadline: they scan
// everything that is stored.
const scanTime = 30 * time.Second

// Inspect shows what the store knows, if that is a [driver.Inspector]; else the error is
// [errors.ErrUnsupported]. What is decided in this process alone, without the store, is not shown,
// and units that it has leased are shown as used.
func (s *Stack) Inspect(ctx context.Context, c stint.Claim) (shown driver.Inspection, err error) {
	inspector, err := s.inspector()
	if err != nil {
		return shown, err
	}
	ctx, cancel := context.WithTimeout(ctx, amendTime)
	defer cancel()
	shown, err = s.store.inspect(ctx, inspector, c)
	s.noteFailure(err, &c)
	return shown, err
}

// Bans lists the bans that the store knows of, if that is a [driver.Inspector]; else the error is
// [errors.ErrUnsupported].
func (s *Stack) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	inspector, err := s.scanner("bans")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	return inspector.Bans(ctx, n)
}

// Scopes lists the scopes in which the store counts something of a subject, if that is a
// [driver.Inspector]; else the error is [errors.ErrUnsupported]. What is decided in this process
// alone, without the store, is not among them.
func (s *Stack) Scopes(ctx context.Context, subject string) ([]string, error) {
	inspector, err := s.scanner("scopes")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	return inspector.Scopes(ctx, subject)
}

// inspector returns the store as an inspector, if it is one.
func (s *Stack) inspector() (driver.Inspector, error) {
	if inspector, ok := s.store.store.(driver.Inspector); ok {
		return inspector, nil
	}
	return nil, &stint.InvalidError{Err: fmt.Errorf("the store does not show what it knows, want a driver.Inspector: %w", errors.ErrUnsupported)}
}

// scanner returns the store as an inspector, if it is one and may be asked. What becomes of Bans
// and Scopes does not count: they take long where much is stored.
func (s *Stack) scanner(op string) (driver.Inspector, error) {
	inspector, err := s.inspector()
	if err == nil {
		err = s.store.refused(op)
	}
	return inspector, err
}

// inspect is Inspect of the store. Its failures count as those of other calls do. Its successes do
// not: a store that is full, or a replica by now, can be read all the same.
func (b *breaker) inspect(ctx context.Context, from driver.Inspector, c stint.Claim) (driver.Inspection, error) {
	var a attempt
	if err := b.refused(opInspect); err != nil {
		return driver.Inspection{}, err
	}
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
