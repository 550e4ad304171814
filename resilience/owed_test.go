package resilience

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// newShakyStack is a stack of a process that has a shaky store for itself, and keeps asking it.
func newShakyStack(t *testing.T) (shaky, *Stack) {
	t.Helper()
	store := newShaky(t)
	return store, newStack(t, store, Config{Instances: 1, NoBreaker: true})
}

// The answer to a request that carries what is owed counts that: it is not taken for what others
// used.
func TestCarriedUnitsAreNotOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		r := oneUnit("a", stint.PerHour(10))
		store.change(way{there: 20 * time.Millisecond}) // too late
		if n := admitted(t, s, 4, r); n != 4 {
			t.Fatalf("%d of 4", n)
		}
		time.Sleep(30 * time.Millisecond)
		store.change(way{})
		if n := admitted(t, s, 1, r); n != 1 {
			t.Fatal("store denies")
		}
		if got := usedOf(t, store.flaky.Store, "a", r.Claims[0].Limits[0]); got != 5 {
			t.Fatalf("store has %d, want 5", got)
		}
		store.fail(refusedCall())
		if n := admitted(t, s, 10, r); n != 5 {
			t.Errorf("%d more without the store, want 5", n)
		}
	})
}

// Nor does it overrule the answer.
func TestCarriedUnitsDoNotOverrule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShaky(t)
		s := newStack(t, store, Config{Instances: 2})
		r := oneUnit("a", stint.Per(10, time.Second))
		for i := range 20 {
			store.change(way{there: 20 * time.Millisecond})
			mustDecide(t, s, r) // without the store
			time.Sleep(30 * time.Millisecond)
			store.change(way{})
			if d := mustDecide(t, s, r); !d.Allowed {
				t.Fatalf("round %d: denied, degraded %v, used %d of 10", i, d.Degraded, d.Usages()[0].Used)
			}
			time.Sleep(970 * time.Millisecond)
		}
	})
}

// What was granted to a request with an ID is charged also after an outage longer than the life of
// the ID.
func TestOwedIDsOutliveTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		limits := []stint.Limit{stint.Per(10, time.Second), stint.PerHour(10)}
		n := 0
		store.down()
		count := 0
		for range 6 {
			n++
			r := oneUnit("a", limits...)
			r.ID = fmt.Sprint(n)
			if mustDecide(t, s, r).Allowed {
				count++
			}
		}
		time.Sleep(5 * time.Second)
		store.up()
		time.Sleep(5 * time.Second)
		for range 10 {
			n++
			r := oneUnit("a", limits...)
			r.ID = fmt.Sprint(n)
			if mustDecide(t, s, r).Allowed {
				count++
			}
		}
		if count > 10 {
			t.Errorf(
				"%d admitted under 10 per hour by one process; the store has %d",
				count,
				usedOf(t, store.flaky.Store, "a", limits[1]),
			)
		}
	})
}

