// Package driver is for authors of stores, including stores that wrap another store. It contains
// everything that a store can do beyond [stint.Store]: inspection, batches, tables, the presence of
// processes, and announcements that wake waiting callers. Programs that only apply limits do not
// need it. Package storetest tests a new store against the contract.
//
// # What a store must remember
//
// A store may forget or refuse what exceeds these bounds, as follows:
//
//   - 8 repeats of a request ID are allowed without a charge. Further repeats are decided as if
//     they had no ID.
//   - 1,000 request IDs of one subject and scope are remembered, with their charges. Beyond that,
//     the ID that expires first is forgotten, and its repeat is charged.
//   - 1,000 bookings can be open on one limit of one subject. The next request that needs one is
//     denied.
//   - 1,000 settlements of one subject and scope are remembered, so that each applies once. A
//     process also remembers the last 65,536 that it sent itself. A first settlement is never
//     refused for lack of memory. A repeated one applies only if the store has forgotten the first
//     and another process sends it.
//   - 20,000 holds of one subject, scope and limit name can be open. The next request with a hold
//     is denied. A hold with [ModeForce] is then not opened: its units are charged at once.
//   - [Inspector.Inspect] shows the newest 1,000 charges of one limit, and [Inspector.Scopes] lists
//     1,000 scopes of one subject.
//
// # Waiting
//
// Callers of [stint.Limiter.Wait] sleep until the time of their booking. A store that is an
// [Announcer] wakes them when there may be room earlier. With other stores, they ask again from
// time to time.
//
// # Order
//
// A heartbeat that was not answered may still arrive, and take back a place that has been released
// since. So a holder waits until its heartbeat can no longer arrive before it gives up its place.
// The holder need not wait if its store has a method AmendsInOrder() bool that returns true: such a
// store delays a release until no earlier heartbeat of the charge can arrive. The store of package
// resilience is an example.
package driver

import "time"

// A store may forget or refuse what exceeds these bounds. The package comment describes what
// happens beyond each maximum, and package storetest tests it.
const (
	MaxRepeats  = 8      // allowed repeats of a request ID
	MaxIDs      = 1000   // request IDs of one subject and scope
	MaxBookings = 1000   // bookings on one limit of one subject
	MaxSettled  = 1000   // settlements of one subject and scope
	MaxEntries  = 1000   // charges of one limit that Inspect shows
	MaxScopes   = 1000   // scopes of one subject that Scopes lists
	MaxHolds    = 20_000 // open holds of one subject, scope and limit name
	// LongestHold is the maximum time that units stay held after the clock has stepped back.
	LongestHold = 25 * time.Hour
)
