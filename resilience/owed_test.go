package resilience

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

// What was granted without the store is charged to it afterwards, once: to every subject and limit
// that still counts it, but for places, and less what was refunded.
func TestStoreIsChargedAfterwards(t *testing.T) {
	over(t, among(2), func(t *testing.T, store *fake, s *Stack) {
		minute, day, place := stint.PerMinute(10), stint.PerDay(100), stint.AtOnce(50, time.Hour)
		r := and(oneUnit("a", minute, day, place), ask("all", 2, day))
		store.fail(refusedCall())
		wantAdmitted(t, s, 5, r, 5)
		time.Sleep(2 * time.Minute)
		r.Claims[0].Cost = 3
		wantAdmitted(t, s, 1, r, 1)
		refunded := mustDecide(t, s, oneUnit("b", day))
		mustAmend(t, s, refunded.Charge, stint.Amendment{Kind: stint.AmendSettle})
		if store.Stats().Subjects != 0 {
			t.Fatal("the store knows something already")
		}
		for range 2 { // the second outage adds nothing
			store.up()
			time.Sleep(2 * time.Second)
			wantUsed(t, store, "a", minute, 3)
			wantUsed(t, store, "a", day, 8)
			wantUsed(t, store, "a", place, 0)
			wantUsed(t, store, "all", day, 12)
			wantUsed(t, store, "b", day, 0)
			store.fail(refusedCall())
			mustDecide(t, s, oneUnit("other"))
		}
	})
}

// What a subject owes is charged before its next request is decided, in the same call.
func TestOwedUnitsGoAlong(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := oneUnit("a", stint.PerHour(3))
		mustDecide(t, s, r)
		store.change(way{there: 20 * time.Millisecond}) // too late for both
		wantAdmitted(t, s, 2, r, 2)
		time.Sleep(10 * time.Millisecond) // both are known to be owed, and nothing was charged in the background
		store.change(way{})
		wantUsed(t, store, "a", r.Claims[0].Limits[0], 1)
		if d := mustDecide(t, s, r); d.Allowed || d.Degraded || d.Usages()[0].Used != 3 {
			t.Errorf("allowed %v, degraded %v, used %d; want a denial by the store, 3 used", d.Allowed, d.Degraded,
				d.Usages()[0].Used)
		}
	})
}

// The answer to a request that carries what is owed counts that: it is not taken for what others
// used, nor held against the request, also if the answer comes before others of its call.
func TestCarriedUnitsAreCounted(t *testing.T) {
	for name, back := range map[string]way{"together": {}, "early": {each: time.Microsecond}} {
		for instances, left := range map[int]map[bool]int{1: {false: 4, true: 3}, 2: {false: 2, true: 2}} {
			for again, left := range left {
				t.Run(fmt.Sprint(name, ", instances ", instances, ", again ", again), func(t *testing.T) {
					over(t, among(instances), func(t *testing.T, store *fake, s *Stack) {
						r := oneUnit("a", stint.PerHour(10))
						var group sync.WaitGroup
						store.change(way{there: 20 * time.Millisecond}) // too late
						for range 5 {
							group.Go(func() { wantAdmitted(t, s, 1, r, 1) })
						}
						group.Wait()
						time.Sleep(10 * time.Millisecond)
						store.change(back)
						wantAdmitted(t, s, 1, r, 1)
						time.Sleep(time.Millisecond)
						if again {
							wantAdmitted(t, s, 1, r, 1)
						}
						store.fail(refusedCall())
						wantAdmitted(t, s, 10, r, left)
					})
				})
			}
		}
	}
}

// What is owed under a limit counts for every list of limits that the limit is in.
func TestListsThatShareALimit(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		hour, day := stint.PerHour(10), stint.PerDay(100)
		store.fail(refusedCall())
		wantAdmitted(t, s, 10, oneUnit("a", hour, day), 10)
		store.fail(nil)
		wantAdmitted(t, s, 10, oneUnit("a", hour), 0)
	})
}

