package api

import (
	"context"
	"sync"

	"github.com/stint-limiter/stint"
)

// decide asks the store.
func (a *API) decide(ctx context.Context, q *question) {
	if len(q.rules) > 0 {
		q.decision, q.err = a.store.Take(ctx, q.request)
	}
	a.conclude(ctx, q)
}

// decideAll asks the store many questions: in one call and in order if it takes them so, else all at the same time.
func (a *API) decideAll(ctx context.Context, questions []*question) {
	var group sync.WaitGroup
	defer group.Wait()
	batcher, ok := a.store.(stint.BatchStore)
	if !ok {
		for _, q := range questions {
			group.Go(func() { a.decide(ctx, q) })
		}
		return
	}
	deadline, _ := ctx.Deadline()
	calls := make([]stint.Call, len(questions))
	var batch []*stint.Call
	for i, q := range questions {
		if len(q.rules) > 0 {
			calls[i].Request, calls[i].Deadline = q.request, deadline
			batch = append(batch, &calls[i])
		}
	}
	batcher.TakeBatch(ctx, batch)
	for i, q := range questions {
		if len(q.rules) > 0 {
			q.decision, q.err = calls[i].Decision, calls[i].Err
		}
		group.Go(func() { a.conclude(ctx, q) })
	}
}

// conclude tells whoever wants to know.
func (a *API) conclude(ctx context.Context, q *question) {
	if q.verdict != nil {
		a.guard.Answer(ctx, q.verdict, &q.request, q.decision, q.err)
	} else if q.err != nil {
		a.log.failed("a request of the API could not be decided", q.err)
	}
}
