package memorystore

import (
	"context"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

var _ driver.Announcer = (*Store)(nil)

// Announcements implements [driver.Announcer].
func (s *Store) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	return s.announcements.Listen(ctx, f)
}

// announce tells listeners that a charge was lowered.
func (s *Store) announce(c *stint.Charge, a stint.Amendment, done stint.Amended) {
	if a.Kind != stint.AmendSettle || !done.Changed {
		return
	}
	for i := range c.Claims() {
		if claim := &c.Claims()[i]; a.Cost < claim.Cost {
			s.announcements.Tell(claim.Subject, false)
		}
	}
}
