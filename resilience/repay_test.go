package resilience

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// lossy charges what it is owed, and then loses some of the answers.
type lossy struct {
	*flaky
	lose, lost atomic.Int64
}

func (s *lossy) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	d, err := s.flaky.Take(ctx, r)
	if err == nil && r.Mode == driver.ModeForce && s.lose.Add(-1) >= 0 {
		s.lost.Add(1)
		return stint.Decision{}, unreachable()
	}
	return d, err
}

// A request whose ID has ended during the outage is charged once, also if answers are lost.
func TestEndedIDIsChargedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lossy{flaky: newFlaky(t)}
		f := newFallbackFor(t, store, Config{Instances: 1})
		r := oneUnit("a")
		r.ID, r.IDLife = "x", time.Second
		store.down()
		mustDecide(t, f, r)
		time.Sleep(40 * time.Second)
		store.lose.Store(4)
		store.up()
		time.Sleep(20 * time.Second)
		if n := store.lost.Load(); n != 4 {
			t.Fatalf("%d answers lost, want 4", n)
		}
		wantUsed(t, store, "a", r.Claims[0].Limits[0], 1)
	})
}

// Two subjects of one request have windows of different lengths. The one with the long window is
// charged once, although the other's has passed when the charge is repeated.
func TestDebtOutlivesTheShorterWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lossy{flaky: newFlaky(t)}
		f := newFallbackFor(t, store, Config{Instances: 1})
		hour := stint.PerHour(10)
		r := oneUnit("user", stint.PerSecond(10))
		r.ID, r.IDLife = "x", time.Hour
		r.Claims = append(r.Claims[:1:1], stint.Claim{Subject: "tenant", Limits: []stint.Limit{hour}, Cost: 1})
		store.down()
		mustDecide(t, f, r)
		store.lose.Store(2) // it is sent again after a second
		store.up()
		time.Sleep(10 * time.Second)
		if n := store.lost.Load(); n != 2 {
			t.Fatalf("%d answers lost, want 2", n)
		}
		wantUsed(t, store, "tenant", hour, 1)
	})
}

// A reset waits for what is being charged: nothing of it counts afterwards.
func TestResetWhileDebtsAreCharged(t *testing.T) {
	for _, id := range []string{"", "x"} {
		t.Run("id "+id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFlaky(t)
				f := newFallbackFor(t, store, Config{Instances: 1})
				r := oneUnit("a")
				r.ID = id
				store.down()
				mustDecide(t, f, r)
				store.up()
				charging := make(chan struct{}, 100)
				store.hook(func(op string) {
					if op == "take" {
						charging <- struct{}{}
						time.Sleep(200 * time.Millisecond)
					}
				})
				<-charging
				if err := f.Command(t.Context(),
					stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits}); err != nil {
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
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		minute, hour := stint.PerMinute(100), stint.PerHour(100)
		f.sender.charging.Store(true) // nothing is sent meanwhile
		store.down()
		mustDecide(t, f, oneUnit("a", minute))
		time.Sleep(10 * time.Second)
		mustDecide(t, f, oneUnit("a", minute, hour))
		store.up()
		if err := f.Command(t.Context(),
			stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: []stint.Limit{minute, hour}}); err != nil {
			t.Fatal(err)
		}
		f.sender.charging.Store(false)
		f.sender.start()
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
			synctest.Test(t, func(t *testing.T) {
				store := newFlaky(t)
				f := newFallbackFor(t, store, Config{Instances: 1})
				tenant := oneUnit("tenant", bucket)
				store.down()
				for i := range 5 {
					r := oneUnit("user", stint.PerMinute(100))
					r.ID = fmt.Sprint(i)
					r.Claims = append(r.Claims[:1:1], tenant.Claims...)
					mustDecide(t, f, r)
				}
				time.Sleep(outage)
				store.up()
				for range 2 {
					time.Sleep(2 * time.Second)
					if n := admitted(t, f, 15, tenant); n != 10 {
						t.Errorf("%d admitted by the store, want 10", n)
					}
				}
				time.Sleep(2 * time.Second)
				store.fail(refusedCall())
				if n := admitted(t, f, 15, tenant); n != 10 {
					t.Errorf("%d admitted in the next outage, want 10", n)
				}
			})
		})
	}
}

// Requests with many IDs on one subject owe a bounded number of debts. A request carries a bounded
// number of them, and in the end all is charged.
func TestManyIDsOfOneSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		limit := stint.PerHour(1_000_000)
		store.down()
		const requests = 10_000
		for i := range requests {
			r := oneUnit("a", limit)
			r.ID = fmt.Sprint(i)
			if !mustDecide(t, f, r).Allowed {
				t.Fatal("denied")
			}
		}
		claim := oneUnit("a", limit)
		rec := f.ledger.find(&claim.Claims[0])
		if n := len(rec.debts); n > maxDebts+maxGroups {
			t.Errorf("%d debts, want %d at most", n, maxDebts)
		}
		if n := len(rec.named); n > maxNamed {
			t.Errorf("%d ids are remembered, want %d at most", n, maxNamed)
		}
		calls := f.ledger.carry(&claim)
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
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		limit := stint.PerHour(10)
		r := oneUnit("a", limit)
		r.ID, r.Claims[0].Cost = "x", 0
		r.Claims = append(r.Claims[:1:1], stint.Claim{Subject: "b", Limits: []stint.Limit{limit}, Cost: 1})
		for _, failure := range []error{nil, refusedCall(), unreachable(), nil} {
			store.fail(failure)
			if d := mustDecide(t, f, r); !d.Allowed || d.Repeat {
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
			synctest.Test(t, func(t *testing.T) {
				store := newFlaky(t)
				f := newFallbackFor(t, store, Config{Instances: 1})
				r := oneUnit("a", limits...)
				r.Claims[0].Cost = 60
				store.down()
				if !mustDecide(t, f, r).Allowed {
					t.Fatal("denied without the store")
				}
				store.up()
				if mustDecide(t, f, r).Allowed {
					t.Error("120 admitted under 100 an hour")
				}
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", hour, 60)
				wantUsed(t, store, "a", place, 0)
			})
		})
	}
}

// Units that are owed from different times are charged as of their own time, or later, in whatever
// order they became known.
func TestGroupsOutOfOrder(t *testing.T) {
	f := newFallbackFor(t, newFlaky(t), Config{Instances: 1})
	r := oneUnit("a", stint.PerMinute(100))
	rec := f.ledger.record(&r.Claims[0], 0)
	f.ledger.count(rec, &r.Claims[0].Limits[0], 0)
	var granted []int64
	for i := range 15 {
		granted = append(granted, int64(100+10*i))
	}
	granted = append(granted, 10, 300) // one was late
	for _, at := range granted {
		f.ledger.group(rec, at*int64(time.Second)).units[0]++
	}
	if n := len(rec.groups); n > maxGroups {
		t.Errorf("%d groups, want %d at most", n, maxGroups)
	}
	for _, g := range rec.groups {
		if apart := time.Duration(g.at - g.from); apart > 10*time.Second {
			t.Errorf("units that were granted %v apart are charged together", apart)
		}
	}
	for _, at := range granted {
		want, got := int64(0), int64(0)
		for _, other := range granted {
			if other >= at {
				want++
			}
		}
		for _, g := range rec.groups {
			if g.at >= at*int64(time.Second) {
				got += g.units[0]
			}
		}
		if got < want {
			t.Errorf("%d units as of %d s or later, want %d at least", got, at, want)
		}
	}
}
