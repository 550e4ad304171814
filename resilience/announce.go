package resilience

import (
	"context"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/announce"
)

var _ driver.Announcer = (*Stack)(nil)

// Announcements implements [driver.Announcer] with what the stack hears itself: it needs no
// connection of its own. It ends when the stack cannot listen any more.
func (s *Stack) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	if !s.hears.Load() {
		return announce.ErrSilent
	}
	return s.listeners.Listen(ctx, f)
}
