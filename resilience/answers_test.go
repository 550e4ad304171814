package resilience

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// If a process learns of answers in any order, of one instant or not, it never takes what is used
// for less, and knows it exactly: at once, or after the next answer.
func TestAnswersInAnyOrder(t *testing.T) {
	for name, limit := range eachKind(1, time.Hour) {
		for _, apart := range []time.Duration{0, time.Millisecond} {
			t.Run(fmt.Sprint(name, ", apart ", apart), func(t *testing.T) {
				for seed := range uint64(20) {
					over(t, alone, func(t *testing.T, store *fake, s *Stack) { answersInAnyOrder(t, store, s, limit, apart, seed) })
				}
			})
		}
	}
}

func answersInAnyOrder(t *testing.T, store *fake, s *Stack, limit stint.Limit, apart time.Duration, seed uint64) {
	t.Helper()
	r := oneUnit("a", limit)
	var answers []stint.Decision
	for range 10 {
		answers = append(answers, mustDecide(t, store, r))
		time.Sleep(apart)
	}
	for n, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(answers)) {
		s.ledger.answered(&r, &answers[i], uint64(n+1), s.ledger.now(), false)
	}
	store.fail(refusedCall())
	if apart == 0 {
		n := s.ledger.find(&r.Claims[0]).of(&limit, 0)
		if limit.Algorithm == stint.AlgorithmBucket && n.meter.raised != 0 {
			t.Errorf("order %d: %d taken to be of others, want 0", seed, n.meter.raised)
		}
		wantAdmitted(t, s, 20, r, 10)
		return
	}
	r.Mode = stint.ModePeek
	if d := mustDecide(t, s, r); d.Usages()[0].Used < 10 {
		t.Errorf("order %d: %d known to be used, want 10", seed, d.Usages()[0].Used)
	}
	r.Mode = stint.ModeTake
	store.up()
	mustDecide(t, s, r)
	store.fail(refusedCall())
	wantAdmitted(t, s, 20, r, 9)
}

// An answer that allows, and comes after a newer one that denies, makes no room.
func TestAllowedAfterANewerDenial(t *testing.T) {
	for name, budget := range map[string]time.Duration{"in time": time.Second, "late": 15 * time.Millisecond} {
		for kind, limit := range eachKind(1, time.Hour) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				c := alone
				c.Failure.Budget = budget
				over(t, c, func(t *testing.T, store *fake, s *Stack) {
					r := oneUnit("a", limit)
					store.change(way{back: 50 * time.Millisecond})
					var caller sync.WaitGroup
					caller.Go(func() {
						if d := mustDecide(t, s, r); !d.Allowed {
							t.Error("the first is denied")
						}
					})
					time.Sleep(20 * time.Millisecond)
					admitted(t, store, 19, r) // by others
					store.change(way{})
					if d := mustDecide(t, s, r); d.Allowed || d.Degraded {
						t.Errorf("the second is allowed %v, degraded %v", d.Allowed, d.Degraded)
					}
					caller.Wait()
					time.Sleep(40 * time.Millisecond)
					store.fail(refusedCall())
					wantAdmitted(t, s, 20, r, 0)
				})
			})
		}
	}
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

// After the store's clock has gone back, its answers are taken over again within a second: what
// others use is known, and nobody is locked out for longer than it takes anyway.
func TestStoreClockGoesBack(t *testing.T) {
	for name, limit := range eachKind(1, time.Minute) {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
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
		})
	}
}

// A denial that did not ask about a claim says nothing about its limits.
func TestAnswerThatDidNotAskAboutAClaim(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.PerHour(100)
		full := stint.Usage{Used: 100, ResetAfter: time.Hour, RetryAfter: time.Hour}
		tenant := oneUnit("tenant", limit)
		d := stint.Decision{Charge: driver.NewCharge(tenant.Claims, driver.ChargeData{Now: 1000})}
		d.MakeUsages(1)[0] = full
		s.ledger.answered(&tenant, &d, 1, s.ledger.now(), false)
		time.Sleep(2 * time.Second)
		both := oneUnit("user", limit)
		both.Claims = append(both.Claims[:1:1], tenant.Claims...)
		d = stint.Decision{Charge: driver.NewCharge(both.Claims,
			driver.ChargeData{Now: 2000, Others: &driver.OtherStates{Now: []int64{0}}})}
		d.MakeUsages(2)[0] = full
		s.ledger.answered(&both, &d, 2, s.ledger.now(), false)
		store.fail(refusedCall())
		wantAdmitted(t, s, 1, tenant, 0)
	})
}

// More subjects than fit in memory are decided all the same, and those of one request are known
// while that is decided.
func TestMoreSubjectsThanFit(t *testing.T) {
	for name, fails := range map[string]bool{"with the store": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			c := alone
			c.LocalBytes = 1
			over(t, c, func(t *testing.T, store *fake, s *Stack) {
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
					c := r.Claims[i]
					c.Cost = 0
					d := mustDecide(t, store, stint.Request{Claims: []stint.Claim{c}, Mode: stint.ModePeek})
					if got := d.Usages()[0].Used; got != 1 {
						t.Errorf("scope %d: the store has counted %d, want 1", i, got)
					}
				}
			})
		})
	}
}

// A denial that overrules the store says when to come back.
func TestOverruledSaysWhenToRetry(t *testing.T) {
	for _, limit := range []stint.Limit{stint.PerHour(20), stint.TokenBucket(20, 20, time.Hour),
		{Max: 20, Window: time.Hour, Algorithm: stint.AlgorithmFixed}} {
		t.Run(limit.String(), func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				r := oneUnit("a", limit)
				store.down()
				admitted(t, s, 20, r)
				store.up()
				d := mustDecide(t, s, r)
				if d.Allowed || d.RetryAfter == 0 || d.Usages()[0].RetryAfter == 0 {
					t.Errorf("allowed %v, retry after %v, usage %+v", d.Allowed, d.RetryAfter, d.Usages()[0])
				}
			})
		})
	}
}
