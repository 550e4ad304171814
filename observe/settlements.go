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

// cutName is what units of true costs that were not charged are counted by.
type cutName struct{ tier, policy string }

func (cutName) rest() cutName { return cutName{other, other} }

// cut counts units.
type cut struct {
	cutName
	units atomic.Int64
}

func newCut(name cutName) *cut { return &cut{cutName: name} }

// settlement counts a correction, or the units of it that were not charged, under the request's
// route.
func (m *Monitor) settlement(s *policy.Settlement) {
	var route seriesName
	if s.Verdict != nil {
		route = m.ledger.ofRoute(s.Verdict).name
	}
	if s.Amended.Changed && s.Err == nil {
		m.cuts.get(cutName{route.tier, route.policy}).units.Add(s.Cost - s.Amended.Charged)
		return
	}
	name := lostName{route.tier, route.policy, "settle", "not-applied"} // nothing was found to correct
	if s.Refund {
		name.op = "refund"
	}
	if s.Err != nil {
		name.reason = failure(s.Err).String()
	}
	m.lost.get(name).count.Add(1)
}
