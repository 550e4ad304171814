package stores_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/stores"
)

// streams are what several processes serve at the expense of one budget, with more demand than
// there is budget.
type streams struct {
	mu       sync.Mutex
	admitted int
	running  int
	tokens   int64 // that were really used
	// allowed is what may be used beyond the budget: what the dead have not reported, and what was
	// used of holds that expired because a process was too slow.
	allowed int64
}

const (
	streamEstimate = 4096
	streamLife     = 2 * time.Second
	streamTime     = 3 * time.Second
	streamBeat     = streamLife / 4
	streamBudget   = 80 * streamEstimate
)

// serve serves streams until the context ends: then the process is dead, and what it served too.
func (s *streams) serve(ctx context.Context, t *testing.T, lim *stint.Limiter, r stint.Request, work *sync.WaitGroup) {
	for ctx.Err() == nil {
		d, err := lim.Take(ctx, r)
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		if d.Allowed {
			s.mu.Lock()
			s.admitted++
			s.running++
			s.mu.Unlock()
			work.Go(func() { s.stream(ctx, t, lim, d) })
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

// stream uses its estimate evenly, and reports it.
func (s *streams) stream(ctx context.Context, t *testing.T, lim *stint.Limiter, d stint.Decision) {
	begin, reported, expired := time.Now(), int64(0), false
	used := func() int64 { return min(streamEstimate, int64(streamEstimate*time.Since(begin)/streamTime)) }
	for time.Since(begin) < streamTime && ctx.Err() == nil {
		sleep(ctx, min(streamBeat, streamTime-time.Since(begin)))
		total := used()
		done, err := lim.Extend(ctx, d, total)
		if err == nil && done.Changed {
			reported = total
		}
		expired = expired || err == nil && !done.Changed
	}
	truth := used()
	if ctx.Err() == nil {
		truth = streamEstimate
		done, err := lim.Settle(context.WithoutCancel(ctx), d, truth)
		if err != nil || !done.Changed || done.Charged != truth {
			t.Errorf("settled: %+v, %v", done, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.tokens += truth
	if ctx.Err() != nil || expired {
		s.allowed += truth - reported
	}
}

func (s *streams) admits(n int) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.admitted >= n
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Streams that last longer than their holds and than the window of a rate use up a budget on four
// levels, in several processes over a real Redis. Redis stops for a second, and one process dies.
// What was really used is the budget, but for what the dead have not reported; and nothing of the
// dead stays held.
func TestStreamsOverRedis(t *testing.T) {
	redis := redistest.Start(t)
	request := stint.Request{Hold: streamLife}
	for _, subject := range []string{"key:1", "user:1", "team:1", "org:1"} {
		request.Claims = append(request.Claims, stint.Claim{Subject: subject, Cost: streamEstimate,
			Limits: []stint.Limit{stint.PerSecond(100_000), stint.PerDay(streamBudget)}})
	}
	c := quiet()
	c.Resilience.Failure.Budget = 250 * time.Millisecond
	var all streams
	var work sync.WaitGroup
	living, end := context.WithCancel(t.Context())
	dying, kill := context.WithCancel(t.Context())
	defer kill()
	defer end()
	var store stores.Store
	for _, ctx := range []context.Context{dying, living, living} {
		store = open(t, c, redis.URL())
		lim, err := stint.New(store)
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() { all.serve(ctx, t, lim, request, &work) })
	}
	testkit.Eventually(t, "some streams", all.admits(15))
	redis.Pause(t)
	time.Sleep(time.Second)
	redis.Resume(t)
	testkit.Eventually(t, "more streams", all.admits(40))
	kill()
	last := request
	last.Mode = stint.ModePeek
	testkit.Eventually(t, "the budget is used up, and nothing is held", func() bool {
		all.mu.Lock()
		running := all.running
		all.mu.Unlock()
		d, err := store.Take(t.Context(), last)
		return running == 0 && held(t, store, request.Claims) == 0 && err == nil && !d.Degraded && !d.Allowed
	})
	end()
	work.Wait()
	t.Logf("%d streams used %d of %d tokens; %d of them may be beyond", all.admitted, all.tokens, streamBudget, all.allowed)
	if all.tokens > streamBudget+all.allowed {
		t.Errorf("%d tokens were used, want at most %d and %d that died unreported", all.tokens, streamBudget, all.allowed)
	}
	if all.tokens < streamBudget*9/10 {
		t.Errorf("%d tokens were used, want at least nine tenths of %d", all.tokens, streamBudget)
	}
}

// held is what the store holds of some claims.
func held(t *testing.T, store stores.Store, claims []stint.Claim) (n int64) {
	t.Helper()
	for _, c := range claims {
		seen, err := store.(driver.Inspector).Inspect(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range seen.Windows {
			n += w.Held
		}
	}
	return n
}
