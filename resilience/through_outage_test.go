package resilience

import (
	"fmt"
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
		"unreachable": func(s *fake) { s.down() },
		"too slow":    func(s *fake) { s.change(way{there: 50 * time.Millisecond}) },
	}
	failures = map[string]func(*fake){
		"refused": outages["refused"], "unreachable": outages["unreachable"], "too slow": outages["too slow"],
		"late": func(s *fake) { s.change(way{back: lateBy}) },
	}
)

// lateBy is how long a late answer takes.
const lateBy = 50 * time.Millisecond

// Under a limit with a burst, an outage admits no more than the store alone would have at the same
// instants, and at most one less.
func TestBurstThroughAnOutage(t *testing.T) {
	const step = 100 * time.Millisecond
	for name, fail := range outages {
		for _, outage := range []struct{ from, to int }{
			{1, 3}, {1, 12}, {5, 15}, {9, 11}, {10, 11}, {15, 45}, {1, 100},
		} {
			t.Run(fmt.Sprint(name, outage), func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					reference := newFake(t)
					r := oneUnit("a", stint.PerSecond(1).WithBurst(3))
					var got atomic.Int64
					want, start := int64(0), time.Now()
					for i := range 100 {
						time.Sleep(time.Until(start.Add(time.Duration(i) * step)))
						if i == outage.from {
							fail(store)
						}
						if i == outage.to {
							store.up()
						}
						if i%10 != 0 { // some at every second
							continue
						}
						want += int64(admitted(t, reference, 5, r))
						for range 5 {
							go func() { // one that waits for the store does not delay the next
								if mustDecide(t, s, r).Allowed {
									got.Add(1)
								}
							}()
							synctest.Wait()
						}
					}
					time.Sleep(time.Second)
					if n := got.Load(); n > want || n < want-1 {
						t.Errorf("%d admitted, want %d or one less", n, want)
					}
				})
			})
		}
	}
}

// A ban that is in force when the store goes away lasts as long as it would have, and not longer.
func TestBanThroughAnOutage(t *testing.T) {
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				r := oneUnit("a", stint.PerSecond(2))
				r.Bans = banAfter(3, 90*time.Second)
				wantAdmitted(t, s, 5, r, 2)
				end := time.Now().Add(90 * time.Second)
				fail(store)
				for range 9 {
					d := mustDecide(t, s, r)
					if left := time.Until(end); d.Allowed || !d.Banned || d.RetryAfter < left {
						t.Fatalf("allowed %v, banned %v, retry after %v, want %v", d.Allowed, d.Banned,
							d.RetryAfter, left)
					}
					time.Sleep(9999 * time.Millisecond)
				}
				time.Sleep(time.Until(end.Add(lateBy))) // a ban that an answer tells of begins when that comes
				if d := mustDecide(t, s, r); !d.Allowed || d.Banned {
					t.Errorf("at the end: allowed %v, banned %v, retry after %v", d.Allowed, d.Banned, d.RetryAfter)
				}
			})
		})
	}
}

// A caller that uses four fifths of a limit, evenly, is never denied: not before an outage, not in
// it and not after it.
func TestSteadyCallerThroughAnOutage(t *testing.T) {
	testkit.SkipUnderRace(t)
	fixed := stint.Limit{Max: 60, Window: time.Minute, Algorithm: stint.AlgorithmFixed}
	for name, test := range map[string]struct {
		limit stint.Limit
		every time.Duration
	}{
		"burst":   {stint.PerSecond(10).WithBurst(3), 125 * time.Millisecond},
		"bucket":  {stint.TokenBucket(10, 10, time.Second), 125 * time.Millisecond},
		"sliding": {stint.Per(50, 5*time.Second), 125 * time.Millisecond},
		"fixed":   {fixed, 1250 * time.Millisecond},
	} {
		for failure, fail := range failures {
			for breaker, c := range map[string]Config{"breaker": {Instances: 1}, "no breaker": alone} {
				t.Run(name+", "+failure+", "+breaker, func(t *testing.T) {
					over(t, c, func(t *testing.T, store *fake, s *Stack) {
						r := oneUnit("a", test.limit)
						start := time.Now()
						const from, to, end = 70 * time.Second, 82 * time.Second, 150 * time.Second
						for at := time.Duration(0); at < end; at += test.every {
							time.Sleep(time.Until(start.Add(at)))
							switch {
							case at >= from && at < from+test.every:
								fail(store)
							case at >= to && at < to+test.every:
								store.up()
							}
							go func() {
								if d := mustDecide(t, s, r); !d.Allowed {
									t.Errorf("denied at %v: degraded %v, used %d, retry after %v", at, d.Degraded,
										d.Usages()[0].Used, d.RetryAfter)
								}
							}()
							synctest.Wait()
						}
						time.Sleep(time.Second)
					})
				})
			}
		}
	}
}

