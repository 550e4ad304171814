package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/logtest"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

// logbook is a logger and what it was told.
type logbook struct{ logtest.Buffer }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count is how many lines there are of a level, with a text in them.
func (l *logbook) count(level slog.Level, text string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "level="+level.String()) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// observerFunc is an observer that does not care for contexts.
type observerFunc func(event any)

func (f observerFunc) Observe(_ context.Context, event any) { f(event) }

// ignore is an observer that does nothing.
var ignore = observerFunc(func(any) {})

// witness is an observer that writes down calls to the store, changes and fallbacks.
type witness struct {
	mu    sync.Mutex
	heard []string
}

func (w *witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, fmt.Sprintf(format, args...))
}

func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard := w.heard
	w.heard = nil
	return heard
}

func (w *witness) Observe(_ context.Context, event any) {
	switch e := event.(type) {
	case *StoreCall:
		w.note("%s %d %v", e.Op, e.Requests, e.Err != nil)
	case *BreakerChange:
		w.note("%v to %v", e.From, e.To)
	case *Decided:
		if e.Source == sourceFallback {
			w.note("%s fell back: %v, %v", e.Request.Claims[0].Subject, e.Mode, errkind.Of(e.Cause))
		}
	}
}

func (w *witness) want(t *testing.T, want ...string) {
	t.Helper()
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// oneUnit is one unit for a subject, under 1000 an hour unless told otherwise.
func oneUnit(subject string, limits ...stint.Limit) stint.Request {
	if len(limits) == 0 {
		limits = []stint.Limit{stint.PerHour(1000)}
	}
	return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: 1}}}
}

func batchOf(n int) []*driver.Call {
	batch := make([]*driver.Call, n)
	for i := range batch {
		batch[i] = &driver.Call{Request: oneUnit(fmt.Sprint(i))}
	}
	return batch
}

func newBreakerFor(t *testing.T, inner driver.BatchStore, c Config) *breaker {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	b := newBreaker(inner, c.withDefaults())
	t.Cleanup(func() { b.Close() })
	return b
}

// takes makes n calls and returns how many of them were refused.
func takes(b stint.Store, n int) (refused int) {
	for range n {
		if _, err := b.Take(context.Background(), oneUnit("a")); errors.Is(err, errBreakerOpen) {
			refused++
		}
	}
	return refused
}

func wantState(t *testing.T, b *breaker, want string) {
	t.Helper()
	if got := b.state(); got != want {
		t.Fatalf("the breaker is %v, want %v", got, want)
	}
}

// trivial answers at once, without allocating.
type trivial struct{ driver.BatchStore }

func (trivial) Take(_ context.Context, r stint.Request) (d stint.Decision, err error) {
	d.Allowed = true
	d.Charge.Claims()[0] = r.Claims[0]
	d.MakeUsages(len(r.Claims[0].Limits))[0] = stint.Usage{Used: 1, ResetAfter: time.Minute}
	return d, nil
}

// oneByOne is a store as one that decides batches.
type oneByOne struct{ stint.Store }

func (s oneByOne) TakeBatch(ctx context.Context, batch []*driver.Call) {
	failure := stint.FailurePolicy{Mode: stint.FailError, Budget: sendTime}
	for _, c := range batch {
		c.Request.Failure = &failure
		c.Decision, c.Err = s.Take(ctx, c.Request)
	}
}

func newFallbackFor(t testing.TB, inner stint.Store, c Config) *fallback {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	f, err := newFallback(bottom{inner}, oneByOne{inner}, c.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if store, ok := inner.(*flaky); ok {
			store.up() // else Close tries for a second to charge it
		}
		f.Close()
	})
	return f
}

// mustDecide takes and fails on an error.
func mustDecide(t *testing.T, s stint.Store, r stint.Request) stint.Decision {
	t.Helper()
	d, err := s.Take(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// admitted is how many of n requests are allowed.
func admitted(t *testing.T, s stint.Store, n int, r stint.Request) (count int) {
	t.Helper()
	for range n {
		if mustDecide(t, s, r).Allowed {
			count++
		}
	}
	return count
}

// usedOf is what a store counts of a limit.
func usedOf(t *testing.T, s stint.Store, subject string, l stint.Limit) int64 {
	t.Helper()
	r := oneUnit(subject, l)
	r.Mode = stint.ModePeek
	d := mustDecide(t, s, r)
	return d.Usages()[0].Used
}

// denyRig is a deny cache over a memory store, on one clock that is moved by hand, with what a
// network would do in between.
type denyRig struct {
	testing.TB
	clock *storetest.Clock
	store *memorystore.Store // as others see it, past the cache
	cache *denyCache
	calls atomic.Int64 // takes that reached the store

	before, after func()                        // around every take of the store
	change        func(*stint.Decision, *error) // of its answer
	amend         func() (stint.Amended, error) // its answer to an amendment
}

func newDenyRig(t testing.TB, c Config) *denyRig {
	g := &denyRig{TB: t, clock: &storetest.Clock{}}
	var err error
	if g.store, err = memorystore.New(memorystore.Config{Now: g.clock.Now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.store.Close() })
	g.cache = newDenyCache(bottom{g}, c.withDefaults())
	follow(g.cache, g.clock)
	return g
}

// follow lets the cache's time pass with the clock. It is a clock that does not step back, whatever
// that of the store does.
func follow(c *denyCache, clock *storetest.Clock) {
	var passed atomic.Int64
	clock.OnAdvance = func(d time.Duration) { passed.Add(int64(max(d, 0))) }
	c.clock = func() time.Duration { return time.Duration(passed.Load()) }
}

// Take, Amend and Command are those of the store, as the cache reaches it.
func (g *denyRig) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	g.calls.Add(1)
	if g.before != nil {
		g.before()
	}
	d, err := g.store.Take(ctx, r)
	if g.after != nil {
		g.after()
	}
	if g.change != nil {
		g.change(&d, &err)
	}
	return d, err
}

func (g *denyRig) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	changed, err := g.store.Amend(ctx, c, a)
	if g.amend != nil {
		return g.amend()
	}
	return changed, err
}

func (g *denyRig) Command(ctx context.Context, c stint.Command) error { return g.store.Command(ctx, c) }

func (g *denyRig) take(r stint.Request) stint.Decision {
	g.Helper()
	d, err := g.cache.Take(context.Background(), r)
	if err != nil {
		g.Fatalf("take: %v", err)
	}
	return d
}

// want takes through the cache and checks the answer and whether the store was asked.
func (g *denyRig) want(r stint.Request, allowed, asked bool) stint.Decision {
	g.Helper()
	calls := g.calls.Load()
	d := g.take(r)
	if got := g.calls.Load() != calls; d.Allowed != allowed || got != asked {
		g.Fatalf("allowed is %v, want %v; the store was asked: %v, want %v", d.Allowed, allowed, got, asked)
	}
	return d
}

const (
	fromStore  = true
	fromMemory = false
)

func ask(subject string, cost int64, limits ...stint.Limit) stint.Request {
	return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: cost}}}
}
