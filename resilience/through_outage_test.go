package resilience

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/testkit"
)

// outages are ways in which a store fails and charges nothing; under failures, it may charge what
// it answers too late.
var (
	outages = map[string]func(*fake){
		"refused":     func(s *fake) { s.fail(refusedCall()) },
		"unreachable": (*fake).down,
		"too slow":    func(s *fake) { s.change(way{there: lateBy}) },
	}
	failures = map[string]func(*fake){
		"refused": outages["refused"], "unreachable": outages["unreachable"], "too slow": outages["too slow"],
		"late": func(s *fake) { s.change(way{back: lateBy}) },
	}
)

// asker asks at instants since its start, without waiting for the answers, and counts the admitted.
type asker struct {
	*testing.T
	s        *Stack
	start    time.Time
	admitted atomic.Int64
}

func (a *asker) at(since time.Duration) { time.Sleep(time.Until(a.start.Add(since))) }

func (a *asker) ask(r stint.Request, allowed func()) {
	go func() {
		if mustDecide(a, a.s, r).Allowed {
			a.admitted.Add(1)
			allowed()
		}
	}()
	synctest.Wait()
}

// In the first window of an outage a process admits at least 95% of what an exact count admits,
// and never more than the limit, with 90% of it wanted.
func TestAdmitsInTheFirstWindow(t *testing.T) {
	testkit.SkipUnderRace(t)
	const window = 10 * time.Second
	for _, limit := range []stint.Limit{stint.Per(10, window), stint.Per(100, window)} {
		got, exact := 0, 0
		for seed := range uint64(30) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				reference, rng, start, r := newFake(t), rand.New(rand.NewPCG(seed, 1)), time.Now(), oneUnit("a", limit)
				var admitted []time.Duration
				for down := false; ; {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(window) / 0.9 / float64(limit.Max)))
					at := time.Since(start)
					if at > 4*window {
						break
					}
					if at > 3*window && !down {
						store.fail(refusedCall())
						down = true
					}
					if mustDecide(t, reference, r).Allowed && down {
						exact++
					}
					if !mustDecide(t, s, r).Allowed {
						continue
					}
					if down {
						got++
					}
					admitted = append(admitted, at)
					if n := len(admitted) - int(limit.Max) - 1; n >= 0 && at-admitted[n] < window {
						t.Fatalf("seed %d: more than %v until %v", seed, limit, at)
					}
				}
			})
		}
		t.Logf("%v: %d of %d", limit, got, exact)
		if got*100 < exact*95 {
			t.Errorf("%v: %d admitted, want at least 95 %% of %d", limit, got, exact)
		}
	}
}

// Under a limit with a burst, an outage admits no more than the store alone would have at the same
// instants, and at most one less.
func TestBurstThroughAnOutage(t *testing.T) {
	for _, outage := range []struct{ from, to int }{{1, 3}, {1, 12}, {5, 15}, {9, 11}, {10, 11}, {15, 45}, {1, 100}} {
		t.Run(fmt.Sprint(outage), func(t *testing.T) {
			each(t, outages, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
				reference, a, r := newFake(t), &asker{T: t, s: s, start: time.Now()}, oneUnit("a", stint.PerSecond(1).WithBurst(3))
				want := int64(0)
				for i := range 100 {
					a.at(time.Duration(i) * 100 * time.Millisecond)
					if i == outage.from {
						fail(store)
					}
					if i == outage.to {
						store.up()
					}
					if i%10 == 0 { // some at every second
						want += int64(admitted(t, reference, 5, r))
						for range 5 {
							a.ask(r, func() {})
						}
					}
				}
				time.Sleep(time.Second)
				if n := a.admitted.Load(); n > want || n < want-1 {
					t.Errorf("%d admitted, want %d or one less", n, want)
				}
			})
		})
	}
}

