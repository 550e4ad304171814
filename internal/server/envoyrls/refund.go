package envoyrls

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
)

// giveBackHits gives back the hits of the descriptors with negative hits, in sliding windows: the
// oldest hits of each counter, as far as it has any, regardless of which requests were charged for
// them.
func (s *Service) giveBackHits(ctx context.Context, c *call) {
	var commands []stint.Command
	for i := range c.items {
		if it := &c.items[i]; it.refund && it.counted() && it.hits > 0 {
			commands = append(commands, it.giveBack(Sliding))
		}
	}
	if len(commands) > 0 {
		_ = s.giveBack(ctx, c.deadline, commands) // already logged
	}
}

func (it *item) giveBack(w Window) stint.Command {
	return stint.Command{Kind: stint.CommandGiveBack, Subject: it.subject, Limits: it.claim(w).Limits, Units: it.hits}
}

// giveBack gives hits back in the store, possibly after the answer. It also logs the error.
func (s *Service) giveBack(ctx context.Context, deadline time.Time, commands []stint.Command) error {
	err := s.finish(ctx, deadline, func(ctx context.Context) error {
		var errs []error
		for _, command := range commands {
			errs = append(errs, s.store.Command(ctx, command))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		s.complain("stint: negative hits were not given back", err)
	}
	return err
}
