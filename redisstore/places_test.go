package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
)

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
