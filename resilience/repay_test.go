package resilience

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/testkit"
)

// A reset waits for what is being charged: nothing of it counts afterwards.
func TestResetWhileDebtsAreCharged(t *testing.T) {
	for _, id := range []string{"", "x"} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			r := named(oneUnit("a"), id)
			store.down()
			mustDecide(t, s, r)
			store.up()
			charging := make(chan struct{}, 100)
			store.hook(func(op string) {
				if op == opTake {
					charging <- struct{}{}
					time.Sleep(200 * time.Millisecond)
				}
			})
			<-charging
			mustCommand(t, s, resetOf(r.Claims[0]))
			store.hook(nil)
			time.Sleep(5 * time.Second)
			wantUsed(t, store, "a", stint.PerHour(1000), 0)
		})
	}
}

// Requests with many IDs on one subject owe a bounded number of debts. A request carries a bounded
// number of them, and in the end all is charged.
func TestManyIDsOfOneSubject(t *testing.T) {
	testkit.SkipUnderRace(t)
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.PerHour(1_000_000)
		store.down()
		const requests = maxNamed + 200
		for i := range requests {
			wantAdmitted(t, s, 1, named(oneUnit("a", limit), fmt.Sprint(i)), 1)
		}
		claim := oneUnit("a", limit)
		rec := s.ledger.find(&claim.Claims[0])
		if d, n := len(rec.debts), len(rec.named); d > maxDebts+parts || n > maxNamed {
			t.Errorf("%d debts and %d ids, want %d and %d at most", d, n, maxDebts, maxNamed)
		}
		calls := s.ledger.carry(&claim)
		if len(calls) > sendMost {
			t.Errorf("a request carries %d calls, want %d at most", len(calls), sendMost)
		}
		giveUp(calls)
		store.up()
		time.Sleep(10 * time.Second)
		wantUsed(t, store, "a", limit, requests)
	})
}

// lose has a store charge what it is owed, and lose the first n answers to that.
func (f *fake) lose(n int64) (lost *atomic.Int64) {
	lost = new(atomic.Int64)
	f.reply(func(c *driver.Call) {
		if c.Err == nil && c.Request.Mode == driver.ModeForce && lost.Load() < n {
			lost.Add(1)
			c.Decision, c.Err = stint.Decision{}, storeError(stint.KindUnreachable)
		}
	})
	return lost
}

// What is owed is charged once, although answers are lost: also if the ID of the request has ended
// by then, or one of its windows, of another subject or of the same one.
func TestDebtsAreChargedOnce(t *testing.T) {
	second, hour := stint.PerSecond(10), stint.PerHour(10)
	short := oneUnit("a", hour)
	short.ID, short.IDLife = "x", time.Second
	type row struct {
		r      stint.Request
		outage time.Duration
		lost   int64
	}
	each(t, map[string]row{
		"the ID has ended": {short, 40 * time.Second, 4},
		"two subjects":     {named(and(oneUnit("user", second), oneUnit("a", hour)), "x"), 0, 2},
		"one subject":      {oneUnit("a", second, hour), 0, 2},
	}, alone, func(t *testing.T, store *fake, s *Stack, test row) {
		store.down()
		mustDecide(t, s, test.r)
		time.Sleep(test.outage)
		lost := store.lose(test.lost)
		store.up()
		time.Sleep(20 * time.Second)
		if n := lost.Load(); n != test.lost {
			t.Fatalf("%d answers lost, want %d", n, test.lost)
		}
		wantUsed(t, store, "a", hour, 1)
	})
}

// An answer that came while a refund or a give-back was under way may be from after it, so that
// others have what it counts beside the units that this process still counted as its own.
func TestAnswersDuringARefund(t *testing.T) {
	for _, limit := range []stint.Limit{stint.Per(4, time.Minute), stint.TokenBucket(4, 4, time.Minute)} {
		for _, command := range []bool{false, true} {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				d := mustDecide(t, s, oneUnit("a", limit))
				wantAdmitted(t, store, 2, oneUnit("a", limit), 2)
				sent := s.ledger.now()
				time.Sleep(time.Millisecond)
				mustAmend(t, store, d.Charge, settleTo(0))
				wantAdmitted(t, s, 1, ask("a", 4, limit), 0)
				if command {
					s.ledger.commanded(&stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Units: 1,
						Limits: []stint.Limit{limit}}, true, sent)
				} else {
					s.ledger.amended(&d.Charge, settleTo(0), 0, sent)
				}
				store.fail(refusedCall())
				wantAdmitted(t, s, 4, oneUnit("a", limit), 2)
			})
		}
	}
}

