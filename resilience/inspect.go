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

// opScopes is the operation of errors. It is not observed.
const opScopes = "scopes"

// Inspect shows what the store knows, if that is a [driver.Inspector]; else the error is
// [errors.ErrUnsupported]. What is decided in this process alone, without the store, is not shown,
// and units that it has leased are shown as used.
func (s *Stack) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	limited := until(ctx, earlier(ctx, time.Now().Add(amendTime)))
	defer limited.release()
	shown, err := s.breaker.inspect(limited, c)
	if s.fallback != nil {
		s.fallback.noteFailure(err, &c)
	}
	return shown, err
}

// Bans lists the bans that the store knows of, if that is a [driver.Inspector]; else the error is
// [errors.ErrUnsupported].
func (s *Stack) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	inspector, err := s.breaker.inspector(opBans)
	if err != nil {
		return nil, err
	}
	limited := until(ctx, earlier(ctx, time.Now().Add(scanTime)))
	defer limited.release()
	return inspector.Bans(limited, n)
}

// Scopes lists the scopes in which the store counts something of a subject, if that is a
// [driver.Inspector]; else the error is [errors.ErrUnsupported]. What is decided in this process
// alone, without the store, is not among them.
func (s *Stack) Scopes(ctx context.Context, subject string) ([]string, error) {
	inspector, err := s.breaker.inspector(opScopes)
	if err != nil {
		return nil, err
	}
	limited := until(ctx, earlier(ctx, time.Now().Add(scanTime)))
	defer limited.release()
	return inspector.Scopes(limited, subject)
}

// inspector returns the store as an inspector, if it is one and may be asked. What becomes of Bans
// and Scopes does not count: they take long where much is stored.
func (b *breaker) inspector(op string) (driver.Inspector, error) {
	inspector, ok := b.inner.(driver.Inspector)
	if !ok {
		return nil, &stint.InvalidError{Err: fmt.Errorf("the store does not show what it knows, want a driver.Inspector: %w", errors.ErrUnsupported)}
	}
	if gate(b.gate.Load()).state() == gateOpen {
		return nil, b.refused(op)
	}
	return inspector, nil
}

// inspect is Inspect of the store. Its failures count as those of other calls do. Its successes do
// not: a store that is full, or a replica by now, can be read all the same.
func (b *breaker) inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	g := admission{gate(b.gate.Load()), b.failures.Load()}
	inspector, err := b.inspector(opInspect)
	if err != nil {
		return driver.Inspection{}, err
	}
	begin := time.Now()
	shown, err := inspector.Inspect(ctx, c)
	observeCall(ctx, b.config.Observer, opInspect, 1, begin, err)
	if err != nil && g.state() == gateClosed {
		b.leave(g, err)
	}
	return shown, err
}
