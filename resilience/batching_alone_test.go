package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
)

// alone tells the calls that callers make themselves from those of batches.
type alone struct {
	*remote
	mu    sync.Mutex
	calls int // that callers made themselves
	fail  error
	panic bool
}

func (s *alone) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	if s.panic {
		panic("the store is broken")
	}
	if s.fail != nil {
		return stint.Decision{}, s.fail
	}
	return s.remote.Take(ctx, r)
}

func (s *alone) TakeBatch(ctx context.Context, batch []*driver.Call) { s.remote.TakeBatch(ctx, batch) }

// own is how many calls callers made themselves since it was last asked.
func (s *alone) own() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls
	s.calls = 0
	return n
}

// newAlone returns a batching layer over a store that has been quick so far.
func newAlone(t *testing.T, delay time.Duration) (*alone, *batching, *deadlines) {
	inner := &alone{remote: newRemote(t, 0)}
	b := newBatching(inner, Config{}.withDefaults())
	d := newDeadlines(b, contract.DefaultBudget)
	for range quickCalls {
		mustTake(t, d, t.Context())
	}
	if n := inner.own(); n != 0 {
		t.Fatalf("%d callers asked a store themselves of which little is known", n)
	}
	synctest.Wait()
	inner.delay = delay
	return inner, b, d
}

func mustTake(t *testing.T, s stint.Store, ctx context.Context) {
	t.Helper()
	synctest.Wait() // until the call before has ended
	if d, err := s.Take(ctx, oneUnit("a")); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
}

// Who finds no call in flight makes one itself. Those who come meanwhile do not wait for it.
func TestALoneCallerAsksItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, b, d := newAlone(t, time.Millisecond)
		defer b.Close()
		for range 3 {
			mustTake(t, d, t.Context())
		}
		if n := inner.own(); n != 3 {
			t.Errorf("%d of 3 lone callers asked the store themselves", n)
		}
		before := len(inner.sent())
		var group sync.WaitGroup
		var callers []*caller
		for i := range 8 {
			callers = append(callers, call(&group, d, t.Context(), fmt.Sprint(i)))
			synctest.Wait()
		}
		group.Wait()
		for i, c := range callers {
			if c.err != nil || !c.d.Allowed || c.took > 2*time.Millisecond {
				t.Errorf("caller %d: %+v", i, c)
			}
		}
		if n, got := inner.own(), fmt.Sprint(inner.sent()[before:]); n != 1 || got != "[[0] [1] [2 3 4 5 6 7]]" {
			t.Errorf("%d asked themselves; sent %v", n, got)
		}
	})
}

// Whoever cannot give up in time lets others ask.
func TestWhoDoesNotAskItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, b, d := newAlone(t, time.Millisecond)
		defer b.Close()
		mustTake(t, b, t.Context()) // no deadline
		// so long that a canceled caller would be stuck
		mustTake(t, newDeadlines(b, time.Second), t.Context())
		if err := d.askAfter(t.Context(), &question{request: oneUnit("a"), asked: time.Now()}, // something is owed
			[]*owedCall{newOwedCall(t)}); err != nil {
			t.Fatal(err)
		}
		place, reserve, lease := oneUnit("p", stint.AtOnce(5, time.Minute)), oneUnit("a"), oneUnit("l")
		reserve.Mode, lease.Terms().Lease = stint.ModeReserve, 50*time.Millisecond
		for _, r := range []stint.Request{place, reserve, lease} { // nobody could give these back
			synctest.Wait()
			if _, err := d.Take(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		stalled := &question{request: oneUnit("a"), asked: time.Now().Add(-contract.DefaultBudget / 2)}
		if err := d.ask(t.Context(), stalled); err != nil { // this process was slow, not the store
			t.Fatal(err)
		}
		if n := inner.own(); n != 0 {
			t.Errorf("%d asked the store themselves", n)
		}
	})
}

// A store that does not answer a batch in time is not quick any more, whatever else it answers.
func TestALoneCallerDoesNotAskASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, b, d := newAlone(t, time.Millisecond)
		var group sync.WaitGroup
		call(&group, d, t.Context(), "itself")
		synctest.Wait()
		inner.remote.mu.Lock()
		inner.delay = time.Minute
		inner.remote.mu.Unlock()
		call(&group, d, t.Context(), "in a batch")
		group.Wait()
		time.Sleep(2 * contract.DefaultBudget) // it is overdue
		inner.own()
		call(&group, d, t.Context(), "later")
		group.Wait()
		if n := inner.own(); n != 0 {
			t.Error("a caller asked a silent store itself")
		}
		b.Close()
	})
}

// A store that becomes slow or fails costs a caller its budget, and from then on calls are followed
// beyond the time of their callers.
func TestALoneCallerDoesNotAskASlowStore(t *testing.T) {
	for what, spoil := range map[string]func(*alone){
		"slow":   func(s *alone) { s.delay = contract.DefaultBudget / 3 },
		"silent": func(s *alone) { s.delay = time.Minute },
		"fails":  func(s *alone) { s.fail = &stint.StoreError{Op: "take", Kind: errkind.Other, Err: errors.New("no")} },
	} {
		synctest.Test(t, func(t *testing.T) {
			inner, b, d := newAlone(t, time.Millisecond)
			spoil(inner)
			start := time.Now()
			_, err := d.Take(t.Context(), oneUnit("a"))
			if (err == nil) != (what == "slow") {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(start); took > contract.DefaultBudget {
				t.Errorf("%s: took %v", what, took)
			}
			if n := inner.own(); n != 1 {
				t.Errorf("%s: %d asked themselves, want the first", what, n)
			}
			inner.delay, inner.fail = time.Millisecond, nil
			for range quickCalls {
				mustTake(t, d, t.Context())
			}
			if n := inner.own(); n != 0 {
				t.Errorf("%s: %d asked themselves, want none before the store has proved quick again", what, n)
			}
			mustTake(t, d, t.Context())
			if n := inner.own(); n != 1 {
				t.Errorf("%s: %d asked themselves when the store was quick again", what, n)
			}
			b.Close()
		})
	}
}

// A panic reaches its caller, and is not the end of batching.
func TestAStoreThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, b, d := newAlone(t, time.Millisecond)
		inner.panic = true
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was lost")
				}
			}()
			_, _ = d.Take(t.Context(), oneUnit("a"))
		}()
		for range quickCalls {
			mustTake(t, d, t.Context())
		}
		b.Close()
		if b.inFlight != 0 || b.resting != 0 {
			t.Errorf("%d in flight, %d resting", b.inFlight, b.resting)
		}
	})
}

// Close waits for callers that ask themselves.
func TestCloseWaitsForALoneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, d := newAlone(t, 10*time.Millisecond)
		var group sync.WaitGroup
		c := call(&group, d, t.Context(), "a")
		synctest.Wait()
		start := time.Now()
		b.Close()
		if took := time.Since(start); took != 10*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		group.Wait()
		if c.err != nil {
			t.Error(c.err)
		}
	})
}

// newOwedCall returns a call that charges something.
func newOwedCall(t *testing.T) *owedCall {
	l, r := newTestLedger(t, 1), oneUnit("b")
	if _, _, err := l.decide(&r, false); err != nil {
		t.Fatal(err)
	}
	return l.carry(&r)[0]
}
