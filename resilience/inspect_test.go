package resilience

import (
	"context"
	"errors"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// looks are the ways to look inside a store.
func looks(s *Stack) map[string]func() error {
	ctx := context.Background()
	return map[string]func() error{
		"inspect": func() error { _, err := s.Inspect(ctx, oneUnit("a").Claims[0]); return err },
		"bans":    func() error { _, err := s.Bans(ctx, 1); return err },
		"scopes":  func() error { _, err := s.Scopes(ctx, "a"); return err },
	}
}

func TestStoreThatShowsNothing(t *testing.T) {
	s := newStack(t, bare{newFake(t)}, Config{BreakerFailures: 1})
	for op, look := range looks(s) {
		if err := look(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want that it is unsupported", op, err)
		}
	}
	if got := s.Breaker(); got != "closed" {
		t.Errorf("breaker %v: it is nobody's failure", got)
	}
}

// A store that does not answer is given up on. Looks may take long where there is much, which says
// nothing about the store. Once the breaker is open, it is not looked at.
func TestLookingInsideEnds(t *testing.T) {
	over(t, Config{}, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{silent: true})
		for _, op := range []string{"bans", "scopes", "inspect"} {
			wantState(t, s, "closed")
			for range 5 {
				if err := looks(s)[op](); errkind.Of(err) != stint.KindTimeout {
					t.Fatalf("%s: %v, want a timeout", op, err)
				}
			}
		}
		wantState(t, s, "closed")
		takes(s, 5)
		for op, look := range looks(s) {
			var failed *stint.StoreError
			if err := look(); !errors.As(err, &failed) || !errors.Is(err, errBreakerOpen) || failed.Op != op {
				t.Errorf("%s: %v, want the breaker's refusal", op, err)
			}
		}
	})
}

// TestLookingInsideIsNoSuccess checks that a store that can be read is not taken for one that can
// charge: one that is full, or has become a replica, still shows what it knows.
func TestLookingInsideIsNoSuccess(t *testing.T) {
	over(t, strict, func(t *testing.T, store *fake, s *Stack) {
		look := func(want error) {
			t.Helper()
			for op, look := range looks(s) {
				if err := look(); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", op, err, want)
				}
			}
		}
		store.fail(storeError(stint.KindFull), opTake)
		for range 5 {
			wantState(t, s, "closed")
			look(nil)
			takes(s, 1)
		}
		wantState(t, s, "open")
		look(errBreakerOpen)
		untilPinged()
		wantState(t, s, "half-open") // it can be pinged,
		look(nil)                    // and looked at even if nobody ever charges,
		wantState(t, s, "half-open") // which is still to be tried
	})
}
