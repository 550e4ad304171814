package stint_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
)

// counting is a store that records the times of its takes.
type counting struct {
	*memorystore.Store
	mu    sync.Mutex
	takes []time.Time
	moves []time.Time // the takes that ask to move a booking
}

func (c *counting) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	c.mu.Lock()
	c.takes = append(c.takes, time.Now())
	if r.Terms().Booked != nil {
		c.moves = append(c.moves, time.Now())
	}
	c.mu.Unlock()
	return c.Store.Take(ctx, r)
}

// count returns the number of takes so far.
func (c *counting) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.takes)
}

// newCounted returns a limiter over a new counting store, and that store.
func newCounted(t *testing.T, options ...stint.Option) (*stint.Limiter, *counting) {
	t.Helper()
	store := &counting{Store: guardtest.Memory(t)}
	return limiterOver(t, store, options...), store
}

// uses returns how many units a line of waiters in two processes gets in a minute. It checks that
// no window has more units than the limit, however late the waiters wake.
func uses(t *testing.T, l stint.Limit, line int, late func() time.Duration) (n int) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := newCounted(t, l)
		other := limiterOver(t, store, l)
		lim.WakeLate(late)
		other.WakeLate(late)
		var mu sync.Mutex
		var used []time.Time
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var group sync.WaitGroup
		for i := range line {
			group.Go(func() {
				for {
					if _, err := []*stint.Limiter{lim, other}[i%2].Wait(ctx, "api"); err != nil {
						return
					}
					mu.Lock()
					used = append(used, time.Now())
					mu.Unlock()
				}
			})
		}
		group.Wait()
		slices.SortFunc(used, time.Time.Compare)
		for i := int(l.Max); i < len(used); i++ {
			if gap := used[i].Sub(used[i-int(l.Max)]); gap < l.Window-time.Microsecond { // by the store's clock
				t.Fatalf("%s: %d uses within %v", l, l.Max+1, gap)
			}
		}
		n = len(used)
	})
	return n
}

// TestThoseBehindMoveUp: when a waiter gives up, the waiters behind it move up, in order.
func TestThoseBehindMoveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := newCounted(t, stint.PerMinute(1))
		start := time.Now()
		var mu sync.Mutex
		took := map[int]time.Duration{}
		var group sync.WaitGroup
		var cancels []context.CancelFunc
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			group.Go(func() {
				if _, err := lim.Wait(ctx, "api"); err == nil {
					mu.Lock()
					defer mu.Unlock()
					took[i] = time.Since(start).Round(time.Second)
				}
			})
			synctest.Wait()
		}
		time.Sleep(11 * time.Second) // the first waiter has asked, in case it missed an announcement
		before := store.count()
		cancels[2]()
		group.Wait()
		for i, want := range map[int]time.Duration{0: 0, 1: time.Minute, 3: 2 * time.Minute, 4: 3 * time.Minute,
			5: 4 * time.Minute} {
			if got, ok := took[i]; !ok || got != want {
				t.Errorf("waiter %d went ahead after %v, want %v", i, got, want)
			}
		}
		if got := store.count() - before; got != 5 { // the first waiter cannot move up, and asks again
			t.Errorf("those who waited asked %d times, want 5", got)
		}
		for _, cancel := range cancels {
			cancel()
		}
	})
}

// TestRoomIsHeardOf: everything that gives a subject room is announced to its waiters.
func TestRoomIsHeardOf(t *testing.T) {
	ctx := t.Context()
	for name, give := range map[string]func(*stint.Limiter, stint.Decision) error{
		"refund":    func(l *stint.Limiter, d stint.Decision) error { _, err := l.Refund(ctx, d); return err },
		"give back": func(l *stint.Limiter, _ stint.Decision) error { return l.GiveBack(ctx, "api", 1) },
		"reset":     func(l *stint.Limiter, _ stint.Decision) error { return l.Reset(ctx, "api") },
	} {
		synctest.Test(t, func(t *testing.T) {
			lim, store := newCounted(t, stint.PerHour(1))
			d := testkit.Must(lim.Allow(t.Context(), "api"))(t)
			start := time.Now()
			time.AfterFunc(time.Minute, func() {
				if err := give(lim, d); err != nil {
					t.Error(err)
				}
			})
			if _, err := lim.Wait(t.Context(), "api"); err != nil || time.Since(start) != time.Minute {
				t.Errorf("%s: %v after %v, want no error after a minute", name, err, time.Since(start))
			}
			if got := store.count() - 1; got != 3 { // one after ten seconds, in case it missed an announcement
				t.Errorf("%s: %d calls, want 3", name, got)
			}
		})
	}
}

// TestWaitersAskOneAfterTheOther: when units are given back, the waiters of the subject ask one
// after another, and the waiters of other subjects do not ask.
func TestWaitersAskOneAfterTheOther(t *testing.T) {
	const line = 300
	synctest.Test(t, func(t *testing.T) {
		lim, store := newCounted(t, stint.PerHour(2))
		d := testkit.Must(lim.Allow(t.Context(), "api"))(t)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range line {
			group.Go(func() { _, _ = lim.Wait(ctx, "api") })
			group.Go(func() { _, _ = lim.Wait(ctx, "other") })
		}
		synctest.Wait()
		for range 100 { // much more is given back than can be asked for
			if _, err := lim.Refund(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if err := lim.GiveBack(t.Context(), "api", 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		store.mu.Lock()
		moves := slices.Clone(store.moves)
		store.mu.Unlock()
		if len(moves) < line-10 || len(moves) > 3*line {
			t.Errorf("%d waiters asked %d times, want 1 to 3 times each", line, len(moves))
		}
		for i := 1; i < len(moves); i++ {
			if gap := moves[i].Sub(moves[i-1]); gap < 10*time.Millisecond {
				t.Fatalf("two asked within %v, want 10ms or more between them", gap)
			}
		}
		cancel()
		group.Wait()
	})
}

// TestALineOfWaiters: a line of waiters gets nearly all units of the limit. A late waiter delays
// the waiters behind it by at most a grace.
func TestALineOfWaiters(t *testing.T) {
	for _, l := range []stint.Limit{
		stint.PerSecond(4), stint.Per(10, 100*time.Millisecond), stint.Per(2, 5*time.Second),
	} {
		grace := min(l.Window/20, 20*time.Millisecond)
		for _, test := range []struct {
			line int
			late time.Duration
		}{{1, 0}, {int(l.Max), 0}, {100, 0}, {3 * int(l.Max), 0}, {3 * int(l.Max), grace / 10}, {3 * int(l.Max), grace}, {3 * int(l.Max), 2 * grace}} {
			n := uses(t, l, test.line, func() time.Duration { return rand.N(test.late + 1) })
			share, least := float64(n)*float64(l.Window)/float64(l.Max)/float64(time.Minute), 0.995
			if test.late > 0 {
				least = float64(l.Window)/float64(l.Window+grace) - 0.02
			}
			if test.late <= grace && share < least {
				t.Errorf("%s, %d in line, up to %v late: %.2f%%, want %.2f%%", l, test.line, test.late, 100*share, 100*least)
			}
		}
	}
}
