package api

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/observe"
)

// decide asks the store.
func (a *API) decide(ctx context.Context, q *question) {
	begun := time.Now()
	if len(q.rules) > 0 {
		q.decision, q.err = a.store.Take(ctx, q.request)
	}
	a.conclude(ctx, q, time.Since(begun))
}

// decideAll asks the store many questions, all at the same time: stores that can decide many together collect them by
// themselves.
func (a *API) decideAll(ctx context.Context, questions []*question) {
	var group sync.WaitGroup
	for _, q := range questions {
		group.Go(func() { a.decide(ctx, q) })
	}
	group.Wait()
}

// conclude tells whoever wants to know.
func (a *API) conclude(ctx context.Context, q *question, took time.Duration) {
	if q.verdict != nil {
		a.guard.Answer(ctx, q.verdict, &q.request, q.decision, q.err)
		return
	}
	if q.err != nil {
		a.log.failed("a request of the API could not be decided", q.err)
	}
	if a.config.Observer != nil && q.mode != stint.Peek {
		a.config.Observer.Ruled(q.ruling(took))
	}
}

// ruling is the answer about a subject that was named, as observers hear of it: under the names of the configuration, or
// as limits of the caller's own.
func (q *question) ruling(took time.Duration) *observe.Ruling {
	r := &observe.Ruling{Tier: q.tier, Subject: q.request.Subject, Decision: q.decision, Err: q.err, Took: took}
	if len(q.rules) > 0 {
		r.Policy = q.rules[0].Policy
		r.Limit = q.decision.Decisive().Limit
	}
	return r
}
