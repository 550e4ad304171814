package driver

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Announcer is a [stint.Store] that announces which subjects may have room earlier than expected:
// after a refund, a settlement to a lower cost or a command, or after a waiter gives up its
// booking. A limiter listens while its callers wait, and package resilience always listens. All
// stores of this module are Announcers.
type Announcer interface {
	stint.Store
	// Announcements calls f for each subject that may have room earlier than expected, because of a
	// call by any process, until the context ends or the store can no longer listen. It may miss
	// some announcements, so nothing may depend on a single one. subject is a hash if keys contain
	// only hashes of subjects, or "" if it could be any subject. commanded reports whether the
	// subject was reset, banned or unbanned; otherwise units were given back to it. f must not
	// block, and must not call the store.
	Announcements(ctx context.Context, f func(subject string, commanded bool)) error
}
