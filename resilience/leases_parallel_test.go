package resilience

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

// Random processes, costs, distances, outages and refunds against the log of what was admitted.
func TestLeasesNeverOver(t *testing.T) {
	type event struct{ at, cost int64 }
	sets := [][]stint.Limit{
		{stint.Per(20, time.Second).WithLease()},
		{stint.Per(400, time.Second).WithLease()},
		{stint.Per(30, time.Second).WithBurst(3).WithLease(), stint.Per(500, 20*time.Second).WithLease()},
		{stint.Limit{Max: 100, Window: time.Second, Algorithm: stint.AlgorithmFixed, Leased: true}},
		{stint.Per(2000, 10*time.Second).WithLease(),
			stint.Limit{Max: 300, Window: time.Second, Algorithm: stint.AlgorithmFixed, Leased: true}},
	}
	rounds := 2 * len(sets)
	if testing.Short() {
		rounds = len(sets)
	}
	hits, all := 0, 0
	first := rand.IntN(1_000_000)
	t.Logf("the first seed is %d", first)
	for round := range rounds {
		seed, limits := first+round, sets[round%len(sets)]
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(uint64(seed), 7))
			store := newLeaseFar(t, 0)
			var mu sync.Mutex
			log := map[*event]bool{}
			var group sync.WaitGroup
			callers := newLeaseCallers()
			for range 1 + chance.IntN(4) {
				far := &leaseFar{Store: store.Store, roundTrip: time.Duration(chance.IntN(100)) * time.Millisecond}
				l := newLeasesFor(t, far, Config{})
				own := rand.New(rand.NewPCG(chance.Uint64(), 7))
				rate := float64(limits[0].Max) / limits[0].Window.Seconds() * own.Float64() * 1.5
				group.Go(func() {
					for until := time.Now().Add(8 * time.Second); time.Now().Before(until); {
						time.Sleep(time.Duration(own.ExpFloat64() / rate * float64(time.Second)))
						switch own.IntN(2000) {
						case 0:
							far.down.Store(!far.down.Load())
						case 1:
							l.drop("a")
						}
						cost, refund, now := 1+own.Int64N(3), own.IntN(10) == 0, time.Now().UnixMicro()
						callers.calls <- func() {
							d, err := l.Take(context.Background(), leaseAsk("a", cost, limits...))
							if err != nil || !d.Allowed {
								return
							}
							e := &event{d.Charge.Data().At, cost}
							mu.Lock()
							all++
							if fromLease(d) {
								e.at = now
								hits++
							}
							log[e] = true
							mu.Unlock()
							if refund && fromLease(d) {
								if ok, err := l.Amend(context.Background(), d.Charge, stint.Amendment{}); err != nil {
									t.Error(err)
								} else if ok.Changed {
									mu.Lock()
									delete(log, e)
									mu.Unlock()
								}
							}
						}
					}
				})
			}
			group.Wait()
			callers.wait()
			var events []event
			for e := range log {
				events = append(events, *e)
			}
			slices.SortFunc(events, func(a, b event) int { return int(a.at - b.at) })
			for _, limit := range limits {
				span, sum, first := limit.Window.Microseconds(), int64(0), 0
				for _, e := range events {
					sum += e.cost
					for limit.Algorithm == stint.AlgorithmFixed && events[first].at/span != e.at/span ||
						limit.Algorithm == stint.AlgorithmSliding && events[first].at <= e.at-span {
						sum -= events[first].cost
						first++
					}
					if sum > limit.Capacity() {
						t.Fatalf("seed %d, %s: %d in one window", seed, &limit, sum)
					}
				}
			}
		})
	}
	t.Logf("%d of %d admitted from memory", hits, all)
	if hits < all/4 {
		t.Error("hardly anything came from memory: nothing was tested")
	}
}

// Many goroutines in four processes, one limit: exactly as many as there are.
func TestLeasesExactlyOnce(t *testing.T) {
	const limit = 20_000
	store := newLeaseFar(t, 0)
	var all []*leases
	for range 4 {
		all = append(all, newLeasesFor(t, store, Config{}))
	}
	r := leaseAsk("a", 1, stint.PerDay(limit).WithLease())
	var admitted, hits atomic.Int64
	var group sync.WaitGroup
	deadline := time.Now().Add(30 * time.Second)
	for g := range 64 {
		group.Go(func() {
			l, after := all[g%4], 0
			for time.Now().Before(deadline) && after < 200 {
				d, err := l.Take(context.Background(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				} else {
					time.Sleep(time.Millisecond) // some process still has units
				}
				if fromLease(d) {
					hits.Add(1)
				}
				if admitted.Load() >= limit {
					after++
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d from memory", hits.Load())
	if n := admitted.Load(); n != limit {
		t.Errorf("admitted %d, want %d", n, limit)
	}
	for _, l := range all {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := leaseUsed(t, store.Store, "a", r.Claims[0].Limits[0]); n != limit {
		t.Errorf("the store counts %d, want %d", n, limit)
	}
}

// Everything at once, for the race detector.
func TestLeasesInParallel(t *testing.T) {
	store := newLeaseFar(t, 0)
	l := newLeasesFor(t, store, Config{Leases: 8})
	limit := stint.Per(5000, 100*time.Millisecond).WithLease()
	var group sync.WaitGroup
	for g := range 64 {
		group.Go(func() {
			for i := range 500 {
				subject := fmt.Sprint((g + i/50) % 12)
				d, err := l.Take(context.Background(), leaseAsk(subject, 1+int64(i%3), limit))
				if err != nil {
					t.Error(err)
				}
				switch {
				case d.Allowed && i%7 == 0:
					_, err = l.Amend(context.Background(), d.Charge, stint.Amendment{Cost: int64(i % 5)})
				case i%97 == 0:
					l.drop(subject)
				case i%101 == 0:
					err = l.Command(context.Background(),
						stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: []stint.Limit{limit}})
				}
				if err != nil {
					t.Error(err)
				}
				if i%20 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := l.leases(); n != 0 {
		t.Errorf("%d leases after Close", n)
	}
}

func TestLeaseHitAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, r, _ := leaseHeld(t, stint.Per(1<<40, 10*time.Second).WithLease())
		ls := l.table.find(l.hash(&r.Claims[0], false), &r.Claims[0], false)
		ls.snapshot.Load().blocks[0].units.Store(1 << 30)
		if n := testing.AllocsPerRun(100, func() {
			if d, _ := l.Take(context.Background(), r); !fromLease(d) {
				t.Error("a miss")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// One key, many goroutines.
func BenchmarkLeaseHit(b *testing.B) {
	for _, goroutines := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			store := newLeaseFar(b, 0)
			l := newLeasesFor(b, store, Config{})
			lim, err := stint.New(l.stack(), stint.PerMinute(1<<50).WithLease())
			if err != nil {
				b.Fatal(err)
			}
			r := leaseAsk("hot", 1, lim.Limits()...)
			leaseStarted(b, l, r, time.Millisecond)
			store.takes.Store(0)
			b.ReportAllocs()
			if goroutines == 1 {
				for b.Loop() {
					if d, err := lim.Allow(b.Context(), "hot"); err != nil || !d.Allowed {
						b.Error("denied", err)
					}
				}
			} else {
				b.SetParallelism(goroutines / runtime.GOMAXPROCS(0))
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						if d, err := lim.Allow(b.Context(), "hot"); err != nil || !d.Allowed {
							b.Error("denied", err)
						}
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(100*float64(store.takes.Load())/float64(b.N), "%misses")
		})
	}
}
