package contract

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// ChargeOf returns the claims of a request as a charge that is yet to be made.
func ChargeOf(r *stint.Request) (c stint.Charge) {
	c.SetClaims(r.Claims)
	if r.ID != "" {
		c.Data().RequestID, c.Data().IDLife = r.ID, Life(r)
	}
	return c
}

// FromStore reports whether the store made the charge: not this process, as a fallback or from a
// lease.
func FromStore(c *stint.Charge) bool { return !c.Data().Fallback && !c.Data().Leased }

// SetGeneration sets the generation of the ith of all states. A charge with several has its own
// list.
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
		data.Others.Generations = make([]uint32, states(c)-1)
	}
	data.Others.Generations[i-1] = generation
}

// states is the number of states that the charge is about.
func states(c *stint.Charge) (n int) {
	var names [stint.MaxLimits]string
	claims := c.Claims()
	for i := range claims {
		n += len(StateNames(&claims[i], names[:0]))
	}
	return n
}

// NoGenerations gives a charge that no store made a generation for each of its states: none of them
// is that of a store.
func NoGenerations(c *stint.Charge) {
	if n := states(c); n > 1 {
		c.Data().Others = &driver.OtherStates{Generations: make([]uint32, n-1)}
	}
}
