package stint

import (
	"slices"
	"time"
)

// Charge identifies what a decision charged. It is enough for any process to refund or settle it.
// Callers pass it on as it is; its fields are for stores, and for those who send it to another
// process.
type Charge struct {
	// ID is unique to the charge; zero if nothing was charged.
	ID uint64
	// At is the instant in the store's clock at which the charge counts, in microseconds since the
	// Unix epoch. For a booking it is the end of the time in which it is to be used.
	At int64
	// Generation is that of the first state that was charged. A store draws a new one when it
	// starts a state again, after a [CommandReset] for instance. It does not amend charges of an
	// earlier generation.
	Generation uint32
	// Fallback says that the charge was made in the memory of this process because the store could
	// not be reached. Leased says that it was made from units that this process had leased. Only
	// the process that made such a charge can amend it; the store cannot.
	Fallback, Leased bool
	// Claim is the request's own, and And holds those of further subjects.
	Claim Claim
	And   []Claim
	// RequestID is the ID of the request. A refund forgets it, so that a repeat is charged again.
	// If the ID was repeated within IDLife, nothing is refunded.
	RequestID string
	IDLife    time.Duration
	// Others is about the states after the first; nil if there is only one. It is behind a pointer
	// because decisions are copied often: with its fields in Charge, a Decision would have 288
	// bytes instead of 248.
	Others *OtherStates
}

// OtherStates is what a [Charge] over several states remembers of those after the first. A claim
// has one state for each distinct [Limit.Name], concurrency limits aside.
type OtherStates struct {
	// Generations are those of all states but the first, in the order of the claims and, within a
	// claim, of the names.
	Generations []uint32
	// At are the instants of the claims in And, if each subject has a clock of its own; nil means
	// that of the Charge for all.
	At []int64
}

// check notes what keeps the charge from being that of a decision.
func (c *Charge) check(m *mistakes) {
	r := Request{Claim: c.Claim, And: c.And, ID: c.RequestID, IDLife: c.IDLife}
	if r.check(m); m.errs != nil {
		return
	}
	var others OtherStates
	if c.Others != nil {
		others = *c.Others
	}
	states := c.states()
	switch {
	case c.ID == 0:
		m.add("the charge has no ID: nothing was charged")
	case c.At < 0 || c.At > MaxUnits:
		m.add("the charge is of the instant %d; want 0 to %d", c.At, MaxUnits)
	case states > 1 && len(others.Generations) != states-1:
		m.add("the charge has %d generations for %d states", len(others.Generations)+1, states)
	case others.At != nil && len(others.At) != len(c.And):
		m.add("the charge has %d instants for %d claims", len(others.At), len(c.And))
	}
}

// Part returns the part of the charge that consists of some of its claims, by number: 0 is its own,
// i is And[i-1]. To amend a part amends only those claims. This way a budget is settled to what a
// request really cost, while the limits that count requests keep counting one:
//
//	d.Charge = d.Charge.Part(1)
//	applied, err := limiter.Settle(ctx, d, tokens)
//
// A part has the ID of the whole charge, and claims of one subject and scope are settled once
// between them: settle them in the same part. The request ID goes with claim 0. Without numbers, or
// with a number that the charge does not have, the result is the zero Charge.
func (c Charge) Part(claims ...int) Charge {
	numbers := slices.Compact(slices.Sorted(slices.Values(claims)))
	var at []int64
	if c.Others != nil {
		at = c.Others.At
	}
	if len(numbers) == 0 || numbers[0] < 0 || numbers[len(numbers)-1] > len(c.And) || at != nil &&
		len(at) != len(c.And) {
		return Charge{}
	}
	part := c
	part.And, part.Others = nil, nil
	if first := numbers[0]; first > 0 {
		part.RequestID, part.IDLife = "", 0
		part.Claim = c.And[first-1]
		if at != nil {
			part.At = at[first-1]
		}
	}
	var others OtherStates
	for _, i := range numbers[1:] {
		part.And = append(part.And, c.And[i-1])
		if at != nil {
			others.At = append(others.At, at[i-1])
		}
	}
	var generations []uint32
	state := 0
	for i := range 1 + len(c.And) {
		for range c.claimAt(i).states() {
			if slices.Contains(numbers, i) {
				generations = append(generations, c.generation(state))
			}
			state++
		}
	}
	part.Generation = 0
	if len(generations) > 0 {
		part.Generation, others.Generations = generations[0], generations[1:]
	}
	if len(others.Generations) > 0 || others.At != nil {
		part.Others = &others
	}
	return part
}

// generation returns the generation of the ith of all states of the charge, in the order of the
// claims and their names; 0 if there is none.
func (c *Charge) generation(i int) uint32 {
	if i == 0 {
		return c.Generation
	}
	if c.Others != nil && i <= len(c.Others.Generations) {
		return c.Others.Generations[i-1]
	}
	return 0
}

// states is the number of states that the charge is about.
func (c *Charge) states() int {
	n := c.Claim.states()
	for i := range c.And {
		n += c.And[i].states()
	}
	return n
}

// claimAt returns the charge's own claim for 0, and And[i-1] for i.
func (c *Charge) claimAt(i int) *Claim {
	if i == 0 {
		return &c.Claim
	}
	return &c.And[i-1]
}
