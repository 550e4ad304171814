package envoyrls

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
)

// countApart decides a request by fixed windows, in which every descriptor counts by itself.
//
// With StopOverLimit they are looked at first, which charges only those that are over their limits.
func (s *Service) countApart(ctx context.Context, c *call) error {
	if !s.options.StopOverLimit || len(c.items) == 1 {
		return s.takeApart(ctx, c, anyItem, stint.Take)
	}
	if err := s.takeApart(ctx, c, anyItem, stint.Peek); err != nil || c.exceeds() {
		return err
	}
	return s.takeApart(ctx, c, notRefund, stint.Take) // refunds have been made
}

func notRefund(it *item) bool { return !it.refund }

// exceeds reports whether an item is over its limit, whatever becomes of it.
func (c *call) exceeds() bool {
	for i := range c.items {
		if c.items[i].over {
			return true
		}
	}
	return false
}

// countFixed completes a decision in fixed windows that was asked for at some time. There hits are counted whether they are
// admitted or not: once a counter is above its limit, every later request of the window is denied, whatever it asks for,
// and so is one that only looks.
//
// A store does not charge what it denies. So the first denial brings the counter to where it would be; later ones
// need not, for nobody could tell.
func (s *Service) countFixed(ctx context.Context, deadline time.Time, it *item, d *stint.Decision, asked time.Time) {
	limit := it.rule.max()
	it.over = it.over || it.neverFits()
	switch {
	case it.refund:
		s.lower(ctx, deadline, it)
	case d.Degraded:
	case it.cost() == 0:
		it.over = false // whether it is above its limit is seen from what is used
	case it.over && it.usage.Used <= limit && limit > 0:
		s.exceed(ctx, deadline, it, asked)
	}
	it.over = it.over || it.usage.Used > limit
	if it.over {
		it.usage.Used = max(it.usage.Used, limit) // nothing is left
	}
	if it.usage.ResetAfter <= 0 {
		it.usage.ResetAfter = s.untilNextWindow(it.window())
	}
}

// exceed charges hits that were denied.
func (s *Service) exceed(ctx context.Context, deadline time.Time, it *item, asked time.Time) {
	claim, over := it.claim(Fixed), it.cost()
	if it.usage.Used == 0 {
		// There is no counter in this window that could be amended.
		claim.Cost, over = it.rule.max(), over-it.rule.max()
		d, err := s.store.Take(ctx, s.request(deadline, claim, nil, stint.Take))
		if err != nil || d.Degraded || !d.Allowed {
			return // it is denied already, and that is all that can be done
		}
		if age := it.window() - d.ResetAfter(); age < s.options.Now().Sub(asked) {
			// This window may have begun after the denial, which then must not use it up.
			it.usage.ResetAfter = time.Second
			if _, err := s.amend(ctx, deadline, d.Charge, stint.Amendment{Kind: stint.Settle}); err != nil {
				s.complain("stint: what a window was charged for the one before it was not given back", err)
			}
			return
		}
		it.usage.ResetAfter = d.ResetAfter()
	}
	s.raise(ctx, deadline, claim, it, max(over, 1))
}

// lower gives hits back, as far as the counter has them.
func (s *Service) lower(ctx context.Context, deadline time.Time, it *item) {
	if it.hits == 0 || it.usage.Used == 0 && !it.degraded {
		return
	}
	if s.giveBack(ctx, deadline, []stint.Command{it.giveBack(Fixed)}) == nil {
		it.usage.Used = max(it.usage.Used-it.hits, 0)
		it.over = false // as above
	}
}

// errSkew is why a counter that has been used cannot be found.
var errSkew = errors.New("it is not in the window of this host's clock; unless that has just ended, " +
	"the clocks of this host and of the store differ by more than half a window, and must not")

// raise adds units to a counter that has been used in its current window. It does so by amending a charge of that window
// that it makes up: to the store a charge is a cost at an instant.
func (s *Service) raise(ctx context.Context, deadline time.Time, claim stint.Claim, it *item, units int64) {
	claim.Cost = 1
	changed, err := s.amend(ctx, deadline, stint.Charge{ID: rand.Uint64() | 1, At: s.instant(it), Claim: claim},
		stint.Amendment{Kind: stint.Settle, Cost: 1 + min(units, stint.MaxUnits-1)})
	if !changed && err == nil {
		err = errSkew
	}
	if err != nil {
		s.complain("stint: a counter could not be raised", err)
	}
}

// instant is a time in the store's current window of a counter that has been used in it. The store has told when that
// ends, but not by which clock: ours may differ from it by up to half a window.
func (s *Service) instant(it *item) int64 {
	window, reset := it.window().Microseconds(), max(it.usage.ResetAfter.Microseconds(), 1)
	end := (s.options.Now().UnixMicro() + reset + window/2) / window * window
	return end - reset
}

// untilNextWindow is the time until the next window begins, by this host's clock.
func (s *Service) untilNextWindow(window time.Duration) time.Duration {
	return window - time.Duration(s.options.Now().UnixMicro()%window.Microseconds())*time.Microsecond
}
