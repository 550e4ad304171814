package driver

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
)

// BatchStore is a [stint.Store] that can decide many requests in one call.
type BatchStore interface {
	stint.Store
	// TakeBatch decides each call as Take would, in the order of the batch, and fills in its
	// Decision or Err. A call that fails does not affect the others.
	TakeBatch(ctx context.Context, batch []*Call)
}

// Call is one request of a batch, and its answer.
type Call struct {
	Request stint.Request
	// Deadline is how long the caller waits: a store charges nothing later, if it can tell. Zero
	// means no deadline.
	Deadline time.Time
	// Done, if it is set, may be called as soon as this call is answered, before the others of its
	// batch are. After that, the store neither reads nor writes the call.
	Done func()

	Decision stint.Decision
	Err      error
}
