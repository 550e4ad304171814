package resilience

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// Decided is the event of a decision, whoever made it. There is one for each call of [Stack.Take].
type Decided struct {
	// Request and Decision are valid until Observe returns: an observer that needs them later
	// copies what they point to.
	Request  *stint.Request
	Decision *stint.Decision
	Err      error // why there is no decision
	// Source is who decided: "store", "fallback", or from memory "denycache" or "lease".
	Source string
	// Mode is how the fallback decided, and Cause why the store did not.
	Mode  stint.FailureMode
	Cause error
	// Took is how long the decision took; zero if it was made from memory.
	Took time.Duration
}

// What a Decided has as its Source.
const (
	sourceStore     = "store"
	sourceFallback  = "fallback"
	sourceDenyCache = "denycache"
	sourceLease     = "lease"
)

// StoreCall is the event of a call to the store.
type StoreCall struct {
	Op       string // "take", "amend", "command", "inspect" or "ping"
	Requests int    // how many it carried
	Took     time.Duration
	Err      error
}

// BreakerChange is the event of a change of the breaker's state; see [Stack.Breaker].
type BreakerChange struct{ From, To string }

// Events on the request path are reused: an observer must not keep them.
var (
	decidedPool   = sync.Pool{New: func() any { return new(Decided) }}
	storeCallPool = sync.Pool{New: func() any { return new(StoreCall) }}
)

// observeDecided fills in an event of the pool, hands it to the observer, and puts it back.
func observeDecided(ctx context.Context, o stint.Observer, e *Decided, q *question, err error) {
	if e.Request, e.Decision, e.Err = &q.request, &q.decision, err; err != nil {
		q.decision = stint.Decision{}
	}
	o.Observe(ctx, e)
	*e = Decided{}
	decidedPool.Put(e)
}

// observeMemory observes a decision that was made from memory.
func observeMemory(ctx context.Context, o stint.Observer, source string, r *stint.Request, d *stint.Decision) {
	if o == nil {
		return
	}
	e, q := decidedPool.Get().(*Decided), questions.Get().(*question) // r and d stay on the stack
	e.Source, q.request, q.decision = source, *r, *d
	observeDecided(ctx, o, e, q, nil)
	questions.Put(q)
}

// observeCall observes a call to the store that began at a time.
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

// observed is a layer whose decisions are observed, where no fallback does that.
type observed struct {
	layer
	observer stint.Observer
}

func (o observed) ask(ctx context.Context, q *question) error {
	err := o.layer.ask(ctx, q)
	if q.request.Terms().Lease == 0 { // a renewal is nobody's decision
		e := decidedPool.Get().(*Decided)
		e.Source, e.Took = sourceStore, time.Since(q.asked)
		observeDecided(ctx, o.observer, e, q, err)
	}
	return err
}
