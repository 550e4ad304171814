package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/storetest"
)

// batched is a steady store as a batching one.
type batched struct{ *steady }

func (s batched) TakeBatch(ctx context.Context, batch []*driver.Call) {
	s.pass(0)
	s.steady.TakeBatch(ctx, batch)
}

func (s batched) AmendBatch(ctx context.Context, batch []*driver.AmendCall) {
	s.refresh()
	s.steady.AmendBatch(ctx, batch)
}

// The engine's model through everything that does not answer from memory: nobody can tell it from
// the store alone.
func TestTheModelThroughTheStack(t *testing.T) {
	server := redistest.Start(t)
	s, c := open(t, server.URL()), client(t, server.URL())
	policy := stint.FailurePolicy{Mode: stint.FailError, Budget: 10 * time.Second}
	storetest.Model(t, func(t *testing.T) storetest.Harness {
		h := clocked(t, s, c)
		stack, err := resilience.New(batched{h.Store.(*steady)},
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