// Close charges what is owed to a store that is not quick.
func TestCloseChargesWhatIsOwed(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.fail(refusedCall())
		const subjects = 1000
		for i := range subjects {
			mustDecide(t, s, oneUnit(fmt.Sprint(i)))
		}
		store.up()
		store.change(way{there: 10 * time.Millisecond, back: 10 * time.Millisecond})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range subjects {
			wantUsed(t, store, fmt.Sprint(i), stint.PerHour(1000), 1)
		}
	})
}

// A booking by the store is held against what it does not count yet.
func TestBookingBesideWhatIsOwed(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.Per(10, 10*time.Second)
		mustDecide(t, s, ask("a", 1, limit))
		time.Sleep(time.Second)
		mustDecide(t, s, ask("a", 7, limit))
		time.Sleep(time.Second)
		store.change(way{there: 500 * time.Millisecond})
		wantAdmitted(t, s, 1, ask("a", 2, limit), 1) // without the store
		store.change(way{})
		booking := ask("a", 3, limit)
		booking.Mode = stint.ModeReserve
		// The first unit leaves after 10 s, and the other seven a second later.
		if d := mustDecide(t, s, booking); d.Allowed && d.RetryAfter < 9*time.Second-lateBy {
			t.Errorf("booked in %v: more than 10 in a window", d.RetryAfter)
		}
	})
}

// After a long outage a short limit is charged only with what it still counts.
func TestShortLimitBesideALongOne(t *testing.T) {
	day, bucket := stint.PerDay(10_000), stint.TokenBucket(5, 5, time.Second)
	for name, limits := range map[string][]stint.Limit{"day first": {day, bucket}, "bucket first": {bucket, day}} {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				store.fail(refusedCall())
				for i := range 310 {
					if i == 300 {
						store.fail(nil)
						time.Sleep(300 * time.Millisecond)
					}
					if d := mustDecide(t, s, oneUnit("a", limits...)); !d.Allowed {
						t.Fatalf("denied after %d s: used %v, retry after %v", i, d.Usages(), d.RetryAfter)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// Debts of more subjects than fit in memory are dropped, and the log says so.
func TestDroppedDebtsAreLogged(t *testing.T) {
	logs, c := new(logbook), alone
	c.Logger, c.LocalBytes = logs.logger(), 1<<20
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		store.fail(refusedCall())
		const subjects, fit = 10_000, 1 << 20 / recordBytes
		for i := range subjects {
			mustDecide(t, s, oneUnit(fmt.Sprint(i)))
		}
		store.up()
		time.Sleep(10 * time.Minute)
		charged := int64(0)
		for i := range subjects {
			charged += usedOf(t, store, fmt.Sprint(i), stint.PerHour(1000))
		}
		if charged < fit/2 || charged > fit+stripes || logs.count(slog.LevelWarn, "dropped=") == 0 {
			t.Errorf("%d of %d charged, want about %d: %s", charged, subjects, fit, logs)
		}
	})
}

// F12: memory is bounded, however many subjects ask in an outage. None of them is denied, and one
// that has used up its limit still is.
func TestMemoryOfManySubjects(t *testing.T) {
	testkit.SkipUnderRace(t)
	for name, limit := range map[string]stint.Limit{
		"sliding": stint.PerHour(5), "burst": stint.PerHour(5).WithBurst(2), "places": stint.AtOnce(5, time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			const most = 1 << 20
			over(t, Config{Instances: 1, LocalBytes: most}, func(t *testing.T, store *fake, s *Stack) {
				store.down()
				full := oneUnit("full", stint.PerHour(10))
				wantAdmitted(t, s, 11, full, 10)
				before := heapInUse()
				for i := range 3 * most / recordBytes {
					wantAdmitted(t, s, 1, oneUnit(fmt.Sprint("subject", i), limit), 1)
				}
				wantAdmitted(t, s, 1, full, 0)
				if grown := heapInUse() - before; grown > most*6/5 {
					t.Errorf("%d KiB in use, want %d", grown>>10, most>>10)
				}
			})
		})
	}
}

// heapInUse is how many bytes are in use.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// F52: requests of one window that are refunded in the next give nothing of that one back: what is
// owed by then is of others.
func TestRefundsOfAWindowThatIsOver(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		const most = 20
		minute, hour := stint.PerMinute(most), stint.PerHour(1000) // the second keeps the charges
		r := oneUnit("a", minute, hour)
		store.down()
		var slow []stint.Decision
		for range most {
			slow = append(slow, mustDecide(t, s, r))
		}
		time.Sleep(64 * time.Second)
		wantAdmitted(t, s, 2*most, r, most)
		for _, d := range slow {
			mustAmend(t, s, d.Charge, stint.Amendment{Kind: stint.AmendSettle})
		}
		store.up()
		for range 50 { // what is owed is charged meanwhile
			time.Sleep(200 * time.Millisecond)
			wantAdmitted(t, s, 1, r, 0)
		}
		time.Sleep(time.Minute)
		wantUsed(t, s, "a", hour, most)
	})
}

