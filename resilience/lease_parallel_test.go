package resilience

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// Random processes, costs, distances, outages and refunds against the log of what was admitted.
func TestLeasesAreNeverOver(t *testing.T) {
	type event struct{ at, cost int64 }
	fixed := func(max int64) stint.Limit {
		return stint.Limit{Max: max, Window: time.Second, Algorithm: stint.AlgorithmFixed, Leased: true}
	}
	hits, all := 0, 0
	for round, limits := range [][]stint.Limit{
		{leased(20, time.Second)},
		{leased(400, time.Second)},
		{leased(30, time.Second).WithBurst(3), leased(500, 20*time.Second)},
		{fixed(100)},
		{leased(2000, 10*time.Second), fixed(300)},
	} {
		over(t, leasing, func(t *testing.T, store *fake, _ *Stack) {
			chance := rand.New(rand.NewPCG(uint64(round), 7))
			var mu sync.Mutex
			log := map[*event]bool{}
			var processes, callers sync.WaitGroup
			for range 1 + chance.IntN(4) {
				far, trip := store.another(), time.Duration(chance.IntN(50))*time.Millisecond
				far.change(way{there: trip, back: trip})
				s := newStack(t, far, leasing)
				own := rand.New(rand.NewPCG(chance.Uint64(), 7))
				rate := float64(limits[0].Max) / limits[0].Window.Seconds() * own.Float64() * 1.5
				processes.Go(func() {
					down := false
					for until := time.Now().Add(8 * time.Second); time.Now().Before(until); {
						time.Sleep(time.Duration(own.ExpFloat64() / rate * float64(time.Second)))
						switch own.IntN(2000) {
						case 0:
							if down = !down; down {
								far.down()
							} else {
								far.fail(nil)
							}
						case 1:
							s.drop("a", true)
						}
						cost, refund, now := 1+own.Int64N(3), own.IntN(10) == 0, time.Now().UnixMicro()
						callers.Go(func() {
							d, err := s.Take(context.Background(), ask("a", cost, limits...))
							if err != nil || !d.Allowed {
								return
							}
							e := &event{d.Charge.Data().At, cost}
							if fromLease(d) {
								e.at = now
							}
							mu.Lock()
							defer mu.Unlock()
							all++
							if log[e] = true; !fromLease(d) {
								return
							}
							if hits++; refund && mustAmend(t, s, d.Charge, stint.Amendment{Kind: stint.AmendSettle}).Changed {
								delete(log, e)
							}
						})
					}
				})
			}
			processes.Wait()
			callers.Wait()
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
						t.Fatalf("seed %d, %s: %d in one window", round, &limit, sum)
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
