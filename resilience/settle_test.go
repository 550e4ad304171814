package resilience

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

var release, extend = stint.Amendment{Kind: stint.AmendRelease}, stint.Amendment{Kind: stint.AmendExtend}

// Amendments that are made at the same time reach the store together, and each gets its own answer.
func TestAmendmentsGather(t *testing.T) {
	for _, together := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := newFake(t)
			s := newStack(t, map[bool]driver.BatchStore{true: store, false: bare{store}}[together], alone)
			const callers = 64
			var charges []stint.Charge
			for i := range callers {
				charges = append(charges, mustDecide(t, s, ask(fmt.Sprint(i), 10, stint.PerHour(100))).Charge)
			}
			store.hook(func(string) { time.Sleep(time.Millisecond) })
			var group sync.WaitGroup
			for i, c := range charges {
				group.Go(func() { wantSettled(t, s, c, int64(i%10), true) })
			}
			group.Wait()
			if n := store.amends.Load(); together && n > 4 {
				t.Errorf("%d settlements took %d calls, want 4 at most", callers, n)
			}
			store.hook(nil)
			for i := range callers {
				wantUsed(t, store, fmt.Sprint(i), stint.PerHour(100), int64(i%10))
			}
		})
	}
}

// A heartbeat is sent with the deadline of its caller. A place that is released while one may still
// arrive stays free.
func TestReleaseAfterALateHeartbeat(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.Concurrency(5, time.Minute)
		d := mustDecide(t, s, oneUnit("a", place))
		store.hook(func(op string) {
			if op == opAmend {
				time.Sleep(200 * time.Millisecond)
			}
		})
		for _, wait := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			done, err := s.Amend(ctx, d.Charge, extend)
			cancel()
			if late := wait < 200*time.Millisecond; late != (err != nil) || late == done.Changed {
				t.Fatalf("a heartbeat that has %v: %+v, %v", wait, done, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := s.Amend(ctx, d.Charge, extend); err == nil {
			t.Fatal("the heartbeat was answered")
		}
		store.hook(nil)
		wantChange(t, s, d.Charge, release, true)
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "a", place, 0)
	})
}

// queue replaces the amendments that wait.
func (s *sender) queue(jobs []*job) (before []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.waiting = s.waiting, jobs
	return before
}

// An amendment that could not be made later is refused before anything changes, and works once
// there is room: a refund of a charge of the store, of one that was made without it, and a release.
func TestAmendmentsWithAFullQueue(t *testing.T) {
	limit, place := stint.PerHour(100), stint.Concurrency(5, time.Minute)
	full := make([]*job, maxJobs)
	for i := range full {
		full[i] = &job{from: time.Now().Add(1000 * time.Hour)}
	}
	type row struct {
		limit stint.Limit
		stint.Amendment
		id   string
		here bool
	}
	each(t, map[string]row{
		"refund":                     {limit: limit, Amendment: settleTo(0)},
		"refund of a local charge":   {limit: limit, Amendment: settleTo(0), here: true},
		"refund of a repaid charge":  {limit: limit, Amendment: settleTo(0), here: true, id: "x"},
		"release":                    {limit: place, Amendment: release},
		"release after a heartbeat":  {limit: place, Amendment: release, id: "beat"},
		"release of a local charge":  {limit: place, Amendment: release, here: true},
		"release of a repaid charge": {limit: place, Amendment: release, here: true, id: "x"},
	}, alone, func(t *testing.T, store *fake, s *Stack, test row) {
		if test.here {
			store.down()
		}
		d := mustDecide(t, s, named(oneUnit("a", test.limit), test.id))
		store.up()
		time.Sleep(5 * time.Second)
		store.fail(storeError(stint.KindTimeout), opAmend)
		if test.id == "beat" { // a heartbeat that may still arrive
			if _, err := s.Amend(t.Context(), d.Charge, extend); err == nil {
				t.Fatal("the heartbeat was answered")
			}
		}
		s.sender.queue(full)
		before := usedOf(t, s, "a", test.limit)
		if done, err := s.Amend(t.Context(), d.Charge, test.Amendment); errkind.Of(err) != stint.KindRefused || done.Changed {
			t.Errorf("full: changed %v, %v", done.Changed, err)
		}
		wantUsed(t, s, "a", test.limit, before)
		s.sender.queue(nil)
		wantChange(t, s, d.Charge, test.Amendment, true)
		store.up()
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "a", test.limit, 0)
		wantUsed(t, s, "a", test.limit, 0)
	})
}

