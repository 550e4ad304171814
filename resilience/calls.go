package resilience

import (
	"context"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// What is asked of a store, as a [StoreCall] names it.
const (
	opTake    = "take"
	opAmend   = "amend"
	opCommand = "command"
	opInspect = "inspect"
	opPing    = "ping"
)

// take makes a batch of calls, as an attempt that may become overdue meanwhile.
func (b *breaker) take(ctx context.Context, batch []*driver.Call, a *attempt) {
	b.try(ctx, a, opTake, len(batch), func(i int) *error { return &batch[i].Err },
		func(ctx context.Context) { b.store.TakeBatch(ctx, batch) })
}

// amend makes a batch of amendments, as take does.
func (b *breaker) amend(ctx context.Context, batch []*driver.AmendCall, a *attempt) {
	b.try(ctx, a, opAmend, len(batch), func(i int) *error { return &batch[i].Err },
		func(ctx context.Context) { b.amendAll(ctx, batch) })
}

// amendAll amends charges in one call, or in one each if the store cannot do that.
func (b *breaker) amendAll(ctx context.Context, batch []*driver.AmendCall) {
	if store, ok := b.store.(driver.BatchAmender); ok {
		store.AmendBatch(ctx, batch)
		return
	}
	var group sync.WaitGroup
	defer group.Wait()
	for _, c := range batch {
		group.Go(func() { c.Amended, c.Err = b.store.Amend(ctx, c.Charge, c.Amendment) })
	}
}

func (b *breaker) command(ctx context.Context, c stint.Command) (err error) {
	b.try(ctx, new(attempt), opCommand, 1, func(int) *error { return &err },
		func(ctx context.Context) { err = b.store.Command(ctx, c) })
	return err
}

// try makes a call to the store that carries n requests, or fills in their errors if it may not.
func (b *breaker) try(ctx context.Context, a *attempt, op string, n int, errOf func(int) *error,
	call func(context.Context)) {
	if err := b.enter(a, op, n); err != nil {
		for i := range n {
			*errOf(i) = err
		}
		return
	}
	if a.trial { // no other call gets through until it ends
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, pingTime)
		defer cancel()
	}
	defer b.leave(ctx, a, context.Canceled) // if the store panics
	call(ctx)
	b.leave(ctx, a, batchError(n, errOf))
}

// batchError is what a call says about the store: nil if it brought any answer, else a failure of
// the store if there was one, else what became of the first request.
func batchError(n int, errOf func(int) *error) error {
	first := *errOf(0)
	for i := range n {
		err := *errOf(i)
		if err == nil {
			return nil
		}
		if failed(err) && !failed(first) {
			first = err
		}
	}
	return first
}
