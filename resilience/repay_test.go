package resilience

import (
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

// A request whose ID has ended during the outage is charged once, also if answers are lost.
func TestEndedIDIsChargedOnce(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := oneUnit("a")
		r.ID, r.IDLife = "x", time.Second
		store.down()
		mustDecide(t, s, r)
		time.Sleep(40 * time.Second)
		lost := store.lose(4)
		store.up()
		time.Sleep(20 * time.Second)
		if n := lost.Load(); n != 4 {
			t.Fatalf("%d answers lost, want 4", n)
		}
		wantUsed(t, store, "a", r.Claims[0].Limits[0], 1)
	})
}

// A request has windows of different lengths. The long one is charged once, although the other has
// passed when the charge is repeated: of another subject, or of the same one without an ID.
func TestDebtOutlivesTheShorterWindow(t *testing.T) {
	second, hour := stint.PerSecond(10), stint.PerHour(10)
	for name, r := range map[string]stint.Request{
		"two subjects": named(and(oneUnit("user", second), oneUnit("tenant", hour)), "x"),
		"one subject":  oneUnit("tenant", second, hour),
	} {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				store.down()
				mustDecide(t, s, r)
				lost := store.lose(2) // it is sent again after a second
				store.up()
				time.Sleep(10 * time.Second)
				if n := lost.Load(); n != 2 {
					t.Fatalf("%d answers lost, want 2", n)
				}
				wantUsed(t, store, "tenant", hour, 1)
			})
		})
	}
}

// A reset waits for what is being charged: nothing of it counts afterwards.
func TestResetWhileDebtsAreCharged(t *testing.T) {
	for _, id := range []string{"", "x"} {
		t.Run("id "+id, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				r := oneUnit("a")
				r.ID = id
				store.down()
				mustDecide(t, s, r)
				store.up()
				charging := make(chan struct{}, 100)
				store.hook(func(op string) {
					if op == "take" {
						charging <- struct{}{}
						time.Sleep(200 * time.Millisecond)
					}
				})
				<-charging
				if err := s.Command(t.Context(),
					resetOf(r.Claims[0])); err != nil {
					t.Fatal(err)
				}
				store.hook(nil)
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", r.Claims[0].Limits[0], 0)
			})
		})
	}
}

// A reset names limits that were not known yet when the first of what is owed was granted.
func TestResetOfLimitsThatCameLater(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		minute, hour := stint.PerMinute(100), stint.PerHour(100)
		s.sender.charging.Store(true) // nothing is sent meanwhile
		store.down()
		mustDecide(t, s, oneUnit("a", minute))
		time.Sleep(10 * time.Second)
		mustDecide(t, s, oneUnit("a", minute, hour))
		store.up()
		if err := s.Command(t.Context(),
			stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: []stint.Limit{minute, hour}}); err != nil {
			t.Fatal(err)
		}
		s.sender.charging.Store(false)
		s.sender.start()
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "a", minute, 0)
		wantUsed(t, store, "a", hour, 0)
	})
}

// What is owed under a limit of another subject than the first of its request is over when its
// window is. It does not deny anything after the outage.
func TestDebtOfTheSecondSubjectEnds(t *testing.T) {
	bucket := stint.TokenBucket(10, 10, time.Second)
	for _, outage := range []time.Duration{5 * time.Second, 61 * time.Second, time.Hour} {
		t.Run(outage.String(), func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				tenant := oneUnit("tenant", bucket)
				store.down()
				for i := range 5 {
					r := oneUnit("user", stint.PerMinute(100))
					r.ID = fmt.Sprint(i)
					r.Claims = append(r.Claims[:1:1], tenant.Claims...)
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
		const requests = 3_000
		for i := range requests {
			r := oneUnit("a", limit)
			r.ID = fmt.Sprint(i)
			if !mustDecide(t, s, r).Allowed {
				t.Fatal("denied")
			}
		}
		claim := oneUnit("a", limit)
		rec := s.ledger.find(&claim.Claims[0])
		if n := len(rec.debts); n > maxDebts+parts {
			t.Errorf("%d debts, want %d at most", n, maxDebts)
		}
		if n := len(rec.named); n > maxNamed {
			t.Errorf("%d ids are remembered, want %d at most", n, maxNamed)
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

// A request with an ID whose first claim costs nothing is charged like one without an ID.
func TestIDWhoseFirstClaimIsFree(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.PerHour(10)
		r := oneUnit("a", limit)
		r.ID, r.Claims[0].Cost = "x", 0
		r.Claims = append(r.Claims[:1:1], stint.Claim{Subject: "b", Limits: []stint.Limit{limit}, Cost: 1})
		for _, failure := range []error{nil, refusedCall(), storeError(stint.KindUnreachable), nil} {
			store.fail(failure)
			if d := mustDecide(t, s, r); !d.Allowed || d.Repeat {
				t.Errorf("%v: allowed %v, repeat %v", failure, d.Allowed, d.Repeat)
			}
		}
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "a", limit, 0)
		wantUsed(t, store, "b", limit, 4)
	})
}

// What the store does not count yet is held against its answer in whatever order the limits are.
func TestUncountedUnitsBesideAPlace(t *testing.T) {
	hour, place := stint.PerHour(100), stint.AtOnce(10, time.Minute)
	for name, limits := range map[string][]stint.Limit{"place last": {hour, place}, "place first": {place, hour}} {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				r := oneUnit("a", limits...)
				r.Claims[0].Cost = 60
				store.down()
				if !mustDecide(t, s, r).Allowed {
					t.Fatal("denied without the store")
				}
				store.up()
				if mustDecide(t, s, r).Allowed {
					t.Error("120 admitted under 100 an hour")
				}
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", hour, 60)
				wantUsed(t, store, "a", place, 0)
			})
		})
	}
}

