package driver

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Roster is a [stint.Store] that knows which processes share it, and notices when it has lost data.
// Package resilience calls it every second.
type Roster interface {
	stint.Store
	// Present registers a process for the next ten seconds. last has the ID of the process and,
	// from the second call on, everything that the previous call returned.
	Present(ctx context.Context, last Presence) (Presence, error)
}

// Presence holds what a [Roster] knows about the processes that share it.
type Presence struct {
	// ID is the ID of the process.
	ID string
	// Processes is the number of registered processes.
	Processes int
	// Memory identifies the data that the store remembers. It changes when data is lost: all of it,
	// or the latest writes if the store continues with a backup or a replica that lacks them.
	Memory string
	// At is the instant of the call in microseconds since the Unix epoch, and Calls counts the
	// calls of all processes. The store compares both with its own values to notice a loss.
	At, Calls int64
}
