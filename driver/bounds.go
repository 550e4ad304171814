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
	MaxHolds    = 20_000 // open holds of one state
	// LongestHold is the maximum time for which units stay held after the clock has stepped back.
	LongestHold = 25 * time.Hour
)
