package api

import (
	"context"
	"sync"
	"time"
)

// decide asks the store, and passes the answer to the guard's log and observer.
func (a *API) decide(ctx context.Context, q *question) {
	v := &q.verdict
	var began time.Time
	if q.named {
		began = time.Now()
	}
	if q.claims() > 0 {
		v.Decision, v.Err = a.store.Take(ctx, q.request)
	}
	if q.named {
		v.Took = time.Since(began)
	}
	a.guard.Answer(ctx, v, &q.request)
}

// decideAll asks the store many questions at the same time, which it may collect.
func (a *API) decideAll(ctx context.Context, questions []*question) {
	var group sync.WaitGroup
	for _, q := range questions {
		group.Go(func() { a.decide(ctx, q) })
	}
	group.Wait()
}
