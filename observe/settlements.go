package observe

import (
	"sync/atomic"

	"github.com/stint-limiter/stint/policy"
)

// corrections are what may be lost: the true cost of a request, or all that it was charged.
var corrections = [...]string{settleOp: "settle", refundOp: "refund"}

const (
	settleOp = iota
	refundOp
)

// lost counts the corrections of charges that were not applied, by what they were. The first of
// each are those for which the store found nothing to correct; those after it failed, by reason.
type lost [len(corrections)][1 + reasonCount - failedFirst]atomic.Int64

// notApplied is the reason of the first.
const notApplied = "not-applied"

// settlement counts a correction under the request's route.
func (m *Monitor) settlement(s *policy.Settlement) {
	op, why := settleOp, reason(0)
	if s.Refund {
		op = refundOp
	}
	if s.Err != nil {
		why = 1 + failure(s.Err) - failedFirst
	}
	m.ledger.ofRoute(s.Verdict).lost[op][why].Add(1)
}

// lost collects the reasons that there were.
func (c *collection) lost(s *series) {
	for op := range s.lost {
		for why := range s.lost[op] {
			n := s.lost[op][why].Load()
			if n == 0 {
				continue
			}
			name := notApplied
			if why > 0 {
				name = (failedFirst + reason(why-1)).String()
			}
			c.counter("settlements_lost_total", n, s.name.tier, s.name.policy, corrections[op], name)
		}
	}
}
