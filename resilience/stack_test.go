package resilience

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/storetest"
)

// patient is a budget that holds on a busy machine too.
var patient = stint.FailurePolicy{Mode: stint.FailError, Budget: 10 * time.Second}

func newStack(t *testing.T, store driver.BatchStore, c Config) *Stack {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	s, err := New(store, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // fails if the store is gone by then
	return s
}

func openRedis(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The contract through everything, over a real server and a Cluster.
func TestStackOverRedis(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for name, h := range map[string]struct {
		url   string
		split bool
	}{
		"single":  {redistest.Start(t).URL(), false},
		"cluster": {"redis://" + cluster.Addrs()[0] + "?addr=" + cluster.Addrs()[1], true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, openRedis(t, h.url), Config{Failure: patient})
			storetest.Run(t, func(*testing.T) storetest.Harness {
				return storetest.Harness{Store: s, NeverOver: true, SplitSubjects: h.split}
			})
		})
	}
}

// All but what answers from memory is exact, with company in the batches: no caller can tell it
// from a store alone.
func TestStackIsExact(t *testing.T) {
	redis := openRedis(t, redistest.Start(t).URL())
	breaker := newBreaker(redis, Config{}.withDefaults())
	defer breaker.Close()
	batching := newBatching(breaker, Config{}.withDefaults())
	defer batching.Close()
	s, err := newFallback(newDeadlines(batching, patient.Budget), breaker, Config{Failure: patient}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 2 {
		group.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.Take(ctx, oneUnit(fmt.Sprint("company", i)))
			}
		})
	}
	storetest.Run(t, func(*testing.T) storetest.Harness { return storetest.Harness{Store: s} })
	cancel()
	group.Wait()
	storetest.Linearizable(t, s)
}

// Exactly the limit is admitted through several stacks at once.
func TestStacksShareOneLimit(t *testing.T) {
	url := redistest.Start(t).URL()
	for _, limit := range []stint.Limit{stint.PerHour(100), stint.PerHour(5000),
		stint.PerHour(5000).WithName("leased").WithLease()} {
		var admitted atomic.Int64
		var group sync.WaitGroup
		for range 4 {
			s := newStack(t, openRedis(t, url), Config{Failure: patient})
			for range 50 {
				group.Go(func() {
					for range 30 {
						d, err := s.Take(t.Context(), stint.Request{
							Claims: []stint.Claim{{Subject: limit.String(), Limits: []stint.Limit{limit}, Cost: 1}}})
						if err != nil {
							t.Error(err)
							return
						}
						if d.Allowed {
							admitted.Add(1)
						}
					}
				})
			}
		}
		group.Wait()
		if n := admitted.Load(); limit.Leased && n > limit.Max || !limit.Leased && n != limit.Max {
			t.Errorf("%d were admitted under %v", n, limit)
		}
	}
}

// counter is an observer that counts.
type counter struct {
	decisions, calls, requests, denials, leased, fallbacks, opened atomic.Int64
}

func (c *counter) Observe(_ context.Context, event any) {
	switch e := event.(type) {
	case *Decided:
		c.decisions.Add(1)
		switch e.Source {
		case sourceDenyCache:
			c.denials.Add(1)
		case sourceLease:
			c.leased.Add(1)
		case sourceFallback:
			c.fallbacks.Add(1)
		}
	case *StoreCall:
		if e.Op == "take" {
			c.calls.Add(1)
			c.requests.Add(int64(e.Requests))
		}
	case *BreakerChange:
		if e.To == "open" {
			c.opened.Add(1)
		}
	}
}

