package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/memorystore"
)

// remote is a store some way off: a call takes as long as its delay says, and notices the end of
// its context.
type remote struct {
	stint.Store
	mu      sync.Mutex
	delay   time.Duration
	deaf    bool // to contexts
	batches [][]string
	atOnce  int // calls
	most    int
}

func newRemote(t testing.TB, delay time.Duration) *remote {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &remote{Store: store, delay: delay}
}

func (s *remote) travel(ctx context.Context, subjects ...string) error {
	s.mu.Lock()
	s.batches = append(s.batches, subjects)
	s.atOnce++
	s.most = max(s.most, s.atOnce)
	delay, deaf := s.delay, s.deaf
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.atOnce--
		s.mu.Unlock()
	}()
	if deaf {
		ctx = context.Background()
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return &stint.StoreError{Op: "take", Kind: errkind.Timeout, Err: ctx.Err()}
	}
}

func (s *remote) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if err := s.travel(ctx, r.Claims[0].Subject); err != nil {
		return stint.Decision{}, err
	}
	return s.Store.Take(context.Background(), r)
}

func (s *remote) TakeBatch(ctx context.Context, batch []*driver.Call) {
	var subjects []string
	for _, c := range batch {
		subjects = append(subjects, c.Request.Claims[0].Subject)
	}
	err := s.travel(ctx, subjects...)
	for _, c := range batch {
		if c.Err = err; err == nil {
			c.Decision, c.Err = s.Store.Take(context.Background(), c.Request)
		}
	}
}

func (s *remote) sent() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches
}

// caller takes in the background; its answer is there once the group is done.
type caller struct {
	d    stint.Decision
	err  error
	took time.Duration
}

func call(group *sync.WaitGroup, s stint.Store, ctx context.Context, subject string) *caller {
	c := &caller{}
	group.Go(func() {
		start := time.Now()
		c.d, c.err = s.Take(ctx, oneUnit(subject))
		c.took = time.Since(start)
	})
	return c
}

func TestALoneCallerWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t, 5*time.Millisecond)
		b := newBatching(inner, Config{}.withDefaults())
		for range 3 {
			start := time.Now()
			if d, err := b.Take(t.Context(), oneUnit("a")); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			if took := time.Since(start); took != 5*time.Millisecond {
				t.Errorf("took %v; want the 5ms of the store", took)
			}
		}
		b.Close()
	})
}

func TestRequestsTravelTogetherInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t, 400*time.Microsecond) // back before anybody has waited for long
		b := newBatching(inner, Config{}.withDefaults())
		defer b.Close()
		var group sync.WaitGroup
		var callers []*caller
		for i := range 10 {
			callers = append(callers, call(&group, b, t.Context(), fmt.Sprint(i)))
			synctest.Wait()
		}
		group.Wait()
		for _, c := range callers {
			if c.err != nil || !c.d.Allowed {
				t.Errorf("%+v", c)
			}
		}
		if got := fmt.Sprint(inner.sent()); got != "[[0] [1] [2 3 4 5 6 7 8 9]]" {
			t.Errorf("sent %v", got)
		}
	})
}

// Ten milliseconds away, nobody is held up for longer than a tick by those before.
func TestASlowStoreHoldsUpNobody(t *testing.T) {
	for _, trip := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 13 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			inner := newRemote(t, trip)
			b := newBatching(inner, Config{}.withDefaults())
			defer b.Close()
			budget := newDeadlines(b, 15*time.Millisecond)
			var group sync.WaitGroup
			var callers []*caller
			for i := range 1000 {
				callers = append(callers, call(&group, budget, t.Context(), fmt.Sprint(i%7)))
				time.Sleep(time.Duration(i*7919%100) * time.Microsecond)
			}
			group.Wait()
			for i, c := range callers {
				if c.err != nil || c.took > trip+time.Millisecond {
					t.Errorf("trip %v, caller %d: %v after %v", trip, i, c.err, c.took)
				}
			}
		})
	}
}

