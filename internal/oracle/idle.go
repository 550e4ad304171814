package oracle

import (
	"slices"

	"github.com/stint-limiter/stint"
)

// Idle reports whether a store may have forgotten the usage under a limit, because none of it
// counts anymore under the version of the limit that was in force at the last write. The reference
// still remembers the usage. So after the refill was slowed or the clock stepped back, the
// reference may count usage that a store with expiry has dropped. The rules allow both.
func (s *Store) Idle(c *stint.Claim, l *stint.Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if l.Algorithm == stint.AlgorithmConcurrency {
		h := s.holders[keyOf(c, l)]
		return h == nil || !slices.ContainsFunc(h.list, func(k holder) bool { return k.expiry > now })
	}
	st := s.states[stateOf(c, l)]
	return st == nil || st.limits[l.ID()] == nil || st.limits[l.ID()].idle(now, st.last)
}

// IdleState reports whether a store may have forgotten the whole state of a limit, including its
// generation.
func (s *Store) IdleState(c *stint.Claim, l *stint.Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.states[stateOf(c, l)]; st != nil {
		for _, k := range st.limits {
			if !k.idle(s.now(), st.last) {
				return false
			}
		}
	}
	return true
}

// HoldExpired reports whether a store may have forgotten held units of a limit, because some have
// expired.
func (s *Store) HoldExpired(c *stint.Claim, l *stint.Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[stateOf(c, l)]
	return st != nil && st.limits[l.ID()] != nil &&
		slices.ContainsFunc(st.limits[l.ID()].held, func(h entry) bool { return h.at <= s.now() })
}

// HasMeter reports whether the reference keeps a meter for the limit. A store that has forgotten
// the meter starts it again with the units in the log, so its answers may differ.
func (s *Store) HasMeter(c *stint.Claim, l *stint.Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[stateOf(c, l)]
	return st != nil && st.limits[l.ID()] != nil && st.limits[l.ID()].meter != nil
}

func (k *counts) idle(now, last int64) bool {
	if now < last {
		return false
	}
	l := &k.limit
	if hasLog(l) && k.logEnd(l, k.entries, k.booked) > now {
		return false
	}
	if k.meter == nil || k.meter.limit.Max == 0 {
		return true
	}
	booked := k.booked
	if !hasMeter(l) {
		booked = nil // bookings of a limit without a burst do not reach the meter
	}
	return k.meter.through(&k.meter.limit, booked, now).emptyAt(&k.meter.limit) <= now
}