// Charges that are remembered together count as the last of them, in whatever order they were
// heard of.
func TestChargesRememberedTogether(t *testing.T) {
	over(t, alone, func(t *testing.T, _ *fake, s *Stack) {
		limit, now := stint.PerHour(100), s.ledger.now()
		n := &count{rule: s.ledger.rule(&limit)}
		n.owe(maxCharged+1, now, now)
		for i := range int64(maxCharged + 1) {
			n.repaid(1, 1, now, 1000-i, uint64(maxBatch*(i+1)), now, 0)
		}
		if got := n.uncounted(999, 2*maxBatch, now); got < 1 {
			t.Errorf("%d units are charged after the answer, want 1 at least", got)
		}
	})
}

// A charge whose answer comes after the refund of an earlier one, and was made before it, counts.
func TestAnswerFromBeforeARefund(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		a, b := stint.PerHour(10), stint.PerHour(1)
		var callers sync.WaitGroup
		store.change(way{back: 8 * time.Millisecond})
		callers.Go(func() { wantAdmitted(t, s, 1, and(oneUnit("a", a), oneUnit("b", b)), 0) }) // overruled
		time.Sleep(time.Millisecond)
		store.fail(refusedCall())
		wantAdmitted(t, s, 1, oneUnit("b", b), 1)
		store.fail(nil)
		time.Sleep(6 * time.Millisecond)
		callers.Go(func() { wantAdmitted(t, s, 1, ask("a", 5, a), 1) })
		callers.Wait()
		if store.amends.Load() == 0 {
			t.Fatal("nothing was refunded before the second answer")
		}
		store.fail(refusedCall())
		wantAdmitted(t, s, 10, oneUnit("a", a), 5)
	})
}

// A store that comes and goes while many ask, for the race detector: one process has the same limit
// with the store and without. What was overruled is given back, so all of the limit is admitted in
// the end, and the store counts exactly that.
func TestStoreThatComesAndGoes(t *testing.T) {
	store := newFake(t)
	c := alone
	c.Failure.Budget = patient.Budget
	s := newStack(t, store, c)
	hour := stint.PerHour(500)
	var total atomic.Int64
	take := func(r stint.Request) {
		if n := total.Add(int64(admitted(t, s, 1, r))); n > hour.Max {
			t.Errorf("%d admitted, want %d", n, hour.Max)
		}
	}
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for k := range 500 {
				r := oneUnit("hot", hour)
				if k%3 == 0 {
					r = and(r, oneUnit(fmt.Sprint("cold", k%7), stint.PerHour(1<<40)))
				}
				take(r)
				switch {
				case i == 0 && k%10 == 0:
					store.fail(refusedCall())
				case i == 0 && k%10 == 5:
					store.fail(nil)
				}
			}
		})
	}
	callers.Wait()
	store.up()
	end := time.Now().Add(time.Minute)
	for total.Load() != hour.Max || usedOf(t, store, "hot", hour) != hour.Max {
		if t.Failed() || time.Now().After(end) {
			t.Fatalf("%d admitted, and the store counts %d; want %d", total.Load(), usedOf(t, store, "hot", hour),
				hour.Max)
		}
		time.Sleep(time.Millisecond)
		take(oneUnit("hot", hour))
	}
}