// A debt that surely did not reach the store is charged less what was refilled since.
func TestDebtThatWasNotSent(t *testing.T) {
	for name, cause := range map[string]error{
		"no connection": &stint.StoreError{Op: "take", Kind: stint.KindUnreachable,
			Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}},
		"refused": refusedCall(),
	} {
		t.Run(name, func(t *testing.T) {
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
					t.Errorf("%d used after 5 seconds, want 5 of 10", used)
				}
			})
		})
	}
}

// Units that are owed from different times are charged as of their own time, or a little later, in
// whatever order they became known.
func TestDueOutOfOrder(t *testing.T) {
	s := newStack(t, newFake(t), alone)
	r := oneUnit("a", stint.PerMinute(100))
	rec := s.ledger.record(&r.Claims[0], 0)
	n := s.ledger.count(rec, &r.Claims[0].Limits[0], 0)
	var granted []int64
	for second := range int64(200) {
		at := second * int64(time.Second)
		n.owe(1, at, at)
		granted = append(granted, at)
	}
	slices.Reverse(granted)
	for _, at := range granted {
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

// A debt that is refunded before the store is charged with it changes nothing there: the store
// gives back as much as it was charged.
func TestRefundBeforeTheCharge(t *testing.T) {
	for _, limit := range []stint.Limit{stint.PerMinute(6).WithBurst(2), stint.TokenBucket(12, 6, time.Minute)} {
		for name, id := range map[string]string{"with an ID": "x", "with others": ""} {
			t.Run(limit.String()+"/"+name, func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					mustDecide(t, s, oneUnit("a", limit)) // what was used before is known
					time.Sleep(5 * time.Minute)
					wantAdmitted(t, store, 1, ask("a", 12, limit), 1) // by others
					store.fail(refusedCall())
					time.Sleep(50 * time.Second)
					r := ask("a", 3, limit)
					r.ID, r.IDLife = id, time.Hour
					d := mustDecide(t, s, r)
					time.Sleep(2 * time.Second) // it could not be charged
					mustAmend(t, s, d.Charge, stint.Amendment{})
					time.Sleep(18 * time.Second)
					store.up()
					time.Sleep(2 * time.Second)
					wantAdmitted(t, store, 12, oneUnit("a", limit), 7) // what was refilled in 72 s
				})
			})
		}
	}
}

// A place that was charged with its request counts once: the store's answers count it, and it is not
// taken for one that others have.
func TestPlaceOfADebt(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.AtOnce(3, time.Minute)
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

// An answer that came while a refund was under way may be from after it, so that others have what
// it counts beside the units that this process still counted as its own.
func TestAnswersDuringARefund(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.Per(4, time.Second)
		d := mustDecide(t, s, oneUnit("a", limit))
		wantAdmitted(t, store, 2, oneUnit("a", limit), 2)
		sent := s.ledger.now()
		time.Sleep(time.Millisecond)
		mustAmend(t, store, d.Charge, stint.Amendment{})
		wantAdmitted(t, s, 1, ask("a", 4, limit), 0)
		s.ledger.amended(&d.Charge, stint.Amendment{}, 0, sent)
		store.fail(refusedCall())
		wantAdmitted(t, s, 4, oneUnit("a", limit), 2)
	})
}
