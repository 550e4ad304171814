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

// place takes a place and returns the charge.
func place(t *testing.T, s *redisstore.Store, l stint.Limit) stint.Charge {
	t.Helper()
	d, err := s.Take(
		t.Context(),
		stint.Request{Claims: []stint.Claim{{Subject: "job", Limits: []stint.Limit{l}, Cost: 1}}},
	)
	if err != nil || !d.Allowed {
		t.Fatalf("take: allowed %v, %v", d.Allowed, err)
	}
	return d.Charge
}

func holders(t *testing.T, s *redisstore.Store, l stint.Limit) int64 {
	t.Helper()
	d, err := s.Take(t.Context(), stint.Request{Claims: []stint.Claim{{Subject: "job", Limits: []stint.Limit{l}}},
		Mode: stint.ModePeek})
	if err != nil {
		t.Fatal(err)
	}
	return d.Usages()[0].Used
}

// A heartbeat that reaches the server after its caller has given up takes no place: that may have
// been released since.
func TestALateHeartbeatTakesNoPlace(t *testing.T) {
	server := redistest.Start(t)
	s, other := open(t, server.URL()), open(t, server.URL())
	l := stint.AtOnce(1, 100*time.Millisecond)
	c := place(t, s, l)
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
		if n := holders(t, other, l); n != 0 {
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

// What one process released, no heartbeat of its own takes back; and after a reset none of another
// one does.
func TestPlacesOfTwoProcesses(t *testing.T) {
	server := redistest.Start(t)
	one, two := open(t, server.URL()), open(t, server.URL())
	l := stint.AtOnce(3, time.Minute)
	released, reset := place(t, one, l), place(t, two, l)
	amend := func(s *redisstore.Store, c stint.Charge, a stint.Amendment, want bool) {
		t.Helper()
		if got, err := s.Amend(t.Context(), c, a); err != nil || got.Changed != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	amend(one, released, stint.Amendment{Kind: stint.AmendRelease}, true)
	amend(one, released, extend, false)
	if err := one.Command(t.Context(),
		stint.Command{Kind: stint.CommandReset, Subject: "job", Limits: []stint.Limit{l}}); err != nil {
		t.Fatal(err)
	}
	amend(two, reset, extend, false)
	since := place(t, two, l)
	amend(two, since, extend, true)
	if n := holders(t, one, l); n != 1 {
		t.Errorf("%d holders, want 1", n)
	}
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("keys without a TTL: %q", keys)
	}
}

var extend = stint.Amendment{Kind: stint.AmendExtend}
