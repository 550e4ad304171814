package policy

// Slots is how many different pairs of a tier and a route, or of what skips requests, verdicts by this set can have.
// Those who count verdicts count in an array of that size, at the place that [Verdict.Slot] says: looking up names would
// take longer than all else they do.
func (s *Set) Slots() int { return s.skippedSlot(len(s.exempt)) + len(s.tiers)*s.routes() }

// Slot is a number for the verdict's Tier, Route and Skipped, below that of [Set.Slots]: equal for verdicts by the same set
// in which those are equal.
func (v *Verdict) Slot() int { return v.slot }

// noRoute is the place among the policies of the route of requests that have none.
const noRoute = -1

// skippedSlot is the slot of requests that are exempted. Slot 0 is that of verdicts on nothing.
func (j *judge) skippedSlot(exemption int) int { return 1 + exemption }

// slot is the slot of requests of a tier and a route. They follow those that are exempted.
func (j *judge) slot(t *tier, route int) int {
	return j.skippedSlot(len(j.exempt)) + t.index*j.routes() + 1 + route
}

// routes is how many routes there are, that of requests without any included.
func (j *judge) routes() int { return 1 + len(j.policies) }