// What is not worth repeating any more makes room, even while the store is not asked.
func TestAmendmentsDoNotWaitForever(t *testing.T) {
	c := alone
	c.BreakerFailures = 1
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		d, late := mustDecide(t, s, oneUnit("a", stint.PerMinute(10))), mustDecide(t, s, oneUnit("b"))
		store.down()
		wantChange(t, s, d.Charge, settleTo(0), true)
		wantChange(t, s, late.Charge, settleTo(0), true)
		wantState(t, s, "open")
		time.Sleep(10 * time.Minute)
		waiting := s.sender.queue(nil)
		if s.sender.queue(waiting); len(waiting) != 1 {
			t.Errorf("%d amendments wait, want that of an hour", len(waiting))
		}
		store.up()
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "b", stint.PerHour(1000), 0)
	})
}

// A raise in an outage is limited by what a bucket may owe; the caller is told what is charged, and
// the store is charged with as much.
func TestRaiseBeyondTheDebt(t *testing.T) {
	for _, id := range []string{"", "x"} {
		each(t, outages, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
			bucket := stint.TokenBucket(10, 10, time.Hour)
			fail(store)
			d := mustDecide(t, s, named(oneUnit("a", bucket), id))
			done := mustAmend(t, s, d.Charge, settleTo(500))
			if !d.Degraded || !done.Changed || done.Charged != 20 { // the capacity, and as much again
				t.Errorf("degraded %v, %+v, want 20 charged", d.Degraded, done)
			}
			store.up()
			time.Sleep(5 * time.Second)
			wantUsed(t, store, "a", bucket, 20)
		})
	}
}

// A raise that the store cannot be told of yet counts at once, and is charged to it once.
func TestRaiseThatWaits(t *testing.T) {
	for _, fail := range []func(*fake){outages["refused"], outages["unreachable"]} {
		each(t, eachKind(5, time.Hour), alone, func(t *testing.T, store *fake, s *Stack, limit stint.Limit) {
			d := mustDecide(t, s, ask("a", 10, limit))
			fail(store)
			wantSettled(t, s, d.Charge, 50, true)
			wantAdmitted(t, s, 1, ask("a", 51, limit), 0)
			wantAdmitted(t, s, 20, oneUnit("a", limit), 20)
			store.up()
			wantAdmitted(t, s, 1, ask("a", 31, limit), 0)
			time.Sleep(5 * time.Second)
			wantUsed(t, store, "a", limit, 70)
			wantAdmitted(t, s, 50, oneUnit("a", limit), 30)
			store.fail(refusedCall())
			wantAdmitted(t, s, 50, oneUnit("a", limit), 0)
		})
	}
}

// A request under an ID that the store was charged with afterwards is settled and released there,
// in either order, and also before it has been charged.
func TestSettleAndReleaseOfAnID(t *testing.T) {
	tokens, place, settle := stint.PerHour(1000), stint.Concurrency(10, time.Minute), settleTo(40)
	for _, order := range [][]stint.Amendment{{settle, release}, {release, settle}} {
		for _, pause := range []time.Duration{time.Second, 0} {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				store.down()
				d := mustDecide(t, s, named(ask("a", 100, tokens, place), "x"))
				store.up()
				time.Sleep(pause)
				for _, a := range order {
					wantChange(t, s, d.Charge, a, true)
				}
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", tokens, 40)
				wantUsed(t, store, "a", place, 0)
			})
		}
	}
}