// A period ends by the store's clock, also without the store: in none is more than the capacity
// admitted, nor less.
func TestPeriodsOfAStoreAhead(t *testing.T) {
	fixed := stint.Limit{Max: 10, Window: 10 * time.Second, Algorithm: stint.AlgorithmFixed}
	const midnight = 24*time.Hour - 15*time.Second // is while the store is away
	for _, test := range []struct {
		limit stint.Limit
		ahead time.Duration
	}{{fixed, 3 * time.Second}, {fixed, -3 * time.Second}, {fixed, 0}, {stint.Daily(10), midnight}} {
		t.Run(fmt.Sprint(test.limit, ", ahead ", test.ahead), func(t *testing.T) {
			each(t, failures, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
				store.ahead.Store(int64(test.ahead))
				var mu sync.Mutex
				a, asks, admits := &asker{T: t, s: s, start: time.Now()}, map[int64]int{}, map[int64]int{} // by period of the store
				for i := range 45 {
					a.at(time.Duration(i)*time.Second + 500*time.Millisecond)
					switch i {
					case 5:
						fail(store)
					case 26:
						store.up()
					}
					for range 3 {
						period, _ := contract.Period(&test.limit, time.Now().Add(test.ahead).UnixMicro())
						asks[period]++
						a.ask(oneUnit("a", test.limit), func() {
							mu.Lock()
							defer mu.Unlock()
							admits[period]++
						})
					}
				}
				time.Sleep(time.Second)
				for period, n := range asks {
					if want := min(n, 10); admits[period] != want || len(asks) < 2 {
						t.Errorf("%d admitted in a period, want %d: %v", admits[period], want, admits)
					}
				}
			})
		})
	}
}

// F50: a caller that uses four fifths of a limit, evenly, is not denied before, in and after an
// outage.
func TestSteadyCallerThroughAnOutage(t *testing.T) {
	for _, limit := range []stint.Limit{
		stint.PerSecond(10).WithBurst(3), stint.TokenBucket(10, 10, time.Second), stint.Per(50, 5*time.Second),
		{Max: 50, Window: 5 * time.Second, Algorithm: stint.AlgorithmFixed},
	} {
		t.Run(limit.String(), func(t *testing.T) {
			each(t, failures, Config{Instances: 1}, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
				const asked = 400
				a := &asker{T: t, s: s, start: time.Now()}
				for i := range asked {
					a.at(time.Duration(i) * 125 * time.Millisecond)
					switch i {
					case 160:
						fail(store)
					case 256:
						store.up()
					}
					a.ask(oneUnit("a", limit), func() {})
				}
				time.Sleep(time.Second)
				if n := a.admitted.Load(); n != asked {
					t.Errorf("%d of %d admitted", n, asked)
				}
			})
		})
	}
}

// The memory for what is owed is bounded, however long an outage lasts; and what still counts is
// charged afterwards.
func TestMemoryOfALongOutage(t *testing.T) {
	testkit.SkipUnderRace(t)
	const rounds, calls, cost = 1500, 50, 40 // 20,000 units a second
	each(t, map[string]int{"one subject": 1, "many": 1000}, Config{Instances: 1},
		func(t *testing.T, store *fake, s *Stack, subjects int) {
			limit, names := stint.PerHour(1<<40), make([]string, subjects)
			for i := range names {
				names[i] = fmt.Sprint("subject", i)
				wantAdmitted(t, s, 1, ask(names[i], cost, limit), 1) // with the store
			}
			store.down()
			before := heapInUse()
			for n := range rounds {
				for i := range calls {
					wantAdmitted(t, s, 1, ask(names[(n*calls+i)%subjects], cost, limit), 1)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if grown := heapInUse() - before; grown > 4<<20 {
				t.Errorf("%d KiB more in use after the outage", grown>>10)
			}
			store.up()
			time.Sleep(10 * time.Minute)
			for _, name := range names {
				wantUsed(t, store, name, limit, int64(cost*(rounds*calls/subjects+1)))
			}
		})
}

// The zone of a limit has changed, and the store is away when a day begins in the new one. The period
// that the store counts ends when it ends.
func TestStoredEndWithoutTheStore(t *testing.T) {
	testkit.SkipUnderRace(t)
	utc, lagos := oneUnit("a", stint.Daily(10)), oneUnit("a", stint.Daily(10).In("Africa/Lagos")) // an hour ahead
	for _, before := range []int{5, 1} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(22*time.Hour + 59*time.Minute) // almost midnight in Lagos
			store := newFake(t)
			s := newStack(t, store, alone)
			wantAdmitted(t, store, before, utc, before)
			if before == 1 {
				wantAdmitted(t, s, 1, lagos, 1)
				store.down()
				wantAdmitted(t, s, 20, lagos, 8)
				time.Sleep(2 * time.Minute)
				store.up()
				time.Sleep(5 * time.Second)
				wantAdmitted(t, s, 20, lagos, 0)
				return
			}
			wantAdmitted(t, s, 20, lagos, 5)
			store.down()
			wantAdmitted(t, s, 20, lagos, 0)
			time.Sleep(2 * time.Minute)
			wantAdmitted(t, s, 20, lagos, 0)
			time.Sleep(time.Hour) // it has ended
			wantAdmitted(t, s, 20, lagos, 10)
		})
	}
}
