package resilience

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// mustAmend amends, and fails on an error.
func mustAmend(t *testing.T, s stint.Store, c stint.Charge, a stint.Amendment) stint.Amended {
	t.Helper()
	done, err := s.Amend(t.Context(), c, a)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// wantUsed checks what a store counts of a limit.
func wantUsed(t *testing.T, s stint.Store, subject string, l stint.Limit, want int64) {
	t.Helper()
	if got := usedOf(t, s, subject, l); got != want {
		t.Errorf("%s of %s: %d used, want %d", l, subject, got, want)
	}
}

// A request under an ID that the store was charged with afterwards is settled and released there,
// in either order, and also before it has been charged.
func TestSettleAndReleaseOfAnID(t *testing.T) {
	settle, release := stint.Amendment{Cost: 40}, stint.Amendment{Kind: stint.AmendRelease}
	for name, order := range map[string][]stint.Amendment{
		"settle first": {settle, release}, "release first": {release, settle},
	} {
		for when, pause := range map[string]time.Duration{"charged": time.Second, "not charged yet": 0} {
			t.Run(name+", "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFlaky(t)
					f := newFallbackFor(t, store, Config{Instances: 1})
					tokens, place := stint.PerHour(1000), stint.AtOnce(10, time.Minute)
					store.down()
					r := oneUnit("a", tokens, place)
					r.ID, r.IDLife, r.Claims[0].Cost = "x", time.Hour, 100
					d := mustDecide(t, f, r)
					store.up()
					time.Sleep(pause)
					for _, a := range order {
						if done := mustAmend(t, f, d.Charge, a); !done.Changed {
							t.Errorf("%v changed nothing", a.Kind)
						}
					}
					time.Sleep(5 * time.Second)
					wantUsed(t, store, "a", tokens, 40)
					wantUsed(t, store, "a", place, 0)
				})
			})
		}
	}
}

// The refund of a place that was taken without the store gives it back there too, if a heartbeat
// has told the store of it.
func TestRefundOfAPlaceThatTheStoreKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		place := stint.AtOnce(10, time.Minute)
		store.down()
		d := mustDecide(t, f, oneUnit("a", place))
		store.up()
		mustAmend(t, f, d.Charge, stint.Amendment{Kind: stint.AmendExtend})
		wantUsed(t, store, "a", place, 1)
		if done := mustAmend(t, f, d.Charge, stint.Amendment{}); !done.Changed {
			t.Error("the refund changed nothing")
		}
		time.Sleep(time.Second)
		wantUsed(t, store, "a", place, 0)
		store.fail(refusedCall())
		wantUsed(t, f, "a", place, 0)
	})
}

// A refund of what was granted before a reset makes no room after it.
func TestRefundAfterAReset(t *testing.T) {
	for _, id := range []string{"", "x"} {
		t.Run("id "+id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFlaky(t)
				f := newFallbackFor(t, store, Config{Instances: 1})
				limit := stint.PerHour(10)
				r := oneUnit("a", limit)
				r.ID, r.Claims[0].Cost = id, 5
				store.down()
				d := mustDecide(t, f, r)
				time.Sleep(time.Millisecond)
				reset := stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits}
				if err := f.Command(t.Context(), reset); err == nil {
					t.Fatal("the store is there")
				}
				if n := admitted(t, f, 20, oneUnit("a", limit)); n != 10 {
					t.Errorf("%d admitted after the reset, want 10", n)
				}
				mustAmend(t, f, d.Charge, stint.Amendment{})
				if n := admitted(t, f, 20, oneUnit("a", limit)); n != 0 {
					t.Errorf("%d admitted after the refund, want none", n)
				}
				store.up()
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", limit, 10)
			})
		})
	}
}

