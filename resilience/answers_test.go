package resilience

import (
	"fmt"
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
			c := r.Claims[i]
			c.Cost = 0
			d := mustDecide(t, store, stint.Request{Claims: []stint.Claim{c}, Mode: stint.ModePeek})
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
