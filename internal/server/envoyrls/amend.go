package envoyrls

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
)

// amendTime is how long the store has to give something back, whether or not anybody waits for
// that. What is not given back by then expires by itself.
const amendTime = time.Second

// errUnfinished is the outcome of what goes on after its request was answered.
var errUnfinished = errors.New("the store has not answered in time; it may still do so")

// finish has the store do what has to be done. A request waits for it as long as its own time
// lasts. The store may take longer: Envoy is answered, and what was begun is finished.
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

// undo gives back what a request was charged that is denied after all.
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
			s.complain("stint: what a denied request was charged was not given back", err)
		}
	}
}

// uncharge takes units out of what is used. An unused limit needs no time to become so.
func (it *item) uncharge(units int64) {
	if it.usage.Used = max(it.usage.Used-units, 0); it.usage.Used == 0 {
		it.usage.ResetAfter = 0
	}
}
