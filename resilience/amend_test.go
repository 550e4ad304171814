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

// Amendments that are made at the same time reach the store together, and each gets its own answer.
func TestAmendmentsGather(t *testing.T) {
	const callers = 64
	for name, together := range map[string]bool{"together": true, "one by one": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFake(t)
				s := newStack(t, map[bool]driver.BatchStore{true: store, false: bare{store}}[together], alone)
				var charges []stint.Charge
				for i := range callers {
					charges = append(charges, mustDecide(t, s, ask(fmt.Sprint(i), 10, stint.PerHour(100))).Charge)
				}
				store.hook(func(string) { time.Sleep(time.Millisecond) })
				var group sync.WaitGroup
				for i := range charges {
					group.Go(func() {
						cost := int64(i % 10)
						done := mustAmend(t, s, charges[i], stint.Amendment{Cost: cost})
						if done.Charged != cost || !done.Changed {
							t.Errorf("settled at %d: %+v", cost, done)
						}
					})
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
		})
	}
}

// Settlements that the store is slow to answer hold nobody up, are applied once, and take a few
// calls, however many there are.
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
			group.Go(func() {
				if done := mustAmend(t, s, c, stint.Amendment{Cost: 3}); !done.Changed || done.Charged != 3 {
					t.Errorf("%+v", done)
				}
			})
		}
		group.Wait()
		if took := time.Since(start); took > s.config.budget() {
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

// A heartbeat is sent with the deadline of its caller. A place that is released while one may still
// arrive stays free.
func TestReleaseAfterALateHeartbeat(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.AtOnce(5, time.Minute)
		d := mustDecide(t, s, oneUnit("a", place))
		store.hook(func(op string) {
			if op == opAmend {
				time.Sleep(200 * time.Millisecond)
			}
		})
		for _, wait := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			done, err := s.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendExtend})
			cancel()
			if late := wait < 200*time.Millisecond; late != (err != nil) || late == done.Changed {
				t.Fatalf("a heartbeat that has %v: %+v, %v", wait, done, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := s.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendExtend}); err == nil {
			t.Fatal("the heartbeat was answered")
		}
		store.hook(nil)
		if done := mustAmend(t, s, d.Charge, stint.Amendment{Kind: stint.AmendRelease}); !done.Changed {
			t.Error("not released")
		}
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "a", place, 0)
	})
}

// A release waits while a heartbeat may still arrive. A heartbeat of two subjects that surely did
// not reach one of them, on a node of a Cluster, may still reach the other.
func TestReleaseAfterATornHeartbeat(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		place := stint.AtOnce(5, time.Minute)
		d := mustDecide(t, s, and(oneUnit("a", place), oneUnit("b", place)))
		store.fail(&stint.StoreError{Op: opAmend, Kind: stint.KindUnreachable,
			Err: errors.Join(&net.OpError{Op: "dial", Err: errors.New("connection refused")}, io.EOF)}, opAmend)
		if _, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendExtend}); err == nil {
			t.Fatal("the heartbeat was answered")
		}
		store.up()
		if done := mustAmend(t, s, d.Charge, stint.Amendment{Kind: stint.AmendRelease}); !done.Changed {
			t.Error("not released")
		}
		time.Sleep(amendTime / 2)
		wantUsed(t, store, "b", place, 1) // the heartbeat may arrive
		time.Sleep(amendTime)
		wantUsed(t, store, "b", place, 0)
	})
}

// An amendment that could not be made later is refused before anything changes, and works once
// there is room: a refund of a charge of the store, of one that was made without it, and a release.
func TestAmendmentsWithAFullQueue(t *testing.T) {
	limit, place := stint.PerHour(100), stint.AtOnce(5, time.Minute)
	release := stint.Amendment{Kind: stint.AmendRelease}
	for name, test := range map[string]struct {
		limit stint.Limit
		stint.Amendment
		id   string
		here bool
	}{
		"refund":                     {limit: limit},
		"refund of a local charge":   {limit: limit, here: true},
		"refund of a repaid charge":  {limit: limit, here: true, id: "x"},
		"release":                    {limit: place, Amendment: release},
		"release after a heartbeat":  {limit: place, Amendment: release, id: "beat"},
		"release of a local charge":  {limit: place, Amendment: release, here: true},
		"release of a repaid charge": {limit: place, Amendment: release, here: true, id: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				r := named(oneUnit("a", test.limit), test.id)
				if test.here {
					store.down()
				}
				d := mustDecide(t, s, r)
				store.up()
				time.Sleep(5 * time.Second)
				if test.id == "beat" { // a heartbeat that may still arrive
					store.fail(storeError(stint.KindTimeout), opAmend)
					if _, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendExtend}); err == nil {
						t.Fatal("the heartbeat was answered")
					}
				}
				full := make([]*job, maxJobs)
				for i := range full {
					full[i] = &job{from: time.Now().Add(time.Hour)}
				}
				queue := func(jobs []*job) {
					s.sender.mu.Lock()
					defer s.sender.mu.Unlock()
					s.sender.waiting = jobs
				}
				store.fail(storeError(stint.KindTimeout), opAmend)
				queue(full)
				before := usedOf(t, s, "a", test.limit)
				done, err := s.Amend(t.Context(), d.Charge, test.Amendment)
				if errkind.Of(err) != stint.KindRefused || done.Changed {
					t.Errorf("full: changed %v, %v", done.Changed, err)
				}
				wantUsed(t, s, "a", test.limit, before)
				queue(nil)
				if done := mustAmend(t, s, d.Charge, test.Amendment); !done.Changed {
					t.Error("with room: it changed nothing")
				}
				store.up()
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", test.limit, 0)
				wantUsed(t, s, "a", test.limit, 0)
			})
		})
	}
}

// What is not worth repeating any more makes room, even while the store is not asked.
func TestAmendmentsDoNotWaitForever(t *testing.T) {
	c := alone
	c.BreakerFailures = 1
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		d, late := mustDecide(t, s, oneUnit("a", stint.PerMinute(10))), mustDecide(t, s, oneUnit("b"))
		store.down()
		for _, d := range []stint.Decision{d, late} {
			if done := mustAmend(t, s, d.Charge, stint.Amendment{}); !done.Changed {
				t.Errorf("%+v", done)
			}
		}
		wantState(t, s, "open")
		time.Sleep(10 * time.Minute)
		s.sender.mu.Lock()
		n := len(s.sender.waiting)
		s.sender.mu.Unlock()
		if n != 1 {
			t.Errorf("%d amendments wait, want that of an hour", n)
		}
		store.up()
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "b", stint.PerHour(1000), 0)
	})
}

// A refund that was accepted before its charge reached the store is made there, also if many others
// wait by then.
func TestAcceptedRefundIsKept(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := named(oneUnit("a"), "x")
		store.fail(refusedCall())
		d := mustDecide(t, s, r)
		if !mustAmend(t, s, d.Charge, stint.Amendment{}).Changed {
			t.Fatal("the refund changed nothing")
		}
		for range maxJobs {
			s.sender.add(newJob(d.Charge, stint.Amendment{}, nil), time.Hour)
		}
		store.up()
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "a", r.Claims[0].Limits[0], 0)
		s.sender.mu.Lock()
		s.sender.waiting = nil
		s.sender.mu.Unlock()
	})
}