// Requests with an ID and several claims are charged once to each of their subjects, also after an
// outage longer than the life of the ID, while others settle, take and reset under the same claims.
func TestOwedIDsOfSeveralClaimsOutliveTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		hour := []stint.Limit{stint.PerHour(1000)}
		reset := []stint.Limit{stint.PerHour(1000).WithName("reset")}
		const subjects, requests = 8, 40
		name := func(n int) string { return fmt.Sprint("subject", n%subjects) }
		store.down()
		var group sync.WaitGroup
		for n := range requests {
			group.Go(func() {
				r := oneUnit(name(n), hour...)
				r.ID, r.IDLife = fmt.Sprint(n), time.Second
				r.Claims = append(r.Claims[:1:1], []stint.Claim{{Subject: name(n + 1), Limits: hour, Cost: 1},
					{Subject: name(n + 3), Limits: hour, Cost: 2}}...)
				d := mustDecide(t, s, r)
				time.Sleep(time.Duration(n) * 100 * time.Millisecond) // until long after the ID's life
				if n%4 == 0 {
					if ok, err := s.Amend(t.Context(), d.Charge,
						stint.Amendment{Kind: stint.AmendSettle}); !ok.Changed ||
						err != nil {
						t.Errorf("request %d is not refunded: %v, %v", n, ok, err)
					}
				}
				mustDecide(t, s, oneUnit(name(n), reset...))
				_ = s.Command(t.Context(), stint.Command{Kind: stint.CommandReset, Subject: name(n), Limits: reset})
			})
		}
		time.Sleep(3 * time.Second)
		store.up()
		group.Wait()
		time.Sleep(time.Minute)
		want := [subjects]int64{}
		for n := range requests {
			if n%4 != 0 {
				want[n%subjects]++
				want[(n+1)%subjects]++
				want[(n+3)%subjects] += 2
			}
		}
		for n := range subjects {
			if got := usedOf(t, store.flaky.Store, name(n), hour[0]); got != want[n] {
				t.Errorf("%s: the store has counted %d, want %d", name(n), got, want[n])
			}
		}
		if n := s.fallback.ledger.owing.Load(); n != 0 {
			t.Errorf("%d subjects still owe something", n)
		}
	})
}

// What is owed is charged once, also if it is sent again after it has left one of its windows.
func TestOwedUnitsAreChargedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		limits := []stint.Limit{stint.Per(10, time.Second), stint.PerHour(100)}
		r := oneUnit("a", limits...)
		store.fail(refusedCall())
		for range 5 {
			mustDecide(t, s, r)
		}
		store.fail(nil)
		store.change(way{loses: true}) // charges, and loses the answer
		time.Sleep(1200 * time.Millisecond)
		store.change(way{})
		time.Sleep(10 * time.Second)
		if got := usedOf(t, store.flaky.Store, "a", limits[1]); got != 5 {
			t.Errorf("the store has counted %d, want 5", got)
		}
	})
}

// What is owed under a limit counts for every list of limits that the limit is in.
func TestListsThatShareALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		a, b := stint.PerHour(10), stint.PerDay(100)
		store.fail(refusedCall())
		count := admitted(t, s, 10, oneUnit("a", a, b))
		store.fail(nil)
		count += admitted(t, s, 10, oneUnit("a", a))
		if count != 10 {
			t.Errorf("%d admitted under 10 per hour", count)
		}
	})
}

// A refund of a part of a charge leaves the place that another part has.
func TestPartOfAPlaceIsRefunded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		r := oneUnit("a", stint.AtOnce(1, time.Minute))
		r.Claims = append(
			r.Claims[:1:1],
			[]stint.Claim{{Subject: "a", Limits: []stint.Limit{stint.PerDay(100).WithName("budget")}, Cost: 5}}...)
		d := mustDecide(t, s, r)
		if ok, err := s.Amend(t.Context(), d.Charge.Part(1), stint.Amendment{}); !ok.Changed || err != nil {
			t.Fatal(ok, err)
		}
		store.fail(refusedCall())
		if d := mustDecide(t, s, r); d.Allowed {
			t.Error("a second holder under 1 at once, by one process")
		}
	})
}

// A settlement of a part of a charge leaves the other parts as they are.
func TestPartOfAPlaceIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		r := oneUnit("a", stint.AtOnce(5, time.Minute), stint.PerHour(10))
		r.Claims = append(
			r.Claims[:1:1],
			[]stint.Claim{{Subject: "a", Limits: []stint.Limit{stint.PerDay(100).WithName("budget")}, Cost: 5}}...)
		d := mustDecide(t, s, r)
		if ok, err := s.Amend(t.Context(), d.Charge.Part(1), stint.Amendment{Cost: 20}); !ok.Changed || err != nil {
			t.Fatal(ok, err)
		}
		store.fail(refusedCall())
		if d := mustDecide(t, s, r); !d.Allowed {
			t.Error("denied with 1 of 10 used")
		}
	})
}

