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

// A heartbeat that reaches the server after its caller has given up takes no place: that may have
// been released since.
func TestALateHeartbeatTakesNoPlace(t *testing.T) {
	server := redistest.Start(t)
	s, other := open(t, server.URL()), open(t, server.URL())
	l := stint.AtOnce(1, 100*time.Millisecond)
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

// What one process released, no heartbeat of its own takes back; and after a reset none of another
// one does.
func TestPlacesOfTwoProcesses(t *testing.T) {
	server := redistest.Start(t)
	one, two := open(t, server.URL()), open(t, server.URL())
	l := stint.AtOnce(3, time.Minute)
	released, reset := admit(t, one, unit("job", l)).Charge, admit(t, two, unit("job", l)).Charge
	want := func(s *redisstore.Store, c stint.Charge, a stint.Amendment, changed bool) {
		t.Helper()
		if got := amend(t, s, c, a); got.Changed != changed {
			t.Errorf("%+v: got %v, want %v", a, got, changed)
		}
	}
	want(one, released, stint.Amendment{Kind: stint.AmendRelease}, true)
	want(one, released, extend, false)
	command(t, one, stint.Command{Kind: stint.CommandReset, Subject: "job", Limits: []stint.Limit{l}})
	want(two, reset, extend, false)
	since := admit(t, two, unit("job", l)).Charge
	want(two, since, extend, true)
	if n := usedOf(t, one, "job", l); n != 1 {
		t.Errorf("%d holders, want 1", n)
	}
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("keys without a TTL: %q", keys)
	}
}

var extend = stint.Amendment{Kind: stint.AmendExtend}
