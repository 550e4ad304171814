package envoyrls

import (
	"context"

	"github.com/stint-limiter/stint"
)

// slide decides a request by sliding windows: what is charged is charged to all limits, or none.
//
// Limits in shadow mode deny nobody and limits in quota mode deny only if all of them do, so
// neither can be a part of one question with the others. They are asked afterwards, and charged if
// the request goes ahead.
func (s *Service) slide(ctx context.Context, c *call) error {
	if len(c.items) == 1 { // most requests: whatever the mode, there is nothing to be undone
		if it := &c.items[0]; it.counted() {
			return s.takeAlone(ctx, c, it, stint.ModeTake)
		}
		return nil
	}
	charges, err := s.takeTogether(ctx, c)
	if err != nil {
		return err
	}
	mode := stint.ModeTake
	if c.denied() {
		mode = stint.ModePeek
	}
	if err := s.takeApart(ctx, c, inQuotaMode, mode); err != nil {
		s.undo(ctx, c, charges)
		return err
	}
	if mode == stint.ModeTake && c.denied() { // all quotas are used up
		s.undo(ctx, c, charges)
		mode = stint.ModePeek
	}
	if err := s.takeApart(ctx, c, inShadowMode, mode); err != nil {
		s.undo(ctx, c, charges)
		return err
	}
	return nil
}

func enforced(it *item) bool     { return !it.rule.shadow && !it.quota }
func inQuotaMode(it *item) bool  { return !it.rule.shadow && it.quota }
func inShadowMode(it *item) bool { return it.rule.shadow }

// takeTogether decides the items whose limits all have to have room, as one question. More counters
// than a question can have claims are asked in several, one after the other, and what was charged
// is given back when one is denied. It returns what was charged.
func (s *Service) takeTogether(ctx context.Context, c *call) ([]stint.Charge, error) {
	heads := c.counters(enforced)
	var charges []stint.Charge
	mode := stint.ModeTake
	for len(heads) > 0 {
		some := heads[:min(len(heads), stint.MaxClaims)]
		heads = heads[len(some):]
		claims := make([]stint.Claim, len(some)) // the store may go on reading them
		for k, head := range some {
			claims[k] = c.united(head)
		}
		d, err := s.store.Take(ctx, s.request(c.deadline, claims[0], claims[1:], mode))
		if err != nil {
			s.undo(ctx, c, charges)
			return nil, err
		}
		c.spread(some, &d)
		switch {
		case !d.Allowed && mode == stint.ModeTake:
			mode = stint.ModePeek
			s.undo(ctx, c, charges)
			charges = nil
		case d.Charge.Data().ID != 0:
			charges = append(charges, d.Charge)
		}
	}
	return charges, nil
}

// united is the claim of all items of a counter: their hits together, under the lowest of their
// limits, which are several if a request brings along one of its own.
func (c *call) united(head int) stint.Claim {
	claim := c.items[head].claim(Sliding)
	for i := c.items[head].next; i != 0; i = c.items[i].next {
		it := &c.items[i]
		claim.Cost = min(claim.Cost+it.cost(), stint.MaxUnits)
		if it.rule.max() < claim.Limits[0].Max {
			claim.Limits = it.rule.limits[Sliding]
		}
	}
	return claim
}

// spread copies a decision on some counters to their items.
func (c *call) spread(heads []int, d *stint.Decision) {
	for k, head := range heads {
		c.items[head].noteCharge(&d.Charge, k)
		for i := head; ; i = c.items[i].next {
			it := &c.items[i]
			it.use(d, k)
			it.over = !d.Allowed && it.usage.RetryAfter != 0
			if it.next == 0 {
				break
			}
		}
	}
}
