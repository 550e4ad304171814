package api

import (
	"context"
	"sync"
	"time"
)

// decide calls the store, and passes the answer to the guard's log and observer.
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

// decideAll decides many requests in parallel, so that the store may batch them.
func (a *API) decideAll(ctx context.Context, questions []*question) {
	var group sync.WaitGroup
	for _, q := range questions {
		group.Go(func() { a.decide(ctx, q) })
	}
	group.Wait()
}
