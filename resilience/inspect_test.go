package resilience

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

// Inspect implements [driver.Inspector], if the store within is one.
func (f *flaky) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	inspector, ok := f.Store.(driver.Inspector)
	if !ok {
		return driver.Inspection{}, &stint.InvalidError{Err: errors.ErrUnsupported}
	}
	if err := f.do(ctx, "inspect", &f.inspects); err != nil {
		return driver.Inspection{}, err
	}
	return inspector.Inspect(ctx, c)
}

// Bans implements [driver.Inspector], if the store within is one.
func (f *flaky) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	inspector, ok := f.Store.(driver.Inspector)
	if !ok {
		return nil, &stint.InvalidError{Err: errors.ErrUnsupported}
	}
	if err := f.do(ctx, "bans", &f.inspects); err != nil {
		return nil, err
	}
	return inspector.Bans(ctx, n)
}

// Scopes implements [driver.Inspector], if the store within is one.
func (f *flaky) Scopes(ctx context.Context, subject string) ([]string, error) {
	inspector, ok := f.Store.(driver.Inspector)
	if !ok {
		return nil, &stint.InvalidError{Err: errors.ErrUnsupported}
	}
	if err := f.do(ctx, "scopes", &f.inspects); err != nil {
		return nil, err
	}
	return inspector.Scopes(ctx, subject)
}

// blind is a store that shows nothing.
type blind struct{ driver.BatchStore }

func TestStackShowsWhatItsStoreKnows(t *testing.T) {
	s := newStack(t, newFlaky(t), Config{Failure: patient})
	r := oneUnit("user:1")
	mustDecide(t, s, r)
	if err := s.Command(t.Context(),
		stint.Command{Kind: stint.CommandBan, Subject: "user:1", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	shown, err := s.Inspect(t.Context(), r.Claims[0])
	if err != nil || shown.Windows[0].Used != 1 || shown.Ban.Until.IsZero() {
		t.Errorf("shown %+v, %v; want 1 used, and a ban", shown, err)
	}
	if bans, err := s.Bans(t.Context(), 5); err != nil || len(bans) != 1 || bans[0].Subject != "user:1" {
		t.Errorf("bans %v, %v; want that of user:1", bans, err)
	}
	if scopes, err := s.Scopes(t.Context(), "user:1"); err != nil || len(scopes) != 1 ||
		scopes[0] != r.Claims[0].Scope {
		t.Errorf("scopes %q, %v; want %q", scopes, err, r.Claims[0].Scope)
	}
}

func TestStackOverAStoreThatShowsNothing(t *testing.T) {
	s := newStack(t, blind{newFlaky(t)}, Config{})
	if _, err := s.Inspect(t.Context(), oneUnit("a").Claims[0]); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("inspect: %v, want that it is unsupported", err)
	}
	if _, err := s.Bans(t.Context(), 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("bans: %v, want that it is unsupported", err)
	}
	if _, err := s.Scopes(t.Context(), "a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("scopes: %v, want that it is unsupported", err)
	}
	if got := s.Breaker(); got != "closed" {
		t.Errorf("breaker %v: it is nobody's failure", got)
	}
}

// A store that does not answer is given up on, and then not asked.
func TestLookingInsideEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		s := newStack(t, inner, Config{})
		inner.hang(true)
		for range 10 { // takes as long as it does where there is much, which says nothing
			if _, err := s.Bans(t.Context(), 1); errkind.Of(err) != errkind.Timeout {
				t.Fatalf("bans: %v, want a timeout", err)
			}
			if _, err := s.Scopes(t.Context(), "a"); errkind.Of(err) != errkind.Timeout {
				t.Fatalf("scopes: %v, want a timeout", err)
			}
		}
		if got := s.Breaker(); got != "closed" {
			t.Errorf("breaker %v after bans and scopes", got)
		}
		for range 5 {
			if _, err := s.Inspect(t.Context(), oneUnit("a").Claims[0]); errkind.Of(err) != errkind.Timeout {
				t.Fatalf("inspect: %v, want a timeout", err)
			}
		}
		_, inspect := s.Inspect(t.Context(), oneUnit("a").Claims[0])
		_, bans := s.Bans(t.Context(), 1)
		_, scopes := s.Scopes(t.Context(), "a")
		for op, err := range map[string]error{"inspect": inspect, "bans": bans, "scopes": scopes} {
			var failed *stint.StoreError
			if !errors.As(err, &failed) || !errors.Is(err, errBreakerOpen) || failed.Op != op {
				t.Errorf("%s: %v, want the breaker's refusal", op, err)
			}
		}
	})
}

// That a store can be read says nothing about whether it can charge: one that is full, or has
// become a replica, still shows what it knows.
func TestLookingInsideIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		b := newBreakerFor(t, inner, Config{})
		s := &Stack{breaker: b}
		look := func(want error) {
			t.Helper()
			if _, err := s.Inspect(t.Context(), oneUnit("a").Claims[0]); !errors.Is(err, want) {
				t.Errorf("inspect: %v, want %v", err, want)
			}
			if _, err := s.Bans(t.Context(), 1); !errors.Is(err, want) {
				t.Errorf("bans: %v, want %v", err, want)
			}
			if _, err := s.Scopes(t.Context(), "a"); !errors.Is(err, want) {
				t.Errorf("scopes: %v, want %v", err, want)
			}
		}
		inner.fail(&stint.StoreError{Op: "take", Kind: errkind.Full, Err: errDown}, "take")
		for range 5 {
			wantState(t, b, "closed")
			takes(b, 1)
			if b.state() == "closed" {
				look(nil)
			}
		}
		wantState(t, b, "open")
		look(errBreakerOpen)
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		wantState(t, b, "half-open") // it can be pinged,
		look(nil)                    // and looked at even if nobody ever charges,
		wantState(t, b, "half-open") // which is still to be tried
	})
}