// A period ends by the store's clock, also without the store: in none is more than the capacity
// admitted, nor less.
func TestPeriodsOfAStoreAhead(t *testing.T) {
	fixed := stint.Limit{Max: 10, Window: 10 * time.Second, Algorithm: stint.AlgorithmFixed}
	const midnight = 24*time.Hour - 15*time.Second // is while the store is away
	for name, fail := range failures {
		for _, test := range []struct {
			limit stint.Limit
			ahead time.Duration
		}{{fixed, 3 * time.Second}, {fixed, -3 * time.Second}, {fixed, 0}, {stint.Daily(10), midnight}} {
			t.Run(fmt.Sprint(name, ", ", test.limit, ", ahead ", test.ahead), func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					store.ahead.Store(int64(test.ahead))
					r := oneUnit("a", test.limit)
					var mu sync.Mutex
					asks, admits := map[int64]int{}, map[int64]int{} // by period of the store's clock
					start := time.Now()
					for i := range 45 {
						time.Sleep(time.Until(start.Add(time.Duration(i)*time.Second + 500*time.Millisecond)))
						switch i {
						case 5:
							fail(store)
						case 26:
							store.up()
						}
						for range 3 {
							period, _ := contract.Period(&test.limit, time.Now().Add(test.ahead).UnixMicro())
							asks[period]++
							go func() {
								if d := mustDecide(t, s, r); d.Allowed {
									mu.Lock()
									defer mu.Unlock()
									admits[period]++
								}
							}()
							synctest.Wait()
						}
					}
					time.Sleep(time.Second)
					for period, n := range asks {
						if want := min(n, 10); admits[period] != want {
							t.Errorf("%d admitted in a period, want %d: %v", admits[period], want, admits)
						}
					}
					if len(asks) < 2 {
						t.Error("no period has ended")
					}
				})
			})
		}
	}
}

// An outage that is longer than any answer is waited for, and shorter than the window, adds
// nothing: neither if what is owed is charged meanwhile nor if it is not.
func TestOutagesInALongWindow(t *testing.T) {
	for _, limit := range []stint.Limit{
		stint.PerDay(20), stint.PerDay(5).WithBurst(4), stint.TokenBucket(20, 1, 24*time.Hour), stint.Monthly(20),
		{Max: 20, Window: 24 * time.Hour, Algorithm: stint.AlgorithmFixed},
	} {
		for name, fail := range failures {
			t.Run(fmt.Sprint(limit, ", ", name), func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					var admitted atomic.Int64
					for i := range 90 {
						switch i {
						case 5:
							fail(store)
						case 60:
							store.up()
						}
						go func() {
							if d := mustDecide(t, s, oneUnit("a", limit)); d.Allowed {
								admitted.Add(1)
							}
						}()
						time.Sleep(time.Second)
					}
					if n := admitted.Load(); n != 20 {
						t.Errorf("%d admitted, want 20", n)
					}
				})
			})
		}
	}
}

// The memory for what is owed is bounded, however long an outage lasts; and what still counts is
// charged afterwards.
func TestMemoryOfALongOutage(t *testing.T) {
	testkit.SkipUnderRace(t)
	const seconds, calls = 150, 500
	const cost = 40 // so that it is 20,000 units a second
	for _, subjects := range []int{1, 1000} {
		t.Run(fmt.Sprint(subjects, " subjects"), func(t *testing.T) {
			over(t, Config{Instances: 1}, func(t *testing.T, store *fake, s *Stack) {
				limit := stint.PerHour(1 << 40)
				names := make([]string, subjects)
				for i := range names {
					names[i] = fmt.Sprint("subject", i)
				}
				take := func(i int) {
					if !mustDecide(t, s, ask(names[i%subjects], cost, limit)).Allowed {
						t.Fatal("denied")
					}
				}
				for i := range subjects {
					take(i) // with the store
				}
				store.down()
				before := heapInUse()
				for n := range seconds {
					for i := range calls {
						take(n*calls + i)
						if i%50 == 49 {
							time.Sleep(100 * time.Millisecond)
						}
					}
				}
				if grown := heapInUse() - before; grown > 4<<20 {
					t.Errorf("%d KiB more in use after the outage", grown>>10)
				}
				store.up()
				time.Sleep(10 * time.Minute)
				each := int64(cost * (seconds*calls/subjects + 1))
				for _, name := range names {
					wantUsed(t, store, name, limit, each)
				}
			})
		})
	}
}

// TestStoredEndWithoutTheStore: the zone of a limit has changed, and the store is away when a day
// begins in the new one. The period that the store counts ends when it ends.
func TestStoredEndWithoutTheStore(t *testing.T) {
	testkit.SkipUnderRace(t)
	utc, lagos := oneUnit("a", stint.Daily(10)), oneUnit("a", stint.Daily(10).In("Africa/Lagos")) // an hour ahead
	const almostMidnightInLagos = 22*time.Hour + 59*time.Minute
	over := func(t *testing.T, f func(t *testing.T, store *fake, s *Stack)) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(almostMidnightInLagos)
			store := newFake(t)
			f(t, store, newStack(t, store, alone))
		})
	}
	t.Run("used", func(t *testing.T) {
		over(t, func(t *testing.T, store *fake, s *Stack) {
			wantAdmitted(t, store, 5, utc, 5)
			wantAdmitted(t, s, 20, lagos, 5)
			store.down()
			wantAdmitted(t, s, 20, lagos, 0)
			time.Sleep(2 * time.Minute)
			wantAdmitted(t, s, 20, lagos, 0)
			time.Sleep(time.Hour) // it has ended
			wantAdmitted(t, s, 20, lagos, 10)
		})
	})
	t.Run("owed", func(t *testing.T) {
		over(t, func(t *testing.T, store *fake, s *Stack) {
			wantAdmitted(t, store, 1, utc, 1)
			wantAdmitted(t, s, 1, lagos, 1)
			store.down()
			wantAdmitted(t, s, 20, lagos, 8)
			time.Sleep(2 * time.Minute)
			store.up()
			time.Sleep(5 * time.Second)
			wantAdmitted(t, s, 20, lagos, 0)
		})
	})
}
