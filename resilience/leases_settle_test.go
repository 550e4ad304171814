package resilience

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/storebounds"
)

func TestLeasesSettle(t *testing.T) {
	limit := stint.Per(10_000, 10*time.Second).WithLease()
	settle := func(t *testing.T, l *leases, d stint.Decision, cost int64, want bool) {
		t.Helper()
		got, err := l.Amend(t.Context(), d.Charge, stint.Amendment{Cost: cost})
		if err != nil || got.Changed != want {
			t.Fatalf("settled %v, %v, want %v", got, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l, store, r, clock := leaseHeld(t, limit)
		held := l.held(&r.Claims[0])
		r.Claims[0].Cost = 8
		d := mustLease(t, l, r)
		if !fromLease(d) || l.held(&r.Claims[0]) != held-8 {
			t.Fatal("not from memory")
		}
		settle(t, l, d, 3, true)
		if got := l.held(&r.Claims[0]); got != held-3 {
			t.Errorf("%d held after settling to 3, want %d", got, held-3)
		}
		settle(t, l, d, 0, false) // once
		r.Claims[0].Cost = 1
		d = mustLease(t, l, r)
		settle(t, l, d, 0, true)
		settle(t, l, d, 5, false)
		d = mustLease(t, l, r)
		settle(t, l, d, 5, true)
		if got := l.held(&r.Claims[0]); got != held-8 {
			t.Errorf("%d held after settling up, want %d", got, held-8)
		}
		for _, kind := range []stint.AmendmentKind{stint.AmendExtend, stint.AmendRelease} {
			if ok, err := l.Amend(t.Context(), d.Charge, stint.Amendment{Kind: kind}); ok.Changed || err != nil {
				t.Errorf("kind %d: %v, %v", kind, ok, err)
			}
		}
		if _, err := l.Amend(t.Context(), d.Charge, stint.Amendment{Cost: -1}); err == nil {
			t.Error("settled to less than nothing")
		}
		other := newLeasesFor(t, store, Config{})
		settle(t, other, mustLease(t, l, r), 0, false)

		// A debt that the block cannot pay becomes one of the store's when the block ends.
		d = mustLease(t, l, r)
		charged := leaseUsed(t, store.Store, "a", limit)
		rest := l.held(&r.Claims[0])
		settle(t, l, d, rest+101, true)
		if got := l.held(&r.Claims[0]); got != 0 {
			t.Errorf("%d held in debt", got)
		}
		clock.advance(time.Second, time.Second)
		time.Sleep(time.Second) // for the sweeper
		synctest.Wait()
		if got := leaseUsed(t, store.Store, "a", limit); got != charged+100 {
			t.Errorf("the store counts %d, want %d", got, charged+100)
		}
		settle(t, l, d, 0, false)
	})
	// Only so many can be remembered.
	synctest.Test(t, func(t *testing.T) {
		l, _, r, _ := leaseHeld(t, limit)
		applied := 0
		for range 20 * storebounds.MaxSettled {
			d := mustLease(t, l, r)
			if !fromLease(d) {
				t.Fatal("not from memory")
			}
			ok, err := l.Amend(t.Context(), d.Charge, stint.Amendment{})
			if err != nil {
				t.Fatal(err)
			}
			if !ok.Changed {
				break
			}
			applied++
		}
		if applied == 0 || applied > maxBlocks*storebounds.MaxSettled {
			t.Errorf("%d refunds were remembered", applied)
		}
	})
}

// A charge from memory is settled after its block has ended, once and by its process alone.
func TestLeasesSettleAfterTheBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := stint.Per(10_000, 10*time.Second).WithLease()
		l, store, r, clock := leaseHeld(t, limit)
		other := newLeasesFor(t, store, Config{})
		r.Claims[0].Cost = 8
		inBlock, less, more := mustLease(t, l, r), mustLease(t, l, r), mustLease(t, l, r)
		settle := func(l *leases, d stint.Decision, cost int64, want stint.Amended) {
			t.Helper()
			if got, err := l.Amend(t.Context(), d.Charge, stint.Amendment{Cost: cost}); err != nil || got != want {
				t.Errorf("settled to %d: %+v, %v, want %+v", cost, got, err, want)
			}
		}
		settle(l, inBlock, 3, stint.Amended{Changed: true, Charged: 3})
		clock.advance(time.Second, time.Second)
		time.Sleep(time.Second) // for the sweeper
		synctest.Wait()
		used := leaseUsed(t, store.Store, "a", limit)
		settle(other, more, 20, stint.Amended{})
		settle(l, inBlock, 30, stint.Amended{})
		settle(l, less, 2, stint.Amended{Changed: true, Charged: 2})
		settle(l, more, 5000, stint.Amended{Changed: true, Charged: 5000})
		for _, d := range []stint.Decision{less, more} {
			settle(l, d, 6000, stint.Amended{})
		}
		if got, want := leaseUsed(t, store.Store, "a", limit), used-6+4992; got != want {
			t.Errorf("the store counts %d, want %d", got, want)
		}
	})
}

// The next block pays a debt first.
func TestLeaseCover(t *testing.T) {
	ls := newLease(0, &stint.Claim{Limits: []stint.Limit{stint.PerMinute(100)}}, false)
	a := &leaseBlock{granted: 10, debt: 7, charge: driver.NewCharge(nil, driver.ChargeData{ID: 1, At: 1})}
	b := &leaseBlock{granted: 20, end: leaseTime{1, 1}, charge: driver.NewCharge(nil, driver.ChargeData{ID: 2, At: 2})}
	b.units.Store(20)
	ls.add(a)
	ls.add(b)
	if a.debt != 0 || b.units.Load() != 13 {
		t.Errorf("debt %d, units %d", a.debt, b.units.Load())
	}
	b.units.Add(-13)
	claim := stint.Claim{Cost: 4}
	charge := driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 9, At: 2})
	if _, ok := ls.settle(&charge, stint.Amendment{Cost: 14}); !ok.Changed || b.debt != 10 {
		t.Errorf("debt %d, want 10", b.debt)
	}
	charge.Data().ID = 10
	if _, ok := ls.settle(&charge, stint.Amendment{Cost: 1}); !ok.Changed || b.debt != 7 || b.units.Load() != 0 {
		t.Errorf("debt %d, want 7", b.debt)
	}
	if g, differs := ls.endBlock(1); !differs || g.cost != 27 {
		t.Errorf("settles to %d", g.cost)
	}
	b.units.Store(5)
	ls.add(b)
	if g, differs := ls.endBlock(1); !differs || g.cost != 22 {
		t.Errorf("settles to %d", g.cost)
	}
	for range 3 {
		if left, ok := b.take(1, leaseTime{}); ok {
			t.Errorf("took from what was given back, %d left", left)
		}
	}
}

// A charge from a block of limits with different names has the generations of all their states.
func TestLeasesSettleSeveralStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := stint.Per(10_000, 10*time.Second).WithLease()
		l := newLeasesFor(t, newLeaseFar(t, 0), Config{})
		defer l.Close()
		r := leaseAsk("a", 1, limit, limit.WithName("other"))
		d := leaseStarted(t, l, r, 10*time.Millisecond)
		if !fromLease(d) || (stint.Amendment{}).Validate(&d.Charge) != nil {
			t.Fatalf("from a lease: %v, %v", fromLease(d), (stint.Amendment{}).Validate(&d.Charge))
		}
		if ok, err := l.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendSettle}); !ok.Changed ||
			err != nil {
			t.Errorf("refunded %v, %v", ok, err)
		}
	})
}
