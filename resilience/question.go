package resilience

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// layer is a part of the stack. It answers a question in place.
type layer interface {
	ask(ctx context.Context, q *question) error
	Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error)
	Command(ctx context.Context, c stint.Command) error
}

// question is a request on its way through the stack, and the decision on it: without it, both
// would be copied from layer to layer. After an error the decision means nothing.
type question struct {
	request  stint.Request
	decision stint.Decision
	asked    time.Time // when the caller did, by the monotonic clock; its wall clock may be off
	denial   denialID
}

var questions = sync.Pool{New: func() any { return new(question) }}

// take asks a layer about a request.
func take(ctx context.Context, l layer, r *stint.Request, asked time.Time, id denialID) (d stint.Decision, err error) {
	if len(r.Claims) == 0 {
		return d, r.Validate()
	}
	q := questions.Get().(*question)
	q.request, q.decision, q.asked, q.denial = *r, stint.Decision{}, asked, id
	if err = l.ask(ctx, q); err == nil {
		d = q.decision
	}
	questions.Put(q)
	return d, err
}

// bottom is a store as the lowest layer.
type bottom struct{ stint.Store }

func (b bottom) ask(ctx context.Context, q *question) (err error) {
	q.decision, err = b.Take(ctx, q.request)
	return err
}
