package oracle

import "github.com/stint-limiter/stint"

// Idle reports whether a store may have forgotten a limit's state by now, because
// nothing of it counts any more under the limits that it was last written with.
// The rules let the reference remember it all the same, and a later decision
// under a larger burst, at a slower refill or after a step back of the clock
// would then count what a store with expiry has let go.
func (s *Store) Idle(c *stint.Claim, l *stint.Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	switch kept := s.limits[keyOf(c, l)].(type) {
	case *eventLog:
		horizon := now - kept.keep*l.Window.Microseconds()
		if l.Algorithm == stint.Fixed {
			horizon = now
		}
		for _, e := range kept.entries {
			if e.at > horizon {
				return false
			}
		}
		for _, b := range kept.booked {
			if b.at > horizon {
				return false
			}
		}
	case *bucket:
		if kept.limit.Max == 0 || now < kept.last {
			return false
		}
		end := kept.after(&kept.limit, now)
		return end.weight.Sign() == 0 && len(end.booked) == 0
	case *holders:
		for _, k := range kept.list {
			if k.expiry > now {
				return false
			}
		}
	}
	return true
}
