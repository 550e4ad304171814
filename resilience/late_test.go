package resilience

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

// distant is a store to which requests take some time, and answers too. It charges nothing after a
// call's deadline. It may lose answers.
type distant struct {
	*flaky
	mu sync.Mutex
	way
}

type way struct {
	there, back time.Duration
	loses       bool
}

func (s *distant) change(to way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = to
}

var errTooLate = errors.New("too late")

func (s *distant) TakeBatch(ctx context.Context, batch []*driver.Call) {
	s.mu.Lock()
	way := s.way
	s.mu.Unlock()
	done := make(chan struct{})
	answers := make([]driver.Call, len(batch))
	for i, c := range batch {
		answers[i] = *c
	}
	go func() {
		defer close(done)
		time.Sleep(way.there)
		for i, c := range answers {
			if !c.Deadline.IsZero() && time.Now().After(c.Deadline) {
				answers[i].Err = &stint.StoreError{Op: "take", Kind: errkind.Timeout, Err: errTooLate}
			} else {
				answers[i].Decision, answers[i].Err = s.Store.Take(context.Background(), c.Request)
			}
		}
		time.Sleep(way.back)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		for _, c := range batch {
			c.Err = &stint.StoreError{Op: "take", Kind: errkind.Timeout, Err: ctx.Err()}
		}
		return
	}
	for i, c := range batch {
		c.Decision, c.Err = answers[i].Decision, answers[i].Err
		if way.loses {
			c.Decision, c.Err = stint.Decision{}, unreachable()
		}
	}
}

func (s *distant) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	c := driver.Call{Request: r}
	c.Deadline, _ = ctx.Deadline()
	s.TakeBatch(ctx, []*driver.Call{&c})
	return c.Decision, c.Err
}

// A request that was sent and not answered in time is charged once if its caller was admitted, and
// not if it was denied.
func TestLateAnswers(t *testing.T) {
	const full = 4
	limit := stint.PerHour(full)
	for _, test := range []struct {
		name    string
		way     way
		mode    stint.FailureMode
		id      string
		used    int // by others, before
		allowed bool
		want    int64 // used in the end
	}{
		{name: "charged, allowed", way: way{there: time.Millisecond, back: 50 * time.Millisecond},
			allowed: true, want: 1},
		{name: "denied, allowed", way: way{there: time.Millisecond, back: 50 * time.Millisecond}, used: full,
			allowed: true, want: full + 1},
		{name: "too late, allowed", way: way{there: 50 * time.Millisecond}, allowed: true, want: 1},
		{name: "no answer, allowed", way: way{there: 50 * time.Millisecond, back: 2 * time.Second},
			allowed: true, want: 1},
		// one too much: nobody knows
		{name: "lost, allowed", way: way{back: 50 * time.Millisecond, loses: true}, allowed: true, want: 2},
		{name: "lost, allowed, with an ID", way: way{back: 50 * time.Millisecond, loses: true}, id: "x",
			allowed: true, want: 1},
		{name: "charged, denied", way: way{back: 50 * time.Millisecond}, mode: stint.FailDeny, want: 0},
		{name: "charged, error", way: way{back: 50 * time.Millisecond}, mode: stint.FailError, want: 0},
		{name: "denied, denied", way: way{back: 50 * time.Millisecond}, mode: stint.FailDeny, used: full, want: full},
		{name: "too late, denied", way: way{there: 50 * time.Millisecond}, mode: stint.FailDeny, want: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &distant{flaky: newFlaky(t), way: test.way}
				for range test.used {
					mustDecide(t, store.flaky, oneUnit("a", limit))
				}
				s := newStack(t, store, Config{Failure: stint.FailurePolicy{Mode: test.mode}, Instances: 1})
				r := oneUnit("a", limit)
				r.ID = test.id
				d, err := s.Take(t.Context(), r)
				if (err != nil) != (test.mode == stint.FailError) || d.Allowed != test.allowed ||
					err == nil && !d.Degraded {
					t.Fatalf("allowed %v, degraded %v, %v", d.Allowed, d.Degraded, err)
				}
				time.Sleep(5 * time.Millisecond)
				store.change(way{})
				time.Sleep(3 * time.Second)
				if got := usedOf(t, store.flaky, "a", limit); got != test.want {
					t.Errorf("the store has counted %d, want %d", got, test.want)
				}
				if state := s.Breaker(); state != "closed" {
					t.Errorf("the breaker is %v", state)
				}
			})
		})
	}
}

// Who gives up is not charged.
func TestLateAnswerToACanceledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{flaky: newFlaky(t), way: way{back: 10 * time.Millisecond}}
		s := newStack(t, store, Config{Instances: 1})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel)
		if _, err := s.Take(ctx, oneUnit("a")); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := usedOf(t, store.flaky, "a", oneUnit("a").Claims[0].Limits[0]); got != 0 {
			t.Errorf("the store has counted %d, want 0", got)
		}
	})
}

