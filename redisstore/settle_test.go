package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// What a request with a hold cost more is charged though its state has expired or was reset, once
// among all processes.
func TestSettleAfterTheState(t *testing.T) {
	server := redistest.Start(t)
	stores, clock := clockedStores(t, server, 2)
	limits := []stint.Limit{stint.PerSecond(10), stint.TokenBucket(10, 10, time.Second),
		stint.PerSecond(10).WithName("n")}
	r := unit("a", limits...)
	r.Claims[0].Cost, r.Hold = 5, time.Minute
	expire := func() {
		t.Helper()
		clock.Advance(3 * time.Second)
		for _, what := range []string{"limits", "limits/n"} {
			server.CLI(t, "DEL", redisstore.Key(stores[0], "a", what))
		}
	}
	want := func(units int64) {
		t.Helper()
		look := r
		look.Mode = stint.ModePeek
		d := take(t, stores[0], look)
		for i, u := range d.Usages() {
			if u.Used != units {
				t.Errorf("%v: %d used, want %d", limits[i], u.Used, units)
			}
		}
	}
	for _, reset := range []bool{false, true} {
		d := take(t, stores[0], r)
		expire()
		if reset {
			command(t, stores[0], stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: limits})
			clock.Advance(time.Second)
		}
		for i, applied := range []stint.Amended{{Changed: true, Charged: 9}, {}} {
			if done := amend(t, stores[i], d.Charge, settle(9)); done != applied {
				t.Errorf("reset %v, settlement %d: %+v, want %+v", reset, i+1, done, applied)
			}
			want(4)
		}
		clock.Advance(time.Minute)
	}
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("keys without a TTL: %q", keys)
	}
}

// A heartbeat reports that a charge is held only if all of its holds are open: one was lost here.
func TestExtendOfLostHolds(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	r := unit("a", stint.PerHour(10))
	r.Claims, r.Hold = append(r.Claims, unit("b", stint.PerHour(10)).Claims...), time.Minute
	d := admit(t, s, r)
	for _, open := range []bool{true, false} {
		if done := amend(t, s, d.Charge, extend); done.Changed != open {
			t.Errorf("extended: %+v, want %v", done, open)
		}
		server.CLI(t, "DEL", redisstore.Key(s, "b", "holds"))
	}
}

// A command whose answer is lost is not sent again: it gives back at most once.
func TestLostGiveBackIsNotRepeated(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	limits := []stint.Limit{stint.PerHour(10), stint.TokenBucket(10, 1, 24*time.Hour)}
	r := unit("a", limits...)
	r.Claims[0].Cost = 10
	admit(t, s, r)
	server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.Command(ctx, stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits, Units: 3})
	server.Resume(t)
	if err == nil {
		t.Error("no error from a server that is stopped")
	}
	r.Mode, r.Claims[0].Cost = stint.ModePeek, 1
	d := take(t, s, r) // on the same server, after whatever was sent
	for _, state := range d.States() {
		if state.Used != 10 && state.Used != 7 {
			t.Errorf("%s: used %d, want 10, or 7 if the server did it", state.Limit, state.Used)
		}
	}
}

// A heartbeat that reaches the server after its caller has given up takes no place: that may have
// been released since.
func TestALateHeartbeatTakesNoPlace(t *testing.T) {
	server := redistest.Start(t)
	s, other := open(t, server.URL()), open(t, server.URL())
	l := stint.Concurrency(1, 100*time.Millisecond)
	c := admit(t, s, unit("job", l)).Charge
	time.Sleep(150 * time.Millisecond) // it is forgotten
	server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	deadline, _ := ctx.Deadline()
	late := &driver.AmendCall{Charge: c, Amendment: extend, Deadline: deadline}
	var batch sync.WaitGroup
	batch.Go(func() { // which waits for its other callers
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.AmendBatch(ctx, []*driver.AmendCall{late})
	})
	if held, err := s.Amend(ctx, c, extend); err == nil {
		t.Fatalf("a heartbeat to a server that is stopped: %v", held)
	}
	time.Sleep(50 * time.Millisecond)
	server.Resume(t)
	for range 20 {
		if n := usedOf(t, other, "job", l); n != 0 {
			t.Fatalf("%d holders, after a heartbeat that came too late", n)
		}
		time.Sleep(2 * time.Millisecond)
	}
	if batch.Wait(); late.Err == nil {
		t.Errorf("a heartbeat of a batch, after its deadline: %v", late.Amended)
	}
	if held, err := s.Amend(t.Context(), c, extend); err != nil || !held.Changed {
		t.Fatalf("a heartbeat in time: %v, %v", held, err)
	}
}

var extend = stint.Amendment{Kind: stint.AmendExtend}
