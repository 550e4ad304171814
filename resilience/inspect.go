package resilience

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
)

var (
	_ stint.Inspector = (*Stack)(nil)
	_ stint.Inspector = (*Breaker)(nil)
)

// scanTime is how long Bans and Scopes may take whose caller set no deadline: they look at everything that is stored.
const scanTime = 30 * time.Second

// opScopes is the operation of errors. Observers do not hear of it.
const opScopes = "scopes"

// Inspect shows what the store knows, if that is a [stint.Inspector]; else the error is [stint.ErrNotInspector]. What is
// decided in this process alone, without the store, is not shown, and units that it has leased are shown as used.
func (s *Stack) Inspect(ctx context.Context, c stint.Claim) (stint.Inspection, error) {
	limited := until(ctx, earlier(ctx, time.Now().Add(patience)))
	defer limited.release()
	shown, err := s.breaker.Inspect(limited, c)
	s.fallback.hear(err)
	return shown, err
}

// Bans lists the bans that the store knows of, if that is a [stint.Inspector]; else the error is
// [stint.ErrNotInspector].
func (s *Stack) Bans(ctx context.Context, n int) ([]stint.Banned, error) {
	limited := until(ctx, earlier(ctx, time.Now().Add(scanTime)))
	defer limited.release()
	return s.breaker.Bans(limited, n)
}

// Scopes lists the scopes in which the store counts something of a subject, if that is a [stint.Inspector]; else the error
// is [stint.ErrNotInspector]. What is decided in this process alone, without the store, is not among them.
func (s *Stack) Scopes(ctx context.Context, subject string) ([]string, error) {
	limited := until(ctx, earlier(ctx, time.Now().Add(scanTime)))
	defer limited.release()
	return s.breaker.Scopes(limited, subject)
}

// Inspect implements [stint.Inspector], if the store is one; else the error is [stint.ErrNotInspector]. Its failures count
// as those of other calls do. That it succeeds does not: a store that is full, or a replica by now, can be read all the same.
func (b *Breaker) Inspect(ctx context.Context, c stint.Claim) (stint.Inspection, error) {
	inspector, ok := b.inner.(stint.Inspector)
	if !ok {
		return stint.Inspection{}, &stint.InvalidError{Err: stint.ErrNotInspector}
	}
	g := entry{gate(b.gate.Load()), b.failures.Load()}
	if g.state() == gateOpen {
		return stint.Inspection{}, refused(opInspect)
	}
	begin := time.Now()
	shown, err := inspector.Inspect(ctx, c)
	if b.config.Observer != nil {
		b.config.Observer.StoreCalled(opInspect, 1, time.Since(begin), err)
	}
	if err != nil && g.state() == gateClosed {
		b.leave(g, err)
	}
	return shown, err
}

// Bans implements [stint.Inspector], if the store is one; else the error is [stint.ErrNotInspector]. It takes long where
// much is stored: that says nothing about decisions, and does not count.
func (b *Breaker) Bans(ctx context.Context, n int) ([]stint.Banned, error) {
	inspector, ok := b.inner.(stint.Inspector)
	if !ok {
		return nil, &stint.InvalidError{Err: stint.ErrNotInspector}
	}
	if b.State() == BreakerOpen {
		return nil, refused(opBans)
	}
	return inspector.Bans(ctx, n)
}

// Scopes implements [stint.Inspector], if the store is one; else the error is [stint.ErrNotInspector]. It does not count,
// as Bans does not.
func (b *Breaker) Scopes(ctx context.Context, subject string) ([]string, error) {
	inspector, ok := b.inner.(stint.Inspector)
	if !ok {
		return nil, &stint.InvalidError{Err: stint.ErrNotInspector}
	}
	if b.State() == BreakerOpen {
		return nil, refused(opScopes)
	}
	return inspector.Scopes(ctx, subject)
}