// A reset forgets request ids, as that of a store does.
func TestResetForgetsIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		r := oneUnit("a")
		r.ID = "x"
		store.down()
		mustDecide(t, f, r)
		if !mustDecide(t, f, r).Repeat {
			t.Error("the second request is not a repeat")
		}
		_ = f.Command(t.Context(), stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits})
		if d := mustDecide(t, f, r); d.Repeat || !d.Allowed {
			t.Errorf("after the reset: repeat %v, allowed %v", d.Repeat, d.Allowed)
		}
	})
}

// A raise that the store cannot be told of yet counts at once, and is charged to it once.
func TestRaiseThatWaits(t *testing.T) {
	for name, limit := range map[string]stint.Limit{
		"sliding": stint.PerHour(100),
		"burst":   stint.PerHour(50).WithBurst(2),
		"bucket":  stint.TokenBucket(100, 100, time.Hour),
		"fixed":   {Max: 100, Window: time.Hour, Algorithm: stint.AlgorithmFixed},
	} {
		for failure, fail := range map[string]func(*flaky){
			"down": (*flaky).down, "refused": func(f *flaky) { f.fail(refusedCall()) },
		} {
			t.Run(name+", "+failure, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newFlaky(t)
					s := newStack(t, store, Config{Instances: 1, NoBreaker: true})
					r := oneUnit("a", limit)
					r.Claims[0].Cost = 10
					d := mustDecide(t, s, r)
					fail(store)
					done := mustAmend(t, s, d.Charge, stint.Amendment{Cost: 50})
					if !done.Changed || done.Charged != 50 {
						t.Errorf("raise: %+v", done)
					}
					if mustDecide(t, s, ask("a", 51, limit)).Allowed {
						t.Error("101 of 100 admitted without the store")
					}
					if n := admitted(t, s, 20, oneUnit("a", limit)); n != 20 {
						t.Errorf("%d of 20 admitted without the store", n)
					}
					store.up()
					if mustDecide(t, s, ask("a", 31, limit)).Allowed {
						t.Error("101 of 100 admitted when the store is back")
					}
					time.Sleep(5 * time.Second)
					wantUsed(t, store, "a", limit, 70)
					if n := admitted(t, s, 50, oneUnit("a", limit)); n != 30 {
						t.Errorf("%d more admitted by the store, want 30", n)
					}
					store.fail(refusedCall())
					if n := admitted(t, s, 50, oneUnit("a", limit)); n != 0 {
						t.Errorf("%d admitted in the next outage, want none", n)
					}
				})
			})
		}
	}
}

// Two claims of one subject and scope are both refunded, as by a store.
func TestRefundOfTwoClaimsOfOneSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		minute, hour := stint.PerMinute(10), stint.PerHour(10)
		r := oneUnit("a", minute)
		r.Claims = append(r.Claims[:1:1], stint.Claim{Subject: "a", Limits: []stint.Limit{hour}, Cost: 3})
		store.fail(refusedCall())
		d := mustDecide(t, f, r)
		if done := mustAmend(t, f, d.Charge, stint.Amendment{}); !done.Changed {
			t.Error("the refund changed nothing")
		}
		for _, limit := range []stint.Limit{minute, hour} {
			wantUsed(t, f, "a", limit, 0)
		}
		store.up()
		time.Sleep(5 * time.Second)
		for _, limit := range []stint.Limit{minute, hour} {
			wantUsed(t, store, "a", limit, 0)
		}
	})
}

// A request under an ID takes one place, however often it is made.
func TestIDOfAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		r := oneUnit("a", stint.AtOnce(5, time.Minute))
		r.ID, r.IDLife = "x", time.Hour
		store.down()
		first, second := mustDecide(t, f, r), mustDecide(t, f, r)
		if !second.Repeat || second.Charge.Data().ID != first.Charge.Data().ID {
			t.Errorf("repeat %v, charge %d of %d", second.Repeat, second.Charge.Data().ID, first.Charge.Data().ID)
		}
		wantUsed(t, f, "a", r.Claims[0].Limits[0], 1)
	})
}

