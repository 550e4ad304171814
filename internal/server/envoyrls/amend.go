package envoyrls

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
)

// amendTime is the time limit for store operations that may continue after the answer, such as
// giving units back. Units that are not given back in that time expire with their window.
const amendTime = time.Second

// errUnfinished means that a store operation continues after the request has been answered.
var errUnfinished = errors.New("the store has not answered in time; it may still do so")

// finish runs a store operation, and waits for it until the deadline of the request. If the
// operation takes longer, finish returns errUnfinished, and the operation continues in the
// background.
func (s *Service) finish(ctx context.Context, deadline time.Time, do func(context.Context) error) error {
	done := make(chan error, 1)
	s.amending.Go(func() { // ends after amendTime at the latest
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), amendTime)
		defer cancel()
		done <- do(ctx)
	})
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errUnfinished
	}
}

// undo gives back charges of a request that fails, or that is denied after it was charged.
func (s *Service) undo(ctx context.Context, c *call, charges []stint.Charge) {
	if len(charges) == 0 {
		return
	}
	for i := range c.items {
		charged := c.items[i].charged
		c.items[i].charged = 0
		for k := i; charged > 0; k = c.items[k].next {
			c.items[k].uncharge(charged)
			if c.items[k].next == 0 {
				break
			}
		}
	}
	for _, charge := range charges {
		err := s.finish(ctx, c.deadline, func(ctx context.Context) error {
			_, err := s.store.Amend(ctx, charge, stint.Amendment{Kind: stint.AmendSettle})
			return err
		})
		if err != nil {
			s.complain("stint: the charges of a denied request were not given back", err)
		}
	}
}

// uncharge subtracts units from the usage. If no usage remains, the limit needs no time to reset.
func (it *item) uncharge(units int64) {
	if it.usage.Used = max(it.usage.Used-units, 0); it.usage.Used == 0 {
		it.usage.ResetAfter = 0
	}
}

// giveBackHits gives hits back for descriptors with negative hits, in sliding windows. It removes
// the oldest hits of each counter, regardless of the requests that they were charged for. It cannot
// remove more hits than the counter has.
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

// giveBack executes commands that give hits back. It logs the error that it returns. If the
// commands take too long, they continue after the request has been answered.
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