func TestAnObserverSeesItAll(t *testing.T) {
	server := redistest.Start(t)
	seen := &counter{}
	s := newStack(t, openRedis(t, server.URL()), Config{
		Failure: stint.FailurePolicy{Budget: 10 * time.Second}, Observer: seen,
		BreakerFailures: 1, Instances: 1,
	})
	take := func(subject string, limit stint.Limit) stint.Decision {
		t.Helper()
		d, err := s.Take(t.Context(), stint.Request{
			Claims: []stint.Claim{{Subject: subject, Limits: []stint.Limit{limit}, Cost: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for range 10 {
		take("few", stint.PerHour(1))
	}
	for n := 0; seen.leased.Load() == 0; n++ {
		if take("many", stint.PerMinute(1_000_000).WithLease()); n > 100_000 {
			t.Fatal("nothing was leased")
		}
	}
	if seen.denials.Load() == 0 || seen.calls.Load() == 0 || seen.requests.Load() < seen.calls.Load() ||
		seen.fallbacks.Load() != 0 {
		t.Errorf("with a store: %+v", seen)
	}
	server.Kill()
	for n := 0; s.Breaker() == "closed"; n++ {
		if d := take(fmt.Sprint(n), stint.PerHour(1)); !d.Degraded || !d.Allowed {
			t.Errorf("without a store: %+v", d)
		}
	}
	if seen.fallbacks.Load() == 0 || seen.opened.Load() != 1 || s.Instances() != 1 {
		t.Errorf("without a store: %+v, %d instances", seen, s.Instances())
	}
}

// What one process gives back, another hears of.
func TestStacksHearOfEachOther(t *testing.T) {
	url := redistest.Start(t).URL()
	ours, theirs := newStack(t, openRedis(t, url), Config{Failure: patient}), openRedis(t, url)
	limits := []stint.Limit{stint.PerHour(1)}
	r := stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 1}}}
	take := func() stint.Decision {
		t.Helper()
		d, err := ours.Take(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := take()
	if !d.Allowed || take().Allowed || take().Allowed {
		t.Fatal("want one to be admitted")
	}
	if _, err := theirs.Amend(t.Context(), d.Charge, stint.Amendment{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "there is room again", func() bool { return take().Allowed })
	if err := theirs.Command(t.Context(),
		stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: limits}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "there is room again", func() bool { return take().Allowed })
}

func TestNewStackRefusesMistakes(t *testing.T) {
	if _, err := New(nil, Config{}); err == nil {
		t.Error("a stack on nothing")
	}
	bad := Config{Failure: stint.FailurePolicy{Mode: 9}}
	if _, err := New(newFlaky(t), bad); err == nil {
		t.Error("an unknown failure mode")
	}
}

func TestTheStackAllocatesNothingOfItsOwn(t *testing.T) {
	s := newStack(t, newFlaky(t), Config{Failure: patient})
	r := stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}}}
	for range 2 { // denied from memory from then on
		if _, err := s.Take(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Take(ctx, r) }); n > 0 {
		t.Errorf("%v allocations per denial from memory", n)
	}
}

// TestUsagesAreTheCallers: equal requests are decided together, denials are remembered, and leases
// serve from a snapshot; still each caller may write to the usages of its decision. Run it with
// -race.
func TestUsagesAreTheCallers(t *testing.T) {
	s := newStack(t, openRedis(t, redistest.Start(t).URL()), Config{Failure: patient})
	leased := stint.PerMinute(1 << 20)
	leased.Leased = true
	requests := []stint.Request{
		oneUnit("equal", stint.PerMinute(1<<20), stint.PerHour(1<<20)),
		oneUnit("denied", stint.PerMinute(3)),
		oneUnit("leased", leased),
	}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range 150 {
				r := requests[i%len(requests)]
				d, err := s.Take(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if len(d.Usages()) != len(r.Claims[0].Limits) {
					t.Errorf("%s: %d usages, want %d", r.Claims[0].Subject, len(d.Usages()), len(r.Claims[0].Limits))
				}
				for k := range d.Usages() {
					if used := d.Usages()[k].Used; used < 1 || used > 1<<20 {
						t.Errorf("%s: %d are used: somebody else wrote to the decision", r.Claims[0].Subject, used)
					}
					d.Usages()[k].Used = -1
				}
				_ = append(d.Usages(), stint.Usage{Used: -1})
			}
		})
	}
	group.Wait()
}
