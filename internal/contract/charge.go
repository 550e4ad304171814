package contract

import "github.com/stint-limiter/stint"

// ChargeOf returns the claims of a request as a charge that is yet to be made.
func ChargeOf(r *stint.Request) stint.Charge {
	c := stint.Charge{Claim: r.Claim, And: r.And}
	if r.ID != "" {
		c.RequestID, c.IDLife = r.ID, Life(r)
	}
	return c
}

// FromStore reports whether the store made the charge: not this process, as a fallback or from a
// lease.
func FromStore(c *stint.Charge) bool { return !c.Fallback && !c.Leased }

// GenerationAt returns the generation of the ith of all states of the charge, in the order of the
// claims and their names; 0 if there is none.
func GenerationAt(c *stint.Charge, i int) uint32 {
	if i == 0 {
		return c.Generation
	}
	if c.Others != nil && i <= len(c.Others.Generations) {
		return c.Others.Generations[i-1]
	}
	return 0
}

// SetGeneration sets the generation of the ith of all states. A charge with several has its own
// list.
func SetGeneration(c *stint.Charge, i int, generation uint32) {
	if i == 0 {
		c.Generation = generation
		return
	}
	if c.Others == nil {
		c.Others = new(stint.OtherStates)
	}
	if c.Others.Generations == nil {
		c.Others.Generations = make([]uint32, states(c)-1)
	}
	c.Others.Generations[i-1] = generation
}

// InstantAt returns the instant at which claim i of the charge counts: 0 is its own, i is And[i-1].
func InstantAt(c *stint.Charge, i int) int64 {
	if i > 0 && c.Others != nil && c.Others.At != nil {
		return c.Others.At[i-1]
	}
	return c.At
}

// states is the number of states that the charge is about.
func states(c *stint.Charge) int {
	var names [stint.MaxLimits]string
	n := len(StateNames(&c.Claim, names[:0]))
	for i := range c.And {
		n += len(StateNames(&c.And[i], names[:0]))
	}
	return n
}
