package driver

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/protocol"
)

// Terms are the parts of a request that are set not by users but by the stack in front of a store;
// see [stint.Request.Terms]. The zero Terms require nothing. In short, the fields are as follows;
// run "go doc -all github.com/stint-limiter/stint/internal/protocol" for everything that a store
// must know:
//
//	Booked    *ChargeData    move this booking of the same claims to an earlier time, if possible
//	Tentative bool           make a booking that its owner does not use before it has asked again
//	Lease     time.Duration  charge units for the process to use within this duration from now
//	Fit       bool           lower the cost to the units that there is room for, but not below one
//	Age       time.Duration  how long ago the units of a ModeForce were used; for limits with a log
//	Refilled  time.Duration  how long meters have been giving back the units of a ModeForce
//	AtLeast   bool           raise the usage of each limit to the cost of a ModeForce, not by it
type Terms = protocol.Terms

// ChargeData holds a store's data about a charge, except for its claims; see [stint.Charge.Data].
// Times are microseconds since the Unix epoch by the store's clock. In short, the fields are as
// follows; run "go doc -all github.com/stint-limiter/stint/internal/protocol" for everything that a
// store must know:
//
//	ID             uint64         unique to the charge; zero if nothing was charged
//	At             int64          the instant at which the charge counts
//	Now            int64          the instant at which the store answered; zero if it was not asked
//	Generation     uint32         the generation of the first state; charges of earlier generations
//	                              cannot be amended, unless they have an open hold
//	Fallback       bool           whether it was made in the memory of a process while the store was
//	                              unavailable; only that process can amend it
//	Leased, Leaser uint16         a bit for each claim charged from leased units, and the mark of the
//	                              process that had leased them
//	Hold           time.Duration  the Hold of the request
//	RequestID      string         the ID of the request
//	IDLife         time.Duration  how long the ID is remembered
//	Others         *OtherStates   the states and claims after the first; nil if there are none
//
// GenerationAt returns the generation of a state. IsLeased, AtOf and NowOf return the fields of a
// claim.
type ChargeData = protocol.ChargeData

// OtherStates is the part of [ChargeData] for the states and claims after the first: the
// Generations of the states and, if each subject has its own clock, the instants At and Now of the
// claims.
type OtherStates = protocol.OtherStates

// ModeForce charges the cost whether or not there is room, even above the capacity: now, MaxWait
// from now, or at an earlier instant (see Age and Refilled in [Terms]). It always allows, ignores
// bans and causes no strike. It is for usage that must be counted even though the store did not
// admit it.
const ModeForce = stint.Mode(protocol.ModeForce)

// WithTerms returns a request with the given terms.
func WithTerms(r stint.Request, t Terms) stint.Request {
	*r.Terms() = t
	return r
}

// NewCharge returns a charge of the given claims.
func NewCharge(claims []stint.Claim, data ChargeData) stint.Charge {
	var c stint.Charge
	c.SetClaims(claims)
	*c.Data() = data
	return c
}