// A debt that surely did not reach the store is charged less what was refilled since.
func TestDebtThatWasNotSent(t *testing.T) {
	for _, cause := range []error{refusedCall(), &stint.StoreError{Op: "take", Kind: stint.KindUnreachable,
		Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			limit := stint.TokenBucket(10, 1, time.Second)
			time.Sleep(time.Second)
			wantAdmitted(t, s, 1, oneUnit("a", limit), 1) // what was used before is known
			store.fail(cause)
			wantAdmitted(t, s, 12, oneUnit("a", limit), 9) // each tries to charge those before it
			time.Sleep(3 * time.Second)
			store.up()
			time.Sleep(2 * time.Second)
			if used := usedOf(t, store, "a", limit); used < 5 || used > 6 {
				t.Errorf("%v: %d used after 5 seconds, want 5 of 10", cause, used)
			}
		})
	}
}

// Units that are owed from different times are charged as of their own time, or a little later, in
// whatever order they became known.
func TestDueOutOfOrder(t *testing.T) {
	s, r := newStack(t, newFake(t), alone), oneUnit("a", stint.PerMinute(100))
	n := s.ledger.count(s.ledger.record(&r.Claims[0], 0), &r.Claims[0].Limits[0], 0)
	var granted []int64
	for second := range int64(200) {
		at := second * int64(time.Second)
		n.owe(1, at, at)
		granted = append(granted, at)
	}
	for _, at := range slices.Backward(granted) {
		n.together(1, at)
	}
	due := int64(0)
	for _, p := range n.owed.parts {
		until := n.owedUntil(&p)
		if due += p.due; p.due > 0 && (p.at-p.from >= n.part || until < p.at+int64(n.Window)) {
			t.Errorf("%d units of %v to %v count until %v", p.due, time.Duration(p.from), time.Duration(p.at),
				time.Duration(until))
		}
	}
	if due < 60 || due > 64 {
		t.Errorf("%d units are due, want those of the last minute, and of no more than a sixteenth before", due)
	}
}

// Debts are in the order of their grants, although the request of an older one was answered later:
// what the meter gave back is credited to the oldest first.
func TestDebtsAreInOrder(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := oneUnit("a")
		rec := s.ledger.record(&r.Claims[0], 0)
		for _, at := range []int64{5, 3, 5, 7, 1} {
			s.ledger.addDebt(&debt{home: rec, claims: r.Claims, at: at, state: openDebt})
		}
		if !slices.IsSortedFunc(rec.debts, func(a, b *debt) int { return cmp.Compare(a.at, b.at) }) {
			t.Errorf("got %v", rec.debts)
		}
	})
}

// levels returns those of the meter of a request's first limit, and the weight of a unit.
func (s *Stack) levels(r *stint.Request) (stored, local, unit int64) {
	l, c := s.ledger, &r.Claims[0]
	defer l.unlock(l.lock(r.Claims))
	n := l.find(c).of(&c.Limits[0], 0)
	m := n.metered(l.now())
	return m.stored, m.local, n.unit
}

// TestRefundOfAChargedUnit checks that a refund of what the store has charged lowers the store's
// level, and not that of units that are still owed.
func TestRefundOfAChargedUnit(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.Per(4, 5*time.Second).BurstTimes(3)
		mustDecide(t, s, ask("a", 8, limit))
		store.fail(refusedCall())
		charged := mustDecide(t, s, oneUnit("a", limit))
		store.up()
		time.Sleep(time.Second)
		wantUsed(t, store, "a", limit, 9)
		store.fail(refusedCall())
		r := oneUnit("a", limit)
		mustDecide(t, s, r)
		mustAmend(t, s, charged.Charge, settleTo(0))
		if _, local, unit := s.levels(&r); local != unit {
			t.Errorf("the level here is %d, want that of one unit, %d", local, unit)
		}
	})
}

