package envoyrls

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
)

// countFixed completes a decision in fixed windows. There hits are counted whether they are admitted or not: once a counter
// is above its limit, every later request of the window is denied, whatever it asks for, and so is one that only looks.
//
// A store does not charge what it denies. So the first denial brings the counter to where it would be; later ones
// need not, for nobody could tell.
func (s *Service) countFixed(ctx context.Context, it *item, degraded bool) {
	limit := it.rule.max()
	switch {
	case degraded:
	case it.refund:
		s.lower(ctx, it)
	case it.over && it.cost() > 0 && it.usage.Used <= limit && limit > 0:
		s.exceed(ctx, it)
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
func (s *Service) exceed(ctx context.Context, it *item) {
	claim, over := it.claim(Fixed), it.cost()
	if it.usage.Used == 0 {
		// There is no counter in this window that could be amended.
		claim.Cost, over = it.rule.max(), over-it.rule.max()
		d, err := s.store.Take(ctx, s.request(claim, nil, stint.Take))
		if err != nil || d.Degraded {
			return // it is denied already, and that is all that can be done
		}
		it.usage.ResetAfter = d.ResetAfter()
	}
	s.adjust(ctx, claim, s.instant(it), max(over, 1))
}

// lower gives hits back, as far as the counter has them.
func (s *Service) lower(ctx context.Context, it *item) {
	if it.hits > 0 && it.usage.Used > 0 && s.adjust(ctx, it.claim(Fixed), s.instant(it), -it.hits) {
		it.usage.Used = max(it.usage.Used-it.hits, 0)
		it.over = false // it only looked; whether it is still above its limit is seen from what is used
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

// adjust changes what was charged to a claim at an instant by some units. It does so by amending a charge of that instant
// that it makes up: to the store a charge is a cost at an instant. It reports whether there was anything to change.
func (s *Service) adjust(ctx context.Context, claim stint.Claim, at, units int64) bool {
	a := stint.Amendment{Kind: stint.Settle}
	if units > 0 {
		claim.Cost, a.Cost = 1, 1+min(units, stint.MaxUnits-1)
	} else {
		claim.Cost = min(-units, stint.MaxUnits)
	}
	changed, err := s.store.Amend(ctx, stint.Charge{ID: rand.Uint64() | 1, At: at, Claim: claim}, a)
	if err != nil {
		s.complain("stint: a counter could not be adjusted", err)
	}
	return changed
}
