package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// asking is a store that notes, for callers whose context has an answer, what they were last
// answered.
type asking struct{ *redisstore.Store }

// answer is what a caller was last answered: when it asked, and how long it was told to wait.
type answer struct {
	asked time.Time
	wait  time.Duration
	first chan struct{} // closed by the first answer
	once  sync.Once
}

type answerKey struct{}

// with returns a context whose holder's answers are noted.
func with(ctx context.Context) (context.Context, *answer) {
	a := &answer{first: make(chan struct{})}
	return context.WithValue(ctx, answerKey{}, a), a
}

func (s asking) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	asked := time.Now()
	d, err := s.Store.Take(ctx, r)
	if a, ok := ctx.Value(answerKey{}).(*answer); ok && err == nil {
		a.asked, a.wait = asked, d.RetryAfter
		a.once.Do(func() { close(a.first) })
	}
	return d, err
}

// TestWaitersDoNotBunch: callers that wait use their places while these count, so that at most Max
// do within any window.
//
// What a caller uses later than it knows its place to count, because the answer was long on its
// way, is measured from then. That is all that is left of callers who use more: a server that
// counts them itself sees some closer together, by no more than an answer takes.
func TestWaitersDoNotBunch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, l := range []stint.Limit{stint.PerSecond(4), stint.Per(10, 100*time.Millisecond)} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var uses []use
			var group sync.WaitGroup
			// For some windows; on a busy machine for more of them, which are not all used up.
			least := int(l.Max) * int(3*time.Second/l.Window) / 2
			end := time.Now().Add(3 * time.Second)
			goesOn := func() bool {
				mu.Lock()
				defer mu.Unlock()
				return time.Now().Before(end) || len(uses) < least && time.Now().Before(end.Add(time.Minute))
			}
			for range 2 {
				lim, err := stint.New(asking{open(t, server.URL())}, l)
				if err != nil {
					t.Fatal(err)
				}
				for range 10 {
					group.Go(func() {
						for goesOn() {
							ctx, a := with(t.Context())
							if _, err := lim.Wait(ctx, l.String()); err != nil {
								t.Error(err)
								return
							}
							u := use{at: time.Now(), counts: a.asked.Add(a.wait)}
							if a.wait > 0 {
								r := stint.Request{Claims: []stint.Claim{{Limits: []stint.Limit{l}}}}
								u.counts = u.counts.Add(contract.Grace(&r))
							}
							mu.Lock()
							uses = append(uses, u)
							mu.Unlock()
						}
					})
				}
			}
			group.Wait()
			slices.SortFunc(uses, func(a, b use) int { return a.at.Compare(b.at) })
			seen, worst := over(uses, l, func(u use) time.Time { return u.at })
			t.Logf("%d uses; %d are too close to others as callers see it, by at most %v", len(uses), seen, worst)
			if n, worst := over(uses, l, use.certain); n > 0 {
				t.Errorf("%d of %d uses are too close to others, by up to %v", n, len(uses), worst)
			}
			if len(uses) < least {
				t.Errorf("%d uses in a minute, want at least %d", len(uses), least)
			}
		})
	}
}

// use is when a caller used what it waited for, and until when that is certain to count at the
// store as if used then.
type use struct{ at, counts time.Time }

func (u use) certain() time.Time {
	if u.counts.Before(u.at) {
		return u.counts
	}
	return u.at
}

// over returns how many uses come before a window has passed since the Max-th before them, and by
// how much at most.
func over(uses []use, l stint.Limit, when func(use) time.Time) (n int, worst time.Duration) {
	for i, u := range uses {
		before := make([]time.Time, 0, i)
		for _, earlier := range uses[max(0, i-3*int(l.Max)):i] {
			before = append(before, when(earlier))
		}
		slices.SortFunc(before, func(a, b time.Time) int { return b.Compare(a) })
		if len(before) < int(l.Max) {
			continue
		}
		if gap := u.at.Sub(before[l.Max-1]); gap < l.Window {
			n, worst = n+1, max(worst, l.Window-gap)
		}
	}
	return n, worst
}