// An amendment whose caller has given up before it began changes nothing, and can be made again.
func TestAmendmentAfterACanceledOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		r := oneUnit("a")
		r.ID, r.IDLife = "x", time.Hour
		store.down()
		d := mustDecide(t, f, r)
		store.up()
		time.Sleep(time.Second)
		wantUsed(t, store, "a", r.Claims[0].Limits[0], 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if done, err := f.Amend(ctx, d.Charge, stint.Amendment{}); done.Changed || !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %+v, %v", done, err)
		}
		if done := mustAmend(t, f, d.Charge, stint.Amendment{}); !done.Changed {
			t.Error("the second changed nothing")
		}
		wantUsed(t, store, "a", r.Claims[0].Limits[0], 0)
	})
}

// Where every failure allows, a place or a booking that the store turns out to have given is given
// back: its caller does not know of it.
func TestLateAnswersWhereFailuresAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{flaky: newFlaky(t)}
		s := newStack(t, store, Config{Instances: 1, Failure: stint.FailurePolicy{Mode: stint.FailAllow}})
		place, limit := stint.AtOnce(5, time.Minute), stint.PerHour(1)
		mustDecide(t, store.flaky, oneUnit("b", limit))
		store.change(way{back: 100 * time.Millisecond})
		booking := oneUnit("b", limit)
		booking.Mode = stint.ModeReserve
		for _, r := range []stint.Request{oneUnit("a", place), booking} {
			if d := mustDecide(t, s, r); !d.Allowed || !d.Degraded || d.Charge.Data().ID != 0 {
				t.Errorf("%s: allowed %v, degraded %v", r.Claims[0].Subject, d.Allowed, d.Degraded)
			}
		}
		time.Sleep(time.Second)
		wantUsed(t, store.flaky, "a", place, 0)
		wantUsed(t, store.flaky, "b", limit, 1)
	})
}

// A release that can neither be made now nor later is an error.
func TestReleaseWithAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(t)
		f := newFallbackFor(t, store, Config{Instances: 1})
		d := mustDecide(t, f, oneUnit("a", stint.AtOnce(5, time.Minute)))
		// A heartbeat that may still arrive: a release has to wait until it cannot.
		store.fail(&stint.StoreError{Kind: errkind.Timeout, Err: errDown}, "amend")
		if _, err := f.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendExtend}); err == nil {
			t.Fatal("the heartbeat was answered")
		}
		f.sender.mu.Lock()
		f.sender.waiting = make([]job, maxJobs)
		f.sender.mu.Unlock()
		done, err := f.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendRelease})
		f.sender.mu.Lock()
		f.sender.waiting = nil
		f.sender.mu.Unlock()
		if err == nil || done.Changed {
			t.Errorf("released %v, %v; want an error", done.Changed, err)
		}
	})
}

// A raise in an outage is limited by what a bucket may owe; the caller is told what is charged, and
// the store is charged with as much.
func TestRaiseBeyondTheDebt(t *testing.T) {
	for name, test := range map[string]struct {
		id  string
		way way
	}{
		"together":      {way: way{}},
		"under an ID":   {id: "x"},
		"answered late": {way: way{there: 50 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, s := newShakyStack(t)
				bucket := stint.TokenBucket(10, 10, time.Hour)
				r := oneUnit("a", bucket)
				r.ID = test.id
				if store.change(test.way); test.way == (way{}) {
					store.down()
				}
				d := mustDecide(t, s, r)
				done := mustAmend(t, s, d.Charge, stint.Amendment{Cost: 500})
				if !d.Degraded || !done.Changed || done.Charged != 20 { // the capacity, and as much again
					t.Errorf("degraded %v, %+v, want 20 charged", d.Degraded, done)
				}
				store.change(way{})
				store.up()
				time.Sleep(5 * time.Second)
				wantUsed(t, store.flaky, "a", bucket, 20)
			})
		})
	}
}
