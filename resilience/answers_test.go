package resilience

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// After the store's clock has gone back, its answers are taken over again within a second: what
// others use is known, and nobody is locked out for longer than it takes anyway.
func TestStoreClockGoesBack(t *testing.T) {
	each(t, eachKind(1, time.Minute), alone, func(t *testing.T, store *fake, s *Stack, limit stint.Limit) {
		r := oneUnit("a", limit)
		used := admitted(t, s, 5, r)
		store.ahead.Add(-int64(time.Hour))
		used += admitted(t, s, 1, r)
		time.Sleep(1100 * time.Millisecond)
		used += admitted(t, store.Store, 5, r) // by others
		used += admitted(t, s, 1, r)
		if used != 12 {
			t.Fatalf("%d admitted by the store, want 12", used)
		}
		store.fail(refusedCall())
		if n := used + admitted(t, s, 30, r); n != 20 {
			t.Errorf("%d admitted in all, want 20", n)
		}
		time.Sleep(time.Duration(limit.Capacity()/limit.Max)*time.Minute + limit.Window/parts)
		wantAdmitted(t, s, 30, r, 20)
	})
}

// More subjects than fit in memory are decided all the same, and those of one request are known
// while that is decided.
func TestMoreSubjectsThanFit(t *testing.T) {
	c := alone
	c.LocalBytes = 1
	cases := map[string]bool{"with the store": false, "without": true}
	each(t, cases, c, func(t *testing.T, store *fake, s *Stack, fails bool) {
		if fails {
			store.down()
		}
		for i := range 1200 {
			mustDecide(t, s, oneUnit(fmt.Sprint(i), stint.PerHour(10)))
		}
		// The scopes of one subject share a stripe, where fewer are.
		var r stint.Request
		for i := range 20 {
			r.Claims = append(r.Claims, stint.Claim{Subject: "a", Scope: fmt.Sprint(i),
				Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1})
		}
		if !mustDecide(t, s, r).Allowed {
			t.Fatal("denied")
		}
		store.fail(refusedCall())
		for i := range r.Claims {
			if mustDecide(t, s, stint.Request{Claims: r.Claims[i : i+1]}).Allowed {
				t.Errorf("scope %d is admitted twice", i)
			}
		}
		records := 0
		for i := range s.ledger.stripes {
			records += len(s.ledger.stripes[i].records)
		}
		// One more for every stripe that had none to forget.
		if most := int(s.ledger.most) + stripes + len(r.Claims); records > most {
			t.Errorf("%d subjects are known, want %d at most", records, most)
		}
		store.up()
		time.Sleep(10 * time.Second)
		for i := range r.Claims {
			d := mustDecide(t, store, peek(stint.Request{Claims: r.Claims[i : i+1]}))
			if got := d.Usages()[0].Used; got != 1 {
				t.Errorf("scope %d: the store has counted %d, want 1", i, got)
			}
		}
	})
}

// An answer that comes after a newer one is checked against all that was granted meanwhile, also
// when units have left their window here that had left the store's before.
func TestAllowedBeforeADebtWasCharged(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.Per(16, 160*time.Second)
		time.Sleep(5 * time.Second) // the middle of a sixteenth
		wantAdmitted(t, s, 1, ask("a", 2, limit), 1)
		time.Sleep(15 * time.Second)
		wantAdmitted(t, s, 1, ask("a", 8, limit), 1)
		store.fail(refusedCall())
		time.Sleep(10 * time.Second)
		wantAdmitted(t, s, 1, ask("a", 6, limit), 1)
		time.Sleep(136 * time.Second)
		r := ask("a", 3, limit)
		d := mustDecide(t, store, r) // the answer takes more than four seconds
		store.up()
		time.Sleep(3500 * time.Millisecond) // the debt is charged
		wantAdmitted(t, s, 1, oneUnit("a", limit), 0)
		time.Sleep(600 * time.Millisecond)
		if s.ledger.answered(&r, &d, 1, s.ledger.now(), false); d.Allowed {
			t.Error("admitted 17 of 16")
		}
	})
}

// TestAnswersOfABatch checks that what is left is known exactly after the answers of a batch, which
// have one instant, and whose callers wake up in any order.
func TestAnswersOfABatch(t *testing.T) {
	each(t, eachKind(1, time.Hour), alone, func(t *testing.T, store *fake, s *Stack, limit stint.Limit) {
		store.change(way{there: time.Millisecond}) // so that requests wait for each other
		r := oneUnit("a", limit)
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { wantDecided(t, s, r, true, false) })
		}
		callers.Wait()
		store.fail(refusedCall())
		wantAdmitted(t, s, 20, r, 10)
	})
}

// TestAnswersInAnyOrder checks that a process which learns of answers in any order never takes what
// is used for less, and knows it exactly: at once if the answers are of one instant, or after the
// next answer.
func TestAnswersInAnyOrder(t *testing.T) {
	for _, apart := range []time.Duration{0, time.Millisecond} {
		each(t, eachKind(1, time.Hour), alone, func(t *testing.T, store *fake, s *Stack, limit stint.Limit) {
			for seed := range uint64(50) {
				r := oneUnit(fmt.Sprint(seed), limit)
				var answers []stint.Decision
				for range 10 {
					answers = append(answers, mustDecide(t, store.Store, r))
					time.Sleep(apart)
				}
				for n, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(answers)) {
					s.ledger.answered(&r, &answers[i], uint64(n+1), s.ledger.now(), false)
				}
				store.fail(refusedCall())
				want := 10
				if apart > 0 {
					if used := usedOf(t, s, r.Claims[0].Subject, limit); used < 10 {
						t.Errorf("order %d: %d known to be used, want 10", seed, used)
					}
					store.fail(nil)
					wantAdmitted(t, s, 1, r, 1)
					store.fail(refusedCall())
					want = 9
				}
				wantAdmitted(t, s, 20, r, want)
				store.fail(nil)
			}
		})
	}
}

// TestAllowedAfterANewerDenial checks that an answer that allows, and comes after a newer one that
// denies, makes no room, whether its caller still waits for it or not.
func TestAllowedAfterANewerDenial(t *testing.T) {
	for _, budget := range []time.Duration{time.Second, 15 * time.Millisecond} {
		c := alone
		c.Failure.Budget = budget
		each(t, eachKind(1, time.Hour), c, func(t *testing.T, store *fake, s *Stack, limit stint.Limit) {
			r := oneUnit("a", limit)
			store.change(way{back: 50 * time.Millisecond})
			var caller sync.WaitGroup
			caller.Go(func() { wantAdmitted(t, s, 1, r, 1) })
			time.Sleep(20 * time.Millisecond)
			admitted(t, store, 19, r) // by others
			store.change(way{})
			wantDecided(t, s, r, false, false)
			caller.Wait()
			time.Sleep(40 * time.Millisecond)
			store.fail(refusedCall())
			wantAdmitted(t, s, 20, r, 0)
		})
	}
}
