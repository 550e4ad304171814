package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

// away is how far the home Redis is from every region.
const away = 80 * time.Millisecond

// region is a process with a way of its own to the home Redis.
type region struct {
	stack
	way *redistest.Proxy
}

func startRegions(r *report, home *redistest.Server) []region {
	r.Helper()
	regions := make([]region, 3)
	for i := range regions {
		way := redistest.StartProxy(r, home.Addr())
		s := newStack(r, way.URL(), resilience.Config{Failure: stint.FailurePolicy{Budget: 300 * time.Millisecond}})
		way.SetLatency(away, 0)
		regions[i] = region{s, way}
	}
	return regions
}

// arrivals asks at a rate, in requests per second, at random moments, for a time. Nobody waits for
// those before.
func arrivals(ctx context.Context, s stint.Store, subject string, limit stint.Limit, rate float64) outcome {
	var all outcome
	var mu sync.Mutex
	var group sync.WaitGroup
	l := load{Subject: subject, Limits: []stint.Limit{limit}}
	for next := time.Now(); ctx.Err() == nil; {
		next = next.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		time.Sleep(time.Until(next))
		group.Go(func() {
			var own outcome
			own.ask(s, l)
			mu.Lock()
			defer mu.Unlock()
			all.add(own)
		})
	}
	group.Wait()
	return all
}

// demand has all regions ask for 90% of a limit together until the context ends, and returns what
// each got, and all of them.
func demand(ctx context.Context, r *report, regions []region, subject string, limit stint.Limit) (
	each []outcome, all outcome) {
	rate := 0.9 * float64(limit.Max) / limit.Window.Seconds() / float64(len(regions))
	each = make([]outcome, len(regions))
	all = together(len(regions), func(i int) outcome {
		each[i] = arrivals(ctx, regions[i], subject, limit, rate)
		return each[i]
	})
	if n := all.surely(limit.Window); n > int(limit.Max) {
		r.Errorf("%v, %s: %d admitted in a window, want at most %d", limit, subject, n, limit.Max)
	}
	return each, all
}

// demandFor is demand for a time.
func demandFor(r *report, regions []region, limit stint.Limit, span time.Duration) outcome {
	ctx, cancel := context.WithTimeout(r.Context(), span)
	defer cancel()
	_, all := demand(ctx, r, regions, "shared", limit)
	if all.failures() > 0 {
		r.Errorf("%v: errors %v", limit, all.Failed)
	}
	return all
}

// share is how much of the demand was admitted.
func (o *outcome) share() float64 { return float64(len(o.Admitted)) / float64(o.decisions()) }

func TestRegions(t *testing.T) {
	fault(t, "regions", "three processes, a home Redis 80 ms away, a leased limit of 3,000/10 s, 90% of it wanted",
		"p99 < 1 ms, never over in any window, < 5% unused; one that is cut off denies and comes back by itself", func(r *report) {
			home := redistest.Start(t)
			regions := startRegions(r, home)
			limit := pick(stint.Per(3000, 10*time.Second), stint.Per(600, 2*time.Second)).WithLease()
			all := demandFor(r, regions, limit, pick(40*time.Second, 4*time.Second))
			r.saw("%.1f%% of %d requests admitted, never over", 100*all.share(), all.decisions())
			if *measure && all.share() < 0.95 {
				r.Errorf("%.1f%% of the demand admitted; want at least 95%%", 100*all.share())
			}
			slow, _ := slices.BinarySearch(all.Took, time.Millisecond)
			slow = len(all.Took) - slow // before there are leases, and when the limit is full: those ask the store
			r.saw("%.2f%% of decisions above 1 ms", 100*float64(slow)/float64(len(all.Took)))
			r.within("p50", all.quantile(0.5), time.Millisecond)
			r.within("p99", all.quantile(0.99), time.Millisecond)
			cutOff(r, regions, limit)
			wantTTLs(r, home)
		})
}

// cutOff cuts one region off from the home Redis, and ends that.
func cutOff(r *report, regions []region, limit stint.Limit) {
	r.Helper()
	lost := regions[2]
	var outcomes []outcome
	var asking sync.WaitGroup
	defer asking.Wait() // it reports
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	asking.Go(func() { outcomes, _ = demand(ctx, r, regions, "cut", limit) })
	allowed := func() bool { d := take(r, lost, "cut", limit); return d.Allowed && !d.Degraded }
	testkit.Eventually(r, "it works", allowed)
	lost.way.Cut()
	// A lease lasts for a twentieth of a window, or a few round trips: on a busy machine for
	// longer, but for no more than half a window.
	lease := pick(max(limit.Window/20, 6*away), limit.Window/2)
	time.Sleep(lease)
	for range 50 {
		if d := take(r, lost, "cut", limit); d.Allowed {
			r.Errorf("admitted %v after it was cut off", lease)
		}
		time.Sleep(5 * time.Millisecond)
	}
	lost.way.Restore()
	restored := time.Now()
	testkit.Eventually(r, "it comes back", allowed)
	back := time.Since(restored)
	cancel()
	asking.Wait()
	others := sum(outcomes[:2]...)
	if *measure && others.share() < 0.5 || len(others.Admitted) == 0 || others.failures() > 0 {
		r.Errorf("%.0f%% of what the other regions wanted was admitted, errors %v", 100*others.share(), others.Failed)
	}
	r.saw("cut off: denied; the others got %.1f%%", 100*others.share())
	r.within("back", back, 2*time.Second)
}
