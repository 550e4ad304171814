package resilience

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// contexts is a store that shows the context of each call to a test.
type contexts struct {
	stint.Store
	see func(context.Context)
}

func (s contexts) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	s.see(ctx)
	return stint.Decision{}, nil
}

func (s contexts) Amend(ctx context.Context, _ stint.Charge, _ stint.Amendment) (stint.Amended, error) {
	s.see(ctx)
	return stint.Amended{}, nil
}

func (s contexts) Command(ctx context.Context, _ stint.Command) error {
	s.see(ctx)
	return nil
}

func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := func(ctx context.Context, budget time.Duration, do func(context.Context, stint.Store)) (
			left time.Duration) {
			do(ctx, newDeadlines(bottom{contexts{see: func(ctx context.Context) {
				deadline, ok := ctx.Deadline()
				if !ok {
					t.Error("no deadline")
				}
				left = time.Until(deadline)
			}}}, budget))
			return left
		}
		take := func(r stint.Request) func(context.Context, stint.Store) {
			return func(ctx context.Context, s stint.Store) { _, _ = s.Take(ctx, r) }
		}
		own, leased := oneUnit("a"), oneUnit("a")
		own.Failure = &stint.FailurePolicy{Budget: 3 * time.Millisecond}
		leased.Terms().Lease = time.Second
		hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for name, test := range map[string]struct{ got, want time.Duration }{
			"default":     {left(t.Context(), contract.DefaultBudget, take(oneUnit("a"))), 15 * time.Millisecond},
			"configured":  {left(t.Context(), 50*time.Millisecond, take(oneUnit("a"))), 50 * time.Millisecond},
			"the request": {left(t.Context(), 50*time.Millisecond, take(own)), 3 * time.Millisecond},
			"the caller":  {left(hurried, contract.DefaultBudget, take(own)), 3 * time.Millisecond},
			"a lease":     {left(t.Context(), contract.DefaultBudget, take(leased)), 500 * time.Millisecond},
			"amend": {left(t.Context(), 0, func(ctx context.Context, s stint.Store) {
				_, _ = s.Amend(ctx, stint.Charge{}, stint.Amendment{})
			}), time.Second},
			"command": {left(t.Context(), 0, func(ctx context.Context, s stint.Store) {
				_ = s.Command(ctx, stint.Command{})
			}), time.Second},
		} {
			if test.got != test.want {
				t.Errorf("%s: %v left, want %v", name, test.got, test.want)
			}
		}
	})
}

// The context that a budget makes is one like any other, though it has no timer at first.
func TestABudgetIsAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func(parent context.Context, f func(ctx context.Context)) {
			_, _ = newDeadlines(bottom{contexts{see: f}}, contract.DefaultBudget).Take(parent, oneUnit("a"))
		}
		with(t.Context(), func(ctx context.Context) {
			if ctx.Err() != nil {
				t.Errorf("at first: %v", ctx.Err())
			}
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("after its time: %v", ctx.Err())
			}
		})
		with(t.Context(), func(ctx context.Context) {
			time.Sleep(15 * time.Millisecond)
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // though nobody asked for Done
				t.Errorf("after its time: %v", ctx.Err())
			}
		})
		parent, cancel := context.WithCancel(t.Context())
		with(parent, func(ctx context.Context) {
			cancel()
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("after its parent: %v", ctx.Err())
			}
		})
		var early, late, never context.Context
		with(t.Context(), func(ctx context.Context) {
			var stop context.CancelFunc
			early, stop = context.WithCancel(ctx)
			t.Cleanup(stop)
		})
		with(t.Context(), func(ctx context.Context) { late = ctx })
		with(t.Context(), func(ctx context.Context) { never = ctx })
		<-early.Done()
		<-late.Done()
		if early.Err() == nil || late.Err() == nil {
			t.Errorf("after the call: %v, %v", early.Err(), late.Err())
		}
		time.Sleep(time.Second)
		if never.Err() == nil {
			t.Error("a context without an end")
		}
	})
}

// A deadline of the wall clock alone is compared by what is left of it, however the wall clock was
// set since the other was made.
func TestEarlierDeadline(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name     string
		own      time.Time
		deadline time.Time
		want     bool // the context's own
	}{
		{"sooner", now.Add(time.Second), now.Add(time.Minute), true},
		{"later", now.Add(time.Minute), now.Add(time.Second), false},
		{"of the wall clock, sooner", now.Add(time.Second).Round(0), now.Add(time.Minute), true},
		{"of the wall clock, later", now.Add(time.Minute).Round(0), now.Add(time.Second), false},
	} {
		ctx, cancel := context.WithDeadline(t.Context(), test.own)
		if got := earlier(ctx, test.deadline); got != test.own == test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
		cancel()
	}
}
