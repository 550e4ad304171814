package api

import (
	"context"
	"sync"
	"time"

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

// shadowTime is how long a request waits for all that has no consequences.
const shadowTime = 10 * time.Millisecond

// conclude asks about the rules that have no consequences, and tells whoever wants to know.
func (a *API) conclude(ctx context.Context, q *question) {
	if q.err != nil {
		a.log.failed("a request of the API could not be decided", q.err)
	}
	if d := &q.decision; q.err == nil && len(q.shadow) > 0 && d.Allowed && !d.Repeat && !d.Degraded {
		a.concludeShadow(ctx, q)
	}
	if v := q.verdict; v != nil {
		v.Decision = q.decision
		if a.config.Observer != nil && q.mode != stint.Peek {
			a.config.Observer.Judged(v, q.err)
		}
	}
}

func (a *API) concludeShadow(ctx context.Context, q *question) {
	ctx, cancel := context.WithTimeout(ctx, shadowTime)
	defer cancel()
	for i := range q.shadow {
		s := &q.shadow[i]
		if d, err := a.store.Take(ctx, s.request); err == nil && !d.Allowed && !d.Degraded {
			q.verdict.Shadowed = append(q.verdict.Shadowed, s.rule)
			q.shadowed = append(q.shadowed, s.rule.Name())
		}
	}
}
