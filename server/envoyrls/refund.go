package envoyrls

import (
	"context"
	"errors"

	"github.com/stint-limiter/stint"
)

// giveBackHits gives back what the descriptors with negative hits say, in sliding windows: the oldest hits of a counter, as
// far as it has any, whoever was charged for them.
func (s *Service) giveBackHits(ctx context.Context, c *call) {
	var commands []stint.Command // the store may go on after the call was answered
	for i := range c.items {
		if it := &c.items[i]; it.refund && it.counted() && it.hits > 0 {
			commands = append(commands, stint.Command{
				Kind: stint.GiveBack, Subject: it.subject, Limits: it.rule.limits[Sliding], Units: it.hits})
		}
	}
	if len(commands) == 0 {
		return
	}
	err := s.finish(ctx, c.deadline, func(ctx context.Context) error {
		var errs []error
		for _, command := range commands {
			errs = append(errs, s.store.Command(ctx, command))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		s.complain("stint: negative hits were not given back", err)
	}
}