// What the store turns out to have charged is amended there, whether the caller settles before the
// answer comes or after.
func TestLateChargesAreAmended(t *testing.T) {
	limit := stint.PerHour(100)
	for name, pause := range map[string]time.Duration{"before": 0, "after": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &distant{flaky: newFlaky(t), way: way{back: 50 * time.Millisecond}}
				s := newStack(t, store, Config{Instances: 1})
				r := oneUnit("a", limit)
				r.Claims = append(r.Claims[:1:1], []stint.Claim{{Subject: "a",
					Limits: []stint.Limit{stint.PerDay(100).WithName("budget")}, Cost: 5}}...)
				whole := mustDecide(t, s, r)
				part := mustDecide(t, s, r)
				time.Sleep(pause)
				for _, settle := range []struct {
					charge stint.Charge
					cost   int64
				}{{whole.Charge, 0}, {part.Charge.Part(1), 20}} {
					if ok, err := s.Amend(t.Context(), settle.charge,
						stint.Amendment{Cost: settle.cost}); !ok.Changed ||
						err != nil {
						t.Fatalf("settled %v, %v", ok, err)
					}
				}
				time.Sleep(2 * time.Second)
				requests, budget := usedOf(
					t,
					store.flaky,
					"a",
					limit,
				), usedOf(
					t,
					store.flaky,
					"a",
					r.Claims[1].Limits[0],
				)
				if requests != 1 || budget != 20 {
					t.Errorf("the store has counted %d and %d, want 1 and 20", requests, budget)
				}
			})
		})
	}
}

// A place that the store turns out to have given is kept there by its holder's heartbeats.
func TestLatePlacesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := stint.AtOnce(2, time.Second)
		store := &distant{flaky: newFlaky(t), way: way{back: 50 * time.Millisecond}}
		s := newStack(t, store, Config{Instances: 1})
		d := mustDecide(t, s, oneUnit("a", limit))
		store.change(way{})
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			if ok, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendExtend}); !ok.Changed ||
				err != nil {
				t.Fatalf("extended %v, %v", ok, err)
			}
		}
		if got := usedOf(t, store.flaky, "a", limit); got != 1 {
			t.Errorf("the store has %d holders, want 1", got)
		}
		if ok, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendRelease}); !ok.Changed ||
			err != nil {
			t.Fatalf("released %v, %v", ok, err)
		}
		if got := usedOf(t, store.flaky, "a", limit); got != 0 {
			t.Errorf("the store has %d holders, want none", got)
		}
	})
}

// What a subject owes is charged before its next request is decided, in the same call.
func TestOwedUnitsGoAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{flaky: newFlaky(t)}
		s := newStack(t, store, Config{Instances: 1})
		r := oneUnit("a", stint.PerHour(3))
		mustDecide(t, s, r)
		store.change(way{there: 20 * time.Millisecond}) // too late for both
		for range 2 {
			if d := mustDecide(t, s, r); !d.Allowed || !d.Degraded {
				t.Fatalf("allowed %v, degraded %v", d.Allowed, d.Degraded)
			}
		}
		time.Sleep(10 * time.Millisecond) // both are known to be owed, and nothing has been charged in the background
		store.change(way{})
		if got := usedOf(t, store.flaky, "a", r.Claims[0].Limits[0]); got != 1 {
			t.Fatalf("the store has counted %d, want 1", got)
		}
		d := mustDecide(t, s, r)
		if d.Allowed || d.Degraded || d.Usages()[0].Used != 3 {
			t.Errorf(
				"allowed %v, degraded %v, used %d; want a denial by the store, 3 used",
				d.Allowed,
				d.Degraded,
				d.Usages()[0].Used,
			)
		}
	})
}

// A reset forgets what is owed, and nothing arrives after it.
func TestResetForgetsWhatIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{flaky: newFlaky(t), way: way{there: 20 * time.Millisecond}}
		s := newStack(t, store, Config{Instances: 1})
		r := oneUnit("a", stint.PerHour(3))
		for range 3 {
			mustDecide(t, s, r)
		}
		for _, pause := range []time.Duration{0, 120 * time.Millisecond} { // at once, and while it is being charged
			time.Sleep(pause)
			if err := s.Command(t.Context(),
				stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		if got := usedOf(t, store.flaky, "a", r.Claims[0].Limits[0]); got != 0 {
			t.Errorf("the store has counted %d after the reset, want 0", got)
		}
	})
}

// Of several processes, one that has used much of a limit still gets its part of the rest.
func TestFallbackSharesWhatIsLeft(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{Instances: 10})
	r := oneUnit("a", stint.PerDay(1000))
	admitted(t, f, 200, r)
	inner.fail(refusedCall())
	if got := admitted(t, f, 200, r); got != 80 {
		t.Errorf("%d more, want 80", got)
	}
}
