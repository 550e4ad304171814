package driver

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/protocol"
)

// Terms are the parts of a request that the stack in front of a store sets, and users do not; see
// [stint.Request.Terms].
type Terms = protocol.Terms

// ChargeData holds what a store knows about a charge besides its claims; see [stint.Charge.Data].
type ChargeData = protocol.ChargeData

// OtherStates is the part of [ChargeData] about the states and claims after the first.
type OtherStates = protocol.OtherStates

// ModeForce charges the cost whether or not there is room, even above the capacity: now, MaxWait
// from now, or at an earlier instant (see Age and Refilled in [Terms]). It always allows, ignores
// bans and causes no strike. It is for units that were admitted elsewhere and have to be counted
// here.
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