// TestLateRaiseRefills checks that the refill since a raise is credited to the raise, once the store
// has made it, and not to newer units that are still owed.
func TestLateRaiseRefills(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		bucket := stint.TokenBucket(10, 10, time.Second)
		r := ask("a", 5, bucket)
		d := mustDecide(t, s, r)
		store.fail(refusedCall(), opTake, opAmend)
		mustAmend(t, s, d.Charge, settleTo(8))
		time.Sleep(900 * time.Millisecond)
		wantAdmitted(t, s, 5, oneUnit("a", bucket), 5)
		store.fail(nil, opAmend) // the raise is made, and the debts are not
		time.Sleep(200 * time.Millisecond)
		if stored, local, unit := s.levels(&r); local < 3*unit {
			t.Errorf("%d in the store and %d here, want 3 units of %d here", stored, local, unit)
		}
	})
}

// TestRefundBeforeTheCharge checks that a debt which is refunded before the store is charged with it
// changes nothing there: the store gives back as much as it was charged.
func TestRefundBeforeTheCharge(t *testing.T) {
	for _, limit := range []stint.Limit{stint.PerMinute(6).BurstTimes(2), stint.TokenBucket(12, 6, time.Minute)} {
		for _, id := range []string{"", "x"} {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				mustDecide(t, s, oneUnit("a", limit)) // what was used before is known
				time.Sleep(5 * time.Minute)
				wantAdmitted(t, store, 1, ask("a", 12, limit), 1) // by others
				store.fail(refusedCall())
				time.Sleep(50 * time.Second)
				d := mustDecide(t, s, named(ask("a", 3, limit), id))
				time.Sleep(2 * time.Second) // it could not be charged
				mustAmend(t, s, d.Charge, settleTo(0))
				time.Sleep(18 * time.Second)
				store.up()
				time.Sleep(2 * time.Second)
				wantAdmitted(t, store, 12, oneUnit("a", limit), 7) // what was refilled in 72 s
			})
		}
	}
}

// TestDebtOfTheSecondSubjectEnds checks that what is owed under a limit of another subject than the
// first of its request is over when its window is, and denies nothing after the outage.
func TestDebtOfTheSecondSubjectEnds(t *testing.T) {
	bucket := stint.TokenBucket(10, 10, time.Second)
	for _, outage := range []time.Duration{5 * time.Second, 61 * time.Second, time.Hour} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			tenant := oneUnit("tenant", bucket)
			store.down()
			for i := range 5 {
				r := and(oneUnit("user", stint.PerMinute(100)), tenant)
				r.ID = fmt.Sprint(i)
				mustDecide(t, s, r)
			}
			time.Sleep(outage)
			store.up()
			for range 2 {
				time.Sleep(2 * time.Second)
				wantAdmitted(t, s, 15, tenant, 10)
			}
			time.Sleep(2 * time.Second)
			store.fail(refusedCall())
			wantAdmitted(t, s, 15, tenant, 10)
		})
	}
}

// TestPlaceOfADebt checks that a place which was charged with its request counts once: the store's
// answers count it, and it is not taken for one that others have.
func TestPlaceOfADebt(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.Concurrency(3, time.Minute)
		store.fail(refusedCall())
		mustDecide(t, s, named(oneUnit("a", place, stint.PerHour(100)), "id"))
		store.up()
		time.Sleep(2 * time.Second)
		wantUsed(t, store, "a", place, 1)
		wantAdmitted(t, s, 1, oneUnit("a", place), 1)
		store.fail(refusedCall())
		wantAdmitted(t, s, 2, oneUnit("a", place), 1)
	})
}

// TestResetOfLimitsThatCameLater checks that a reset which names a limit that was not known yet when
// the first of what is owed was granted resets all of it.
func TestResetOfLimitsThatCameLater(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		minute, hour := stint.PerMinute(100), stint.PerHour(100)
		s.sender.charging.Store(true) // nothing is sent meanwhile
		store.down()
		mustDecide(t, s, oneUnit("a", minute))
		time.Sleep(10 * time.Second)
		both := oneUnit("a", minute, hour)
		mustDecide(t, s, both)
		store.up()
		mustCommand(t, s, resetOf(both.Claims[0]))
		s.sender.charging.Store(false)
		s.sender.start()
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "a", minute, 0)
		wantUsed(t, store, "a", hour, 0)
	})
}
