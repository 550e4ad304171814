package resilience

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// A request under an ID that the store was charged with afterwards is settled and released there,
// in either order, and also before it has been charged.
func TestSettleAndReleaseOfAnID(t *testing.T) {
	settle, release := stint.Amendment{Cost: 40}, stint.Amendment{Kind: stint.AmendRelease}
	for name, order := range map[string][]stint.Amendment{
		"settle first": {settle, release}, "release first": {release, settle},
	} {
		for when, pause := range map[string]time.Duration{"charged": time.Second, "not charged yet": 0} {
			t.Run(name+", "+when, func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					tokens, place := stint.PerHour(1000), stint.AtOnce(10, time.Minute)
					store.down()
					r := oneUnit("a", tokens, place)
					r.ID, r.IDLife, r.Claims[0].Cost = "x", time.Hour, 100
					d := mustDecide(t, s, r)
					store.up()
					time.Sleep(pause)
					for _, a := range order {
						if done := mustAmend(t, s, d.Charge, a); !done.Changed {
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
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.AtOnce(10, time.Minute)
		store.down()
		d := mustDecide(t, s, oneUnit("a", place))
		store.up()
		mustAmend(t, s, d.Charge, stint.Amendment{Kind: stint.AmendExtend})
		wantUsed(t, store, "a", place, 1)
		if done := mustAmend(t, s, d.Charge, stint.Amendment{}); !done.Changed {
			t.Error("the refund changed nothing")
		}
		time.Sleep(time.Second)
		wantUsed(t, store, "a", place, 0)
		store.fail(refusedCall())
		wantUsed(t, s, "a", place, 0)
	})
}

// A refund of what was granted before a reset makes no room after it.
func TestRefundAfterAReset(t *testing.T) {
	for _, id := range []string{"", "x"} {
		t.Run("id "+id, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				limit := stint.PerHour(10)
				r := oneUnit("a", limit)
				r.ID, r.Claims[0].Cost = id, 5
				store.down()
				d := mustDecide(t, s, r)
				time.Sleep(time.Millisecond)
				if err := s.Command(t.Context(), resetOf(r.Claims[0])); err == nil {
					t.Fatal("the store is there")
				}
				time.Sleep(time.Microsecond)
				wantAdmitted(t, s, 20, oneUnit("a", limit), 10)
				mustAmend(t, s, d.Charge, stint.Amendment{})
				wantAdmitted(t, s, 20, oneUnit("a", limit), 0)
				store.up()
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", limit, 10)
			})
		})
	}
}

// A raise that the store cannot be told of yet counts at once, and is charged to it once.
func TestRaiseThatWaits(t *testing.T) {
	for name, limit := range map[string]stint.Limit{
		"sliding": stint.PerHour(100),
		"burst":   stint.PerHour(50).WithBurst(2),
		"bucket":  stint.TokenBucket(100, 100, time.Hour),
		"fixed":   {Max: 100, Window: time.Hour, Algorithm: stint.AlgorithmFixed},
	} {
		for failure, fail := range map[string]func(*fake){
			"down": (*fake).down, "refused": func(f *fake) { f.fail(refusedCall()) },
		} {
			t.Run(name+", "+failure, func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
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
					wantAdmitted(t, s, 20, oneUnit("a", limit), 20)
					store.up()
					if mustDecide(t, s, ask("a", 31, limit)).Allowed {
						t.Error("101 of 100 admitted when the store is back")
					}
					time.Sleep(5 * time.Second)
					wantUsed(t, store, "a", limit, 70)
					wantAdmitted(t, s, 50, oneUnit("a", limit), 30)
					store.fail(refusedCall())
					wantAdmitted(t, s, 50, oneUnit("a", limit), 0)
				})
			})
		}
	}
}

// An amendment whose caller has given up before it began changes nothing, and can be made again.
func TestAmendmentAfterACanceledOne(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := oneUnit("a")
		r.ID, r.IDLife = "x", time.Hour
		store.down()
		d := mustDecide(t, s, r)
		store.up()
		time.Sleep(time.Second)
		wantUsed(t, store, "a", r.Claims[0].Limits[0], 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if done, err := s.Amend(ctx, d.Charge, stint.Amendment{}); done.Changed || !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %+v, %v", done, err)
		}
		if done := mustAmend(t, s, d.Charge, stint.Amendment{}); !done.Changed {
			t.Error("the second changed nothing")
		}
		wantUsed(t, store, "a", r.Claims[0].Limits[0], 0)
	})
}

// Where every failure allows, a place or a booking that the store turns out to have given is given
// back: its caller does not know of it.
func TestLateAnswersWhereFailuresAllow(t *testing.T) {
	c := alone
	c.Failure.Mode = stint.FailAllow
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		place, limit := stint.AtOnce(5, time.Minute), stint.PerHour(1)
		mustDecide(t, store, oneUnit("b", limit))
		store.change(way{back: 100 * time.Millisecond})
		booking := oneUnit("b", limit)
		booking.Mode = stint.ModeReserve
		for _, r := range []stint.Request{oneUnit("a", place), booking} {
			if d := mustDecide(t, s, r); !d.Allowed || !d.Degraded || d.Charge.Data().ID != 0 {
				t.Errorf("%s: allowed %v, degraded %v", r.Claims[0].Subject, d.Allowed, d.Degraded)
			}
		}
		time.Sleep(time.Second)
		wantUsed(t, store, "a", place, 0)
		wantUsed(t, store, "b", limit, 1)
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
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
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
				store.up()
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", bucket, 20)
			})
		})
	}
}

// A reset forgets request ids, as that of a store does.
func TestResetForgetsIDs(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := oneUnit("a")
		r.ID = "x"
		store.down()
		mustDecide(t, s, r)
		if !mustDecide(t, s, r).Repeat {
			t.Error("the second request is not a repeat")
		}
		_ = s.Command(t.Context(), resetOf(r.Claims[0]))
		if d := mustDecide(t, s, r); d.Repeat || !d.Allowed {
			t.Errorf("after the reset: repeat %v, allowed %v", d.Repeat, d.Allowed)
		}
	})
}

// A settlement of a part and then of the whole gives each unit back once, here too.
func TestPartThenWhole(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.PerHour(10)
		d := mustDecide(t, s, and(ask("a", 5, limit), ask("b", 5, limit)))
		mustAmend(t, s, d.Charge.Part(0), stint.Amendment{})
		wantAdmitted(t, s, 1, ask("a", 10, limit), 1)
		mustAmend(t, s, d.Charge, stint.Amendment{})
		store.fail(refusedCall())
		wantAdmitted(t, s, 1, ask("a", 5, limit), 0)
		wantAdmitted(t, s, 1, ask("b", 10, limit), 1)
	})
}