// Close charges what is owed to a store that is not quick.
func TestCloseChargesWhatIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		store.fail(refusedCall())
		const n = 1000
		for i := range n {
			mustDecide(t, s, oneUnit(fmt.Sprint(i)))
		}
		store.fail(nil)
		store.change(way{there: 10 * time.Millisecond, back: 10 * time.Millisecond})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		charged := int64(0)
		for i := range n {
			charged += usedOf(t, store.flaky.Store, fmt.Sprint(i), oneUnit("").Claims[0].Limits[0])
		}
		if charged != n {
			t.Errorf("%d of %d charged", charged, n)
		}
	})
}

// A reset forgets what is owed under a request ID.
func TestResetForgetsOwedIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		r := oneUnit("a", stint.PerHour(3))
		r.ID = "x"
		store.fail(refusedCall())
		mustDecide(t, s, r)
		store.fail(nil)
		if err := s.Command(t.Context(),
			stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if got := usedOf(t, store.flaky.Store, "a", r.Claims[0].Limits[0]); got != 0 {
			t.Errorf("the store has counted %d after the reset, want 0", got)
		}
	})
}

// The refund of a charge that turned out to be made is tried again.
func TestRefundOfAnAdoptedCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{flaky: newFlaky(t), way: way{back: 50 * time.Millisecond}}
		s := newStack(t, store, Config{Instances: 1, NoBreaker: true})
		r := oneUnit("a", stint.PerHour(3))
		d := mustDecide(t, s, r)
		time.Sleep(time.Second)
		store.fail(unreachable())
		_, err := s.Amend(t.Context(), d.Charge, stint.Amendment{})
		store.fail(nil)
		again, err2 := s.Amend(t.Context(), d.Charge, stint.Amendment{})
		time.Sleep(5 * time.Second)
		if got := usedOf(t, store.flaky.Store, "a", r.Claims[0].Limits[0]); got != 0 {
			t.Errorf("refund: %v, again: %v, %v; the store has counted %d, want 0", err, again, err2, got)
		}
	})
}

// A booking by the store is held against what it does not count yet.
func TestBookingBesideLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		limit := stint.Per(10, 10*time.Second)
		type use struct {
			at time.Duration
			n  int64
		}
		var uses []use
		start := time.Now()
		take := func(cost int64, mode stint.Mode) {
			r := oneUnit("a", limit)
			r.Claims[0].Cost, r.Mode = cost, mode
			if d := mustDecide(t, s, r); d.Allowed {
				uses = append(uses, use{time.Since(start) + d.RetryAfter, cost})
			}
		}
		take(1, stint.ModeTake)
		time.Sleep(time.Second)
		take(7, stint.ModeTake)
		time.Sleep(time.Second)
		store.change(way{there: 500 * time.Millisecond})
		take(2, stint.ModeTake) // without the store
		store.change(way{})
		take(3, stint.ModeReserve)
		for _, u := range uses {
			sum := int64(0)
			for _, v := range uses {
				if v.at <= u.at && u.at-v.at < 10*time.Second {
					sum += v.n
				}
			}
			if sum > 10 {
				t.Errorf("%d in the window that ends at %v: %v", sum, u.at, uses)
			}
		}
	})
}

