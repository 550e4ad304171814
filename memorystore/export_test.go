package memorystore

import (
	"context"

	"github.com/stint-limiter/stint"
)

// General is a store that never decides by TakePlain.
type General struct{ *Store }

// Take is Store.Take without TakePlain.
func (s General) Take(ctx context.Context, r stint.Request) (d stint.Decision, err error) {
	if err := s.ready(ctx, "take"); err != nil {
		return d, err
	}
	q := s.lock(r.Claims)
	if q == nil {
		return d, r.Validate()
	}
	q.decide(&r, &d)
	q.unlock()
	return d, nil
}

// Sweep looks at every record, as the sweeper does within a minute.
func (s *Store) Sweep() {
	for i := range s.shards {
		for range 2 { // the first time perhaps from the middle on
			for whole := false; !whole; {
				_, whole = s.shards[i].sweep()
			}
		}
	}
	s.compareLoads()
}

// Len is how many subjects are kept.
func (s *Store) Len() int { return int(s.subjects.Load()) }
