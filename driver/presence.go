package driver

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Roster is a [stint.Store] that knows which processes share it, and notices that it has lost
// something. Package resilience asks it every second.
type Roster interface {
	stint.Store
	// Present notes that a process is there, for the next ten seconds. The argument has the ID of
	// the process and, from the second call on, all that the last call returned.
	Present(ctx context.Context, last Presence) (Presence, error)
}

// Presence is what a [Roster] knows of the processes that share it.
type Presence struct {
	// ID is that of the process.
	ID string
	// Processes is how many are there.
	Processes int
	// Memory names what the store remembers. It changes when some of that is lost: all of it, or
	// what was written after the copy that the store went on from.
	Memory string
	// At is the instant of the call, and Calls counts those of all processes. The store compares
	// both with its own to notice a loss.
	At, Calls int64
}
