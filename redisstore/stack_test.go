package redisstore_test

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/storetest"
)

// The engine's model through everything that does not answer from memory: nobody can tell it from
// the store alone.
func TestTheModelThroughTheStack(t *testing.T) {
	server := redistest.StartFakeTime(t)
	s, c := open(t, server.URL()), client(t, server.URL())
	policy := stint.FailurePolicy{Mode: stint.FailError, Budget: 10 * time.Second}
	storetest.Model(t, func(t *testing.T) storetest.Harness {
		h := clocked(t, s, c, server)
		stack, err := resilience.New(s,
			resilience.Config{Failure: policy, NoDenyCache: true, NoLeases: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stack.Close() })
		h.Store = stack
		return h
	})
	wantTTLs(t, c)
}