// After a long outage a short limit is charged only with what it still counts.
func TestMergedGrants(t *testing.T) {
	for name, limits := range map[string][]stint.Limit{
		"day first":    {stint.PerDay(10_000), stint.TokenBucket(5, 5, time.Second)},
		"second first": {stint.TokenBucket(5, 5, time.Second), stint.PerDay(10_000)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newShaky(t)
				s := newStack(t, store, Config{Instances: 1, NoBreaker: true})
				r := oneUnit("a", limits...)
				store.fail(refusedCall())
				for i := range 300 {
					if !mustDecide(t, s, r).Allowed {
						t.Fatal("denied")
					}
					if i < 299 {
						time.Sleep(time.Second)
					}
				}
				store.fail(nil)
				time.Sleep(300 * time.Millisecond)
				for i := range 10 {
					if d := mustDecide(t, s, r); !d.Allowed {
						t.Errorf("denied %d s after the outage: used %v, retry after %v", i, d.Usages(), d.RetryAfter)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A retry under the same ID counts once, whoever decides.
func TestRetryUnderTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		for i := range 5 {
			r := oneUnit("a", stint.PerHour(10))
			r.ID = fmt.Sprint(i)
			store.fail(refusedCall())
			if !mustDecide(t, s, r).Allowed {
				t.Fatal("denied without the store", i)
			}
			store.fail(nil)
			if !mustDecide(t, s, r).Allowed {
				t.Fatal("denied by the store", i)
			}
		}
		time.Sleep(5 * time.Second)
		if got := usedOf(t, store.flaky.Store, "a", stint.PerHour(10)); got != 5 {
			t.Errorf("the store has %d, want 5", got)
		}
		store.fail(refusedCall())
		if n := admitted(t, s, 10, oneUnit("a", stint.PerHour(10))); n != 5 {
			t.Errorf("%d more, want 5", n)
		}
	})
}

// A refund of a request with an ID that is owed is not charged.
func TestRefundOfNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, s := newShakyStack(t)
		r := oneUnit("a", stint.PerHour(10))
		r.ID = "x"
		store.fail(refusedCall())
		d := mustDecide(t, s, r)
		store.fail(nil)
		if ok, err := s.Amend(t.Context(), d.Charge, stint.Amendment{}); !ok.Changed || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(5 * time.Second)
		if got := usedOf(t, store.flaky.Store, "a", r.Claims[0].Limits[0]); got != 0 {
			t.Errorf("the store has %d, want 0", got)
		}
	})
}

// shaky is distant, and fails takes when flaky is told to.
type shaky struct{ *distant }

func (s shaky) TakeBatch(ctx context.Context, batch []*driver.Call) {
	if err := s.flaky.do(ctx, "take", &s.flaky.batches); err != nil {
		for _, c := range batch {
			c.Err = err
		}
		return
	}
	s.distant.TakeBatch(ctx, batch)
}

func newShaky(t *testing.T) shaky { return shaky{&distant{flaky: newFlaky(t)}} }

// The late answer to a question for an earlier place names the place that the caller has: it is not
// refunded.
func TestLateMoveUp(t *testing.T) {
	for _, mode := range []stint.FailureMode{stint.FailDeny, stint.FailLocal} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newShaky(t)
				s := newStack(t, store, Config{Failure: stint.FailurePolicy{Mode: mode}, Instances: 1})
				limit := stint.Per(1, 10*time.Second)
				mustDecide(t, s, oneUnit("a", limit))
				r := oneUnit("a", limit)
				r.Mode = stint.ModeReserve
				mine := mustDecide(t, s, r)
				time.Sleep(time.Second)
				store.change(way{back: 50 * time.Millisecond})
				r.Terms().Booked = mine.Charge.Data().At
				if _, err := s.Take(t.Context(), r); err == nil {
					t.Error("it is not known where the place is, and there is no error")
				}
				store.change(way{})
				time.Sleep(time.Second)
				r.Terms().Booked = 0
				theirs := mustDecide(t, store.flaky.Store, r)
				if theirs.Allowed && theirs.RetryAfter < 10*time.Second {
					t.Errorf("somebody else has the place in %v that we have", theirs.RetryAfter)
				}
			})
		})
	}
}

// Settlements count in the share of a process.
func TestShareAndSettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShaky(t)
		s := newStack(t, store, Config{Instances: 2})
		r := oneUnit("a", stint.PerHour(20))
		store.fail(refusedCall())
		total := int64(0)
		for range 20 {
			d := mustDecide(t, s, r)
			if d.Allowed {
				total++
				if ok, _ := s.Amend(t.Context(), d.Charge, stint.Amendment{Cost: 2}); ok.Changed {
					total++
				}
			}
		}
		if total > 11 {
			t.Errorf("%d units by one of two processes under 20", total)
		}
	})
}
