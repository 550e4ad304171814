package observe

import (
	"sync/atomic"

	"github.com/stint-limiter/stint/policy"
)

// lostName is the key for counting settlements and refunds that were not applied. It consists of
// the tier and policy of the request's route, the op ("settle" or "refund"), and the reason.
type lostName struct{ tier, policy, op, reason string }

func (n lostName) rest() lostName { return lostName{other, other, n.op, n.reason} }

// routeName is the key for counting holds, and for counting the units by which charges fell short
// of the true costs. It consists of the tier and policy of the request's route.
type routeName struct{ tier, policy string }

func (routeName) rest() routeName { return routeName{other, other} }

// holds counts settled holds, estimated usages, and heartbeats of expired holds. It also adds up
// the times from the charges of holds to their settlements.
type holds struct {
	settled, expired, estimated, delay atomic.Int64
}

// settlement counts a correction of a charge under the route of its request.
func (m *Monitor) settlement(s *policy.Settlement) {
	var route seriesName
	if s.Verdict != nil {
		route = m.ledger.ofRoute(s.Verdict).name
	}
	under := routeName{route.tier, route.policy}
	if s.Expired {
		m.holds.get(under).expired.Add(1)
		return
	}
	if s.Amended.Changed && s.Err == nil {
		if s.Hold > 0 {
			h := m.holds.get(under)
			h.settled.Add(1)
			h.delay.Add(int64(s.Delay))
			if s.Estimated {
				h.estimated.Add(1)
			}
		}
		if units := s.Cost - s.Amended.Charged; units > 0 {
			m.cuts.get(under).Add(units)
		}
		return
	}
	// The reason "not-applied" means that the store found no charge to correct.
	name := lostName{route.tier, route.policy, "settle", "not-applied"}
	if s.Refund {
		name.op = "refund"
	}
	if s.Err != nil {
		name.reason = failure(s.Err).String()
	}
	m.lost.get(name).Add(1)
}
