package contract

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// ChargeOf returns the charge of a request before a store has decided it, with the claims, the Hold
// and the ID of the request.
func ChargeOf(r *stint.Request) (c stint.Charge) {
	c.SetClaims(r.Claims)
	c.Data().Hold = r.Hold
	if r.ID != "" {
		c.Data().RequestID, c.Data().IDLife = r.ID, Life(r)
	}
	return c
}

// FromStore reports whether the store made the whole charge. Otherwise a process made it, or a part
// of it, as a fallback or from a lease.
func FromStore(c *stint.Charge) bool { return !c.Data().Fallback && c.Data().Leased == 0 }

// SetGeneration sets the generation of a charge's state i, counted from 0. If i is not 0 and the
// charge has no list of generations, SetGeneration creates the list.
func SetGeneration(c *stint.Charge, i int, generation uint32) {
	data := c.Data()
	if i == 0 {
		data.Generation = generation
		return
	}
	if data.Others == nil {
		data.Others = new(driver.OtherStates)
	}
	if data.Others.Generations == nil {
		data.Others.Generations = make([]uint32, CountStates(c.Claims())-1)
	}
	data.Others.Generations[i-1] = generation
}

// CountStates returns the total number of states that a store keeps for claims; see [StateNames].
func CountStates(claims []stint.Claim) (n int) {
	var names [stint.MaxLimits]string
	for i := range claims {
		n += len(StateNames(&claims[i], names[:0]))
	}
	return n
}

// NoGenerations gives every state of a charge the generation 0, for a charge that no store has
// made. No state in a store has that generation.
func NoGenerations(c *stint.Charge) {
	if n := CountStates(c.Claims()); n > 1 {
		c.Data().Others = &driver.OtherStates{Generations: make([]uint32, n-1)}
	}
}
