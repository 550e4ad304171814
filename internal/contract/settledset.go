package contract

import (
	"hash/maphash"
	"sync"

	"github.com/stint-limiter/stint"
)

// SettledSet remembers which claims and states of charges were settled: the last [MaxOwnSettled] of
// them. A store remembers only the last 1,000 settlements of each subject and scope, so this set
// recognizes repeats that the store has forgotten. The zero SettledSet is empty and ready for use.
// It is safe for concurrent use.
type SettledSet struct {
	mu    sync.Mutex
	seed  maphash.Seed
	known map[uint64]struct{}
	order []uint64 // keys in the order of addition; a ring once it is full
	next  int      // index of the oldest entry in the ring
}

// Has reports whether a claim of a charge is known to be settled.
func (s *SettledSet) Has(charge uint64, c *stint.Claim) bool { return s.HasState(charge, c, "") }

// HasState is like Has, for the state of the claim's limits with the given name. The states of a
// charge with a hold are settled one by one.
func (s *SettledSet) HasState(charge uint64, c *stint.Claim, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) == 0 {
		return false
	}
	_, known := s.known[s.key(charge, c, name)]
	return known
}

// Add remembers that a claim of a charge was settled. It reports false if the set already has the
// claim.
func (s *SettledSet) Add(charge uint64, c *stint.Claim) bool { return s.AddState(charge, c, "") }

// AddState is like Add, for one state of a claim.
func (s *SettledSet) AddState(charge uint64, c *stint.Claim, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known, s.seed = make(map[uint64]struct{}), maphash.MakeSeed()
	}
	key := s.key(charge, c, name)
	if _, known := s.known[key]; known {
		return false
	}
	s.known[key] = struct{}{}
	if len(s.order) < MaxOwnSettled {
		s.order = append(s.order, key)
		return true
	}
	delete(s.known, s.order[s.next])
	s.order[s.next] = key
	s.next = (s.next + 1) % len(s.order)
	return true
}

// Remove forgets a claim of a charge.
func (s *SettledSet) Remove(charge uint64, c *stint.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) > 0 {
		delete(s.known, s.key(charge, c, "")) // its slot in the ring stays in use
	}
}

// key returns a hash that identifies a state. With so few entries, collisions are negligible.
func (s *SettledSet) key(charge uint64, c *stint.Claim, name string) uint64 {
	return maphash.Comparable(s.seed, struct {
		charge               uint64
		subject, scope, name string
	}{charge, c.Subject, c.Scope, name})
}
