package observe

import (
	"sync/atomic"

	"github.com/stint-limiter/stint/policy"
)

// lostName is what corrections of charges that were not applied are counted by: the route of the
// request, "settle" or "refund", and why.
type lostName struct{ tier, policy, op, reason string }

// rest is the name of one that is too many.
func (n lostName) rest() lostName { return lostName{other, other, n.op, n.reason} }

// lost counts corrections.
type lost struct {
	lostName
	count atomic.Int64
}

func newLost(name lostName) *lost { return &lost{lostName: name} }

// settlement counts a correction under the request's route.
func (m *Monitor) settlement(s *policy.Settlement) {
	route := m.ledger.ofRoute(s.Verdict).name
	name := lostName{route.tier, route.policy, "settle", "not-applied"} // nothing was found to correct
	if s.Refund {
		name.op = "refund"
	}
	if s.Err != nil {
		name.reason = failure(s.Err).String()
	}
	m.lost.get(name).count.Add(1)
}
