package driver

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Roster is a [stint.Store] that knows which processes share it, and notices when it has lost data.
// Package resilience calls Present every second.
type Roster interface {
	stint.Store
	// Present registers a process for the next ten seconds. The argument is the result of the
	// process's last successful call; before there is one, only its ID is set.
	Present(ctx context.Context, last Presence) (Presence, error)
}

// Presence is a [Roster]'s information about a process, and about all processes that share the
// store.
type Presence struct {
	// ID is the ID of the process.
	ID string
	// Processes is the number of registered processes.
	Processes int
	// Memory identifies the data that the store remembers. It changes when the store loses all data
	// or, because it continues with a backup or a replica, the latest writes.
	Memory string
	// At is the instant of the call, in a unit that the store chooses, and Calls counts the calls
	// of all processes. The store compares both with its own values to detect a loss.
	At, Calls int64
}

// Announcer is a [stint.Store] that announces which subjects may have room earlier than expected:
// after a command, a refund or a settlement to a lower cost, or after a waiter gives up its
// booking. A limiter listens while its callers wait, and package resilience always listens. All
// stores in this module are Announcers.
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
