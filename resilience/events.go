package resilience

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// Decided is the event of a decision from any source. There is one for each call of [Stack.Take],
// unless the request has no claims.
type Decided struct {
	// Request and Decision are valid until Observe returns. An observer that needs them later must
	// copy what they point to.
	Request  *stint.Request
	Decision *stint.Decision
	Err      error // why there is no decision; nil if there is one
	// Source identifies what made the decision.
	Source Source
	// Mode is the failure mode that determined the decision, and Cause is the reason why the store
	// did not decide. Both are set only if Source is SourceFallback.
	Mode  stint.FailureMode
	Cause error
	// Took is the duration of the decision. It is zero if Source is SourceDenyCache or SourceLease.
	Took time.Duration
}

// Event implements [stint.Event].
func (*Decided) Event() {}

// Source identifies what made a decision.
type Source string

const (
	// SourceStore means that the store decided.
	SourceStore Source = "store"
	// SourceFallback means that this process decided, according to a [stint.FailureMode], because
	// the store did not.
	SourceFallback Source = "fallback"
	// SourceDenyCache means that this process repeated a recent denial from memory.
	SourceDenyCache Source = "denycache"
	// SourceLease means that this process decided, with units that it had leased from the store.
	SourceLease Source = "lease"
)

// StoreCall is the event of a call to the store.
type StoreCall struct {
	Op       string // "take", "amend", "command", "inspect" or "ping"
	Requests int    // number of requests in the call
	Took     time.Duration
	Err      error
}

// Event implements [stint.Event].
func (*StoreCall) Event() {}

// BreakerChange is the event of a change of the breaker's state.
type BreakerChange struct{ From, To BreakerState }

// BreakerState is a state of the breaker; see [Stack.Breaker].
type BreakerState string

const (
	// BreakerClosed means that calls reach the store.
	BreakerClosed BreakerState = "closed"
	// BreakerOpen means that no call reaches the store, because calls failed.
	BreakerOpen BreakerState = "open"
	// BreakerHalfOpen means that one call checks whether the store works again.
	BreakerHalfOpen BreakerState = "half-open"
)

// Event implements [stint.Event].
func (*BreakerChange) Event() {}

// Events on the request path are reused: an observer must not keep them.
var storeCallPool = sync.Pool{New: func() any { return new(StoreCall) }}

func (q *question) observe(ctx context.Context, o stint.Observer, err error) {
	e := &q.event
	if e.Request, e.Decision, e.Err = &q.request, &q.decision, err; err != nil {
		q.decision = stint.Decision{}
	}
	o.Observe(ctx, e)
	*e = Decided{}
}

// observeMemory reports to o a decision that was made from memory. It does nothing if o is nil.
func observeMemory(ctx context.Context, o stint.Observer, source Source, r *stint.Request, d *stint.Decision) {
	if o == nil {
		return
	}
	q := questions.Get().(*question) // a copy, so that r and d stay on the stack
	q.event.Source, q.request, q.decision = source, *r, *d
	q.observe(ctx, o, nil)
	questions.Put(q)
}

func observeCall(ctx context.Context, o stint.Observer, op string, requests int, begin time.Time, err error) {
	if o == nil {
		return
	}
	e := storeCallPool.Get().(*StoreCall)
	*e = StoreCall{Op: op, Requests: requests, Took: time.Since(begin), Err: err}
	o.Observe(ctx, e)
	*e = StoreCall{}
	storeCallPool.Put(e)
}