// TestARefundElsewhereEndsAWait: a caller who waits for an hour goes ahead when another process
// gives back what it used, with one more call.
func TestARefundElsewhereEndsAWait(t *testing.T) {
	server := redistest.Start(t)
	elsewhere, err := stint.New(open(t, server.URL()), stint.PerHour(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"store", "stack"} {
		t.Run(name, func(t *testing.T) {
			calls := &counted{Store: open(t, server.URL())}
			var store stint.Store = calls
			if name == "stack" {
				stack, err := resilience.New(calls, resilience.Config{
					Failure: stint.FailurePolicy{Budget: 10 * time.Second}})
				if err != nil {
					t.Fatal(err)
				}
				defer stack.Close()
				store = stack
			}
			lim, err := stint.New(store, stint.PerHour(1))
			if err != nil {
				t.Fatal(err)
			}
			d, err := elsewhere.Allow(t.Context(), name)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			ended := make(chan error)
			go func() {
				_, err := lim.Wait(t.Context(), name)
				ended <- err
			}()
			testkit.Eventually(t, "it waits, and listens", func() bool {
				heard := server.CLI(t, "PUBSUB", "NUMSUB", "stint:room")
				return calls.takes.Load() == 1 && !strings.HasSuffix(strings.TrimSpace(heard), "0")
			})
			if _, err := elsewhere.Refund(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if got := calls.takes.Load(); got != 2 {
				t.Errorf("%d calls, want 2", got)
			}
		})
	}
}

// TestThoseWhoGiveUpLeaveNoHoles: of 200 who wait 189 give up. The last of them, who was to wait
// for 19 s, and one who comes then go ahead as soon as they find out.
func TestThoseWhoGiveUpLeaveNoHoles(t *testing.T) {
	const waiters, stay = 200, 10
	l := stint.PerSecond(10)
	server := redistest.Start(t)
	lim, err := stint.New(asking{open(t, server.URL())}, l)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		took time.Duration
		err  error
	}
	var cancels []context.CancelFunc
	var results []chan result
	wait := func() *answer {
		ctx, cancel := context.WithCancel(t.Context())
		ctx, a := with(ctx)
		done := make(chan result, 1)
		start := time.Now()
		go func() {
			_, err := lim.Wait(ctx, "api")
			done <- result{time.Since(start), err}
		}()
		<-a.first
		cancels, results = append(cancels, cancel), append(results, done)
		return a
	}
	var last *answer
	for range stay + waiters { // the first go ahead at once
		last = wait()
	}
	booked := last.wait
	testkit.Eventually(t, "the limiter listens", func() bool {
		return !strings.HasSuffix(strings.TrimSpace(server.CLI(t, "PUBSUB", "NUMSUB", "stint:room")), "0")
	})
	gaveUp := time.Now()
	for i := 2 * stay; i < stay+waiters-1; i++ {
		cancels[i]()
	}
	for i := 2 * stay; i < stay+waiters-1; i++ {
		if r := <-results[i]; r.err != nil && !errors.Is(r.err, context.Canceled) { // the first may have had their turn
			t.Fatalf("waiter %d: %v, want that it was canceled", i, r.err)
		}
	}
	wait()
	for _, i := range []int{stay + waiters - 1, stay + waiters} {
		if r := <-results[i]; r.err != nil {
			t.Fatal(r.err)
		}
	}
	took := time.Since(gaveUp)
	t.Logf("the last was to wait for %v; it and a newcomer went ahead %v after the others gave up", booked.Round(time.Millisecond), took.Round(time.Millisecond))
	if took >= booked {
		t.Errorf("went ahead after %v, want less than %v", took, booked)
	}
	for _, cancel := range cancels {
		cancel()
	}
}
