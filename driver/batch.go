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

// BatchAmender is a [stint.Store] that can amend many charges in one call.
type BatchAmender interface {
	stint.Store
	// AmendBatch amends each charge as Amend would, in the order of the batch, and fills in its
	// Amended or Err. An amendment that fails does not affect the others.
	AmendBatch(ctx context.Context, batch []*AmendCall)
}

// AmendCall is one amendment in a batch, and the answer to it.
type AmendCall struct {
	Charge    stint.Charge
	Amendment stint.Amendment
	// Deadline is the time at which the caller stops waiting. The store applies no heartbeat after
	// the deadline, provided that it can compare the deadline with its own clock. Zero means no
	// deadline.
	Deadline time.Time

	Amended stint.Amended
	Err     error
}

// Call is one request in a batch, and the answer to it.
type Call struct {
	Request stint.Request
	// Deadline is the time at which the caller stops waiting. The store charges nothing after the
	// deadline, provided that it can compare the deadline with its own clock. Zero means no
	// deadline.
	Deadline time.Time
	// Done, if not nil, may be called as soon as this call is answered, even if other calls in the
	// batch are not. After that, the store neither reads nor writes the call.
	Done func()

	Decision stint.Decision
	Err      error
}