// TestSettlementsInAStall checks that settlements which the store is slow to answer hold nobody up,
// are applied once, and take a few calls, however many there are.
func TestSettlementsInAStall(t *testing.T) {
	const callers = 64
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		var charges []stint.Charge
		for range callers {
			charges = append(charges, mustDecide(t, s, ask("a", 10, stint.PerHour(1000))).Charge)
		}
		store.hook(func(string) { time.Sleep(50 * time.Millisecond) })
		start := time.Now()
		var group sync.WaitGroup
		for _, c := range charges {
			group.Go(func() { wantSettled(t, s, c, 3, true) })
		}
		group.Wait()
		if took := time.Since(start); took > s.config.Failure.Budget {
			t.Errorf("callers waited for %v", took)
		}
		time.Sleep(time.Second)
		store.hook(nil)
		wantUsed(t, store, "a", stint.PerHour(1000), 3*callers)
		wantUsed(t, s, "a", stint.PerHour(1000), 3*callers)
		if n := store.amends.Load(); n > 8 {
			t.Errorf("%d settlements took %d calls, want 8 at most", callers, n)
		}
	})
}

// TestReleaseAfterATornHeartbeat checks that a release waits for a heartbeat of two subjects that
// surely did not reach one of them, on a node of a Cluster: it may still reach the other.
func TestReleaseAfterATornHeartbeat(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.Concurrency(5, time.Minute)
		d := mustDecide(t, s, and(oneUnit("a", place), oneUnit("b", place)))
		store.fail(&stint.StoreError{Op: opAmend, Kind: stint.KindUnreachable,
			Err: errors.Join(&net.OpError{Op: "dial", Err: errors.New("connection refused")}, io.EOF)}, opAmend)
		if _, err := s.Amend(t.Context(), d.Charge, extend); err == nil {
			t.Fatal("the heartbeat was answered")
		}
		store.up()
		wantChange(t, s, d.Charge, release, true)
		time.Sleep(amendTime / 2)
		wantUsed(t, store, "b", place, 1) // the heartbeat may arrive
		time.Sleep(amendTime)
		wantUsed(t, store, "b", place, 0)
	})
}

// TestRefundOfAPlaceThatTheStoreKnows checks that the refund of a place which was taken without the
// store gives it back there too, if a heartbeat has told the store of it.
func TestRefundOfAPlaceThatTheStoreKnows(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.Concurrency(10, time.Minute)
		store.down()
		d := mustDecide(t, s, oneUnit("a", place))
		store.up()
		mustAmend(t, s, d.Charge, extend)
		wantUsed(t, store, "a", place, 1)
		wantChange(t, s, d.Charge, settleTo(0), true)
		time.Sleep(time.Second)
		wantUsed(t, store, "a", place, 0)
		store.fail(refusedCall())
		wantUsed(t, s, "a", place, 0)
	})
}

// TestRefundAfterAReset checks that a refund of what was granted before a reset makes no room after
// it, and that the reset forgets the ID of the request.
func TestRefundAfterAReset(t *testing.T) {
	for _, id := range []string{"", "x"} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			limit := stint.PerHour(10)
			r := named(ask("a", 5, limit), id)
			store.down()
			d := mustDecide(t, s, r)
			if id != "" && !mustDecide(t, s, r).Repeat {
				t.Error("the second request is not a repeat")
			}
			time.Sleep(time.Millisecond)
			if err := s.Command(t.Context(), resetOf(r.Claims[0])); err == nil {
				t.Fatal("the store is there")
			}
			time.Sleep(time.Microsecond)
			if again := mustDecide(t, s, r); again.Repeat || !again.Allowed {
				t.Errorf("after the reset: repeat %v, allowed %v", again.Repeat, again.Allowed)
			}
			wantAdmitted(t, s, 15, oneUnit("a", limit), 5)
			mustAmend(t, s, d.Charge, settleTo(0))
			wantAdmitted(t, s, 20, oneUnit("a", limit), 0)
			store.up()
			time.Sleep(5 * time.Second)
			wantUsed(t, store, "a", limit, 10)
		})
	}
}

// TestAmendmentAfterACanceledOne checks that an amendment whose caller has given up before it began
// changes nothing, and can be made again.
func TestAmendmentAfterACanceledOne(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.down()
		d := mustDecide(t, s, named(oneUnit("a"), "x"))
		store.up()
		time.Sleep(time.Second)
		wantUsed(t, store, "a", stint.PerHour(1000), 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if done, err := s.Amend(ctx, d.Charge, settleTo(0)); done.Changed || !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %+v, %v", done, err)
		}
		wantChange(t, s, d.Charge, settleTo(0), true)
		wantUsed(t, store, "a", stint.PerHour(1000), 0)
	})
}
