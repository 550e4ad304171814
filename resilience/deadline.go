package resilience

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// amendTime is how long an amendment or a command may take unless the caller set a deadline. No
// request waits for them.
const amendTime = time.Second

// deadlines is a layer that gives every decision a budget of time. What keeps it is the layer
// below, which has to honor its context.
type deadlines struct {
	inner    layer
	batching *batching // the same, if it is one: it takes a deadline without a context for it
	budget   time.Duration
}

// newDeadlines gives decisions a budget, if the request's [stint.FailurePolicy] has no other.
func newDeadlines(inner layer, budget time.Duration) *deadlines {
	batching, _ := inner.(*batching)
	return &deadlines{inner: inner, batching: batching, budget: budget}
}

func (d *deadlines) ask(ctx context.Context, q *question) error { return d.askAfter(ctx, q, nil) }

// askAfter is ask with what is owed, which is charged first if the layer below can do that, and is
// left as it was if not.
func (d *deadlines) askAfter(ctx context.Context, q *question, owed []*owedCall) error {
	if err := ctx.Err(); err != nil {
		giveUp(owed)
		return err // nobody waits for an answer
	}
	r, budget := &q.request, d.budget
	if r.Failure != nil && r.Failure.Budget > 0 {
		budget = r.Failure.Budget
	}
	if r.Terms().Lease > 0 {
		budget = max(budget, r.Terms().Lease/2) // no caller waits for it, and its length counts from now
	}
	// A caller with less time than that gets its answer a little late. Its deadline says nothing
	// about the store, and clients choose it: they must not be able to avoid the store that way.
	deadline := q.asked.Add(budget)
	if earlier(ctx, deadline) != deadline {
		ctx = context.WithoutCancel(ctx)
	}
	if d.batching != nil {
		return d.batching.askBy(ctx, q, owed, deadline)
	}
	giveUp(owed)
	limited := until(ctx, deadline)
	defer limited.release()
	return d.inner.ask(limited, q)
}

// earlier is the deadline, or that of the context if it comes before.
func earlier(ctx context.Context, deadline time.Time) time.Time {
	own, ok := ctx.Deadline()
	if !ok {
		return deadline
	}
	sooner := own.Before(deadline)
	if own == own.Round(0) { // it is of the wall clock alone, which may be off in the other
		sooner = time.Until(own) < time.Until(deadline)
	}
	if sooner {
		return own
	}
	return deadline
}

func (d *deadlines) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	limited := until(ctx, earlier(ctx, time.Now().Add(amendTime)))
	defer limited.release()
	return d.inner.Amend(limited, c, a)
}

func (d *deadlines) Command(ctx context.Context, c stint.Command) error {
	limited := until(ctx, earlier(ctx, time.Now().Add(amendTime)))
	defer limited.release()
	return d.inner.Command(limited, c)
}

// budgeted is a context with a deadline that needs no timer until Done is called, which clients
// that set a deadline on their connection do not do.
type budgeted struct {
	context.Context
	deadline time.Time

	mu       sync.Mutex
	timed    context.Context // with a timer; nil until it is asked for
	cancel   context.CancelFunc
	released bool
}

func until(ctx context.Context, deadline time.Time) *budgeted {
	return &budgeted{Context: ctx, deadline: deadline}
}

func (b *budgeted) Deadline() (time.Time, bool) { return b.deadline, true }

func (b *budgeted) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timed == nil {
		b.timed, b.cancel = context.WithDeadline(b.Context, b.deadline)
		if b.released {
			b.cancel()
		}
	}
	return b.timed.Done()
}

func (b *budgeted) Err() error {
	b.mu.Lock()
	timed := b.timed
	b.mu.Unlock()
	if timed == nil {
		timed = b.Context
	}
	if err := timed.Err(); err != nil { // once Done is closed there has to be one
		return err
	}
	if !time.Now().Before(b.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// release ends the context, and its timer if it has one.
func (b *budgeted) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = true
	if b.cancel != nil {
		b.cancel()
	}
}