func TestNeitherCanceledNorExpiredCallersSpoilOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t, 400*time.Microsecond)
		b := newBatching(inner, Config{}.withDefaults())
		defer b.Close()
		var group sync.WaitGroup
		call(&group, b, t.Context(), "first")
		call(&group, b, t.Context(), "second")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		canceled := call(&group, b, ctx, "canceled")
		short := newDeadlines(b, 200*time.Microsecond)
		expired := call(&group, short, t.Context(), "expired")
		well := call(&group, b, t.Context(), "well")
		synctest.Wait()
		cancel()
		group.Wait()
		if !errors.Is(canceled.err, context.Canceled) || canceled.took != 0 {
			t.Errorf("canceled: %+v", canceled)
		}
		if errkind.Of(expired.err) != errkind.Timeout || expired.took > time.Millisecond {
			t.Errorf("expired: %+v", expired)
		}
		if well.err != nil || !well.d.Allowed {
			t.Errorf("well: %+v", well)
		}
		for _, batch := range inner.sent() {
			for _, subject := range batch {
				if subject == "canceled" || subject == "expired" {
					t.Errorf("%s was sent", subject)
				}
			}
		}
	})
}

// A store that never answers, and does not even notice that its time is up, costs its callers their
// budget and no more, and does not pile anything up.
func TestASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t, 3*time.Second)
		inner.deaf = true
		b := newBatching(inner, Config{MaxWaiting: 100}.withDefaults())
		budget := newDeadlines(b, contract.DefaultBudget)
		var group sync.WaitGroup
		var callers []*caller
		// It has answered before, but that is a while ago.
		inner.delay = 0
		if _, err := b.Take(t.Context(), oneUnit("before")); err != nil {
			t.Fatal(err)
		}
		inner.delay = 3 * time.Second
		time.Sleep(time.Second)
		for i := range 5000 {
			callers = append(callers, call(&group, budget, t.Context(), fmt.Sprint(i)))
			time.Sleep(100 * time.Microsecond)
		}
		group.Wait()
		refused := 0
		for i, c := range callers {
			kind := errkind.Of(c.err)
			if kind == errkind.Refused {
				refused++
			}
			if c.took > 16*time.Millisecond || kind != errkind.Timeout && kind != errkind.Refused {
				t.Errorf("caller %d: %v after %v", i, c.err, c.took)
			}
		}
		if inner.most > 64+256 {
			t.Errorf("%d calls in flight; want at most 64, and 256 that are late", inner.most)
		}
		if refused == 0 {
			t.Error("nobody was refused; want at most 100 to wait")
		}
		b.Close()
	})
}

func TestBatchingAdmitsExactlyTheLimit(t *testing.T) {
	inner := newRemote(t, 50*time.Microsecond)
	b := newBatching(inner, Config{}.withDefaults())
	defer b.Close()
	var group sync.WaitGroup
	var mu sync.Mutex
	allowed := 0
	for range 100 {
		group.Go(func() {
			for range 20 {
				d, err := b.Take(t.Context(), oneUnit("a"))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if d.Allowed {
					allowed++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if allowed != 1000 {
		t.Errorf("%d of 2,000 were admitted under a limit of 1,000", allowed)
	}
}

// The deadline of a caller is its own, and no outage: the store decides all the same within the
// budget, and nobody is asked again without it.
func TestHurriedCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(newRemote(t, 3*time.Millisecond), Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		admitted := 0
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			d, err := s.Take(ctx, oneUnit("a", stint.PerHour(5)))
			if err != nil || d.Degraded {
				t.Errorf("in a hurry: degraded %v, %v", d.Degraded, err)
			}
			if d.Allowed {
				admitted++
			}
			cancel()
		}
		if admitted != 5 {
			t.Errorf("%d were admitted under a limit of 5", admitted)
		}
		ended, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		if _, err := s.Take(ended, oneUnit("b")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without any time: %v", err)
		}
	})
}

// forward is a store that answers calls one by one, the first at once and others later.
type forward struct{ *remote }

func (s forward) TakeBatch(ctx context.Context, batch []*driver.Call) {
	for i, c := range batch {
		if i > 0 {
			time.Sleep(5 * time.Millisecond)
		}
		c.Decision, c.Err = s.Store.Take(ctx, c.Request)
		c.Done()
	}
}

func TestAnEarlyAnswerDoesNotWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t, 400*time.Microsecond)
		b := newBatching(forward{inner}, Config{}.withDefaults())
		defer b.Close()
		if _, err := b.Take(t.Context(), oneUnit("warm")); err != nil {
			t.Fatal(err)
		}
		for range 3 { // waiters are used again
			var group sync.WaitGroup
			call(&group, b, t.Context(), "alone")
			call(&group, b, t.Context(), "alone too")
			synctest.Wait()
			first, second := call(&group, b, t.Context(), "first"), call(&group, b, t.Context(), "second")
			group.Wait()
			if first.err != nil || second.err != nil || first.took+second.took > 7*time.Millisecond {
				t.Errorf("%+v, %+v", first, second)
			}
		}
	})
}
