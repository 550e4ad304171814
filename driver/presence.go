package driver

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Roster is a [stint.Store] that knows which processes share it, and notices that it has lost
// something. Package resilience calls it every second.
type Roster interface {
	stint.Store
	// Present registers a process for the next ten seconds. The argument has the ID of the process
	// and, from the second call on, everything that the last call returned.
	Present(ctx context.Context, last Presence) (Presence, error)
}

// Presence holds what a [Roster] knows about the processes that share it.
type Presence struct {
	// ID is the ID of the process.
	ID string
	// Processes is how many processes are registered.
	Processes int
	// Memory names the state that the store remembers. It changes when some of the state is lost:
	// all of it, or what was written after the copy from which the store continued.
	Memory string
	// At is the instant of the call, and Calls counts the calls of all processes. The store
	// compares both with its own values to notice a loss.
	At, Calls int64
}
