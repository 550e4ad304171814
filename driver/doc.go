// Package driver is for authors of stores and of stores that wrap a store. It holds what goes
// beyond [stint.Store]: inspecting a store, deciding many requests in one call, and the bounds on
// what a store has to remember. Programs that only limit something do not need it. Package
// storetest tests a new store against the contract.
package driver

// Bounds on what a store keeps. Beyond them, it forgets or refuses as each one says.
const (
	// MaxRepeats is how often a request ID is allowed again without a charge. The next repeat is
	// denied.
	MaxRepeats = 8
	// MaxIDs is how many request IDs a store remembers of one subject and scope. Beyond that, it
	// forgets the oldest: its repeat is charged.
	MaxIDs = 1000
	// MaxBookings is how many requests may be booked ahead on one limit of one subject.
	MaxBookings = 1000
	// MaxSettled is how many settlements a store remembers of one subject and scope, so that each
	// applies once. A process also remembers the last 65,536 that it sent itself. A first
	// settlement is never refused for lack of memory. A second one is applied only if it comes from
	// another process after that many later ones.
	MaxSettled = 1000
	// MaxEntries is how many charges of one limit [Inspector.Inspect] shows.
	MaxEntries = 1000
	// MaxScopes is how many scopes of one subject [Inspector.Scopes] lists.
	MaxScopes = 1000
)
