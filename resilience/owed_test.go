package resilience

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

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
	const most = 1 << 20
	each(t, map[string]stint.Limit{
		"sliding": stint.PerHour(5), "burst": stint.PerHour(5).BurstTimes(2), "places": stint.Concurrency(5, time.Hour),
	}, Config{Instances: 1, LocalBytes: most}, func(t *testing.T, store *fake, s *Stack, limit stint.Limit) {
		store.down()
		full := oneUnit("full", stint.PerHour(10))
		wantAdmitted(t, s, 11, full, 10)
		before := testkit.HeapInUse()
		for i := range 3 * most / recordBytes {
			wantAdmitted(t, s, 1, oneUnit(fmt.Sprint("subject", i), limit), 1)
		}
		wantAdmitted(t, s, 1, full, 0)
		if grown := testkit.HeapInUse() - before; grown > most*6/5 {
			t.Errorf("%d KiB in use, want %d", grown>>10, most>>10)
		}
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
			mustAmend(t, s, d.Charge, settleTo(0))
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

// TestOwedUnitsGoAlong checks that what a subject owes is charged before its next request is
// decided, in the same call.
func TestOwedUnitsGoAlong(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.PerHour(3)
		r := oneUnit("a", limit)
		mustDecide(t, s, r)
		store.change(way{there: 20 * time.Millisecond}) // too late for both
		wantAdmitted(t, s, 2, r, 2)
		time.Sleep(10 * time.Millisecond) // both are known to be owed, and nothing was charged in the background
		store.change(way{})
		wantUsed(t, store, "a", limit, 1)
		if d := mustDecide(t, s, r); d.Allowed || d.Degraded || d.Usages()[0].Used != 3 {
			t.Errorf("allowed %v, degraded %v, used %d; want a denial by the store, 3 used", d.Allowed, d.Degraded,
				d.Usages()[0].Used)
		}
	})
}

// TestListsThatShareALimit checks that what is owed under a limit counts for every list of limits
// that the limit is in.
func TestListsThatShareALimit(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		hour, day := stint.PerHour(10), stint.PerDay(100)
		store.fail(refusedCall())
		wantAdmitted(t, s, 10, oneUnit("a", hour, day), 10)
		store.up()
		wantAdmitted(t, s, 10, oneUnit("a", hour), 0)
	})
}

// TestShortLimitBesideALongOne checks that after a long outage a short limit is charged only with
// what it still counts, wherever it is in the list.
func TestShortLimitBesideALongOne(t *testing.T) {
	day, bucket := stint.PerDay(10_000), stint.TokenBucket(5, 5, time.Second)
	each(t, map[string][]stint.Limit{"day first": {day, bucket}, "bucket first": {bucket, day}}, alone,
		func(t *testing.T, store *fake, s *Stack, limits []stint.Limit) {
			store.fail(refusedCall())
			for i := range 310 {
				if i == 300 {
					store.up()
					time.Sleep(300 * time.Millisecond)
				}
				if d := mustDecide(t, s, oneUnit("a", limits...)); !d.Allowed {
					t.Fatalf("denied after %d s: used %v, retry after %v", i, d.Usages(), d.RetryAfter)
				}
				time.Sleep(time.Second)
			}
		})
}

// TestAnswerFromBeforeARefund checks that a charge counts whose answer comes after the refund of an
// earlier one, although it was made before that.
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

// TestMemoryOfALongOutage checks that the memory for what is owed is bounded, however long an outage
// lasts, and that all of it is charged afterwards.
func TestMemoryOfALongOutage(t *testing.T) {
	testkit.SkipUnderRace(t)
	const seconds, calls, cost = 150, 200, 100
	each(t, map[string]int{"one": 1, "many": 1000}, Config{Instances: 1},
		func(t *testing.T, store *fake, s *Stack, subjects int) {
			limit := stint.PerHour(1 << 40)
			take := func(i int) { wantAdmitted(t, s, 1, ask(fmt.Sprint("subject", i%subjects), cost, limit), 1) }
			for i := range subjects {
				take(i) // with the store
			}
			store.down()
			before := testkit.HeapInUse()
			for n := range seconds * calls {
				if take(n); n%20 == 19 {
					time.Sleep(100 * time.Millisecond)
				}
			}
			if grown := testkit.HeapInUse() - before; grown > 4<<20 {
				t.Errorf("%d KiB more in use after the outage", grown>>10)
			}
			store.up()
			time.Sleep(10 * time.Minute)
			for i := range subjects {
				wantUsed(t, store, fmt.Sprint("subject", i), limit, int64(cost*(seconds*calls/subjects+1)))
			}
		})
}

// TestStoreThatComesAndGoes checks, for the race detector, that a process has the same limit with the
// store and without, while many ask. What was overruled is given back, so all of the limit is
// admitted in the end, and the store counts exactly that.
func TestStoreThatComesAndGoes(t *testing.T) {
	c := alone
	c.Failure.Budget = patient.Budget
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		hour := stint.PerHour(500)
		var total atomic.Int64
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for k := range 500 {
					r := oneUnit("hot", hour)
					if k%3 == 0 {
						r = and(r, oneUnit(fmt.Sprint("cold", k%7), stint.PerHour(1<<40)))
					}
					total.Add(int64(admitted(t, s, 1, r)))
					switch {
					case i == 0 && k%10 == 0:
						store.fail(refusedCall())
					case i == 0 && k%10 == 5:
						store.fail(nil)
					}
					time.Sleep(time.Duration(k%3) * time.Microsecond)
				}
			})
		}
		callers.Wait()
		store.up()
		for range 10 {
			time.Sleep(5 * time.Second)
			total.Add(int64(admitted(t, s, 500, oneUnit("hot", hour))))
		}
		if n := total.Load(); n != hour.Max {
			t.Errorf("%d admitted, want %d", n, hour.Max)
		}
		wantUsed(t, store, "hot", hour, hour.Max)
	})
}
