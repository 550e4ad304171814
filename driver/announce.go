package driver

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Announcer is a [stint.Store] that says which subjects got room back before their time: by a
// refund, a settlement, a reset, the end of a ban, or a waiter that gave up. A limiter listens
// while its callers wait, and package resilience does so always. All stores of this module are
// Announcers.
type Announcer interface {
	stint.Store
	// Announcements calls f for each subject that got room back, in any process, until the context
	// ends or it cannot listen any more. Some may be missed: nothing depends on one. The subject
	// may be its hash if keys hold only that, or "" if it could be anyone's. Commanded is whether
	// it was reset, banned or unbanned, rather than given something back. f does not block, and
	// does not call the store.
	Announcements(ctx context.Context, f func(subject string, commanded bool)) error
}
