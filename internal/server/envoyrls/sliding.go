package envoyrls

import (
	"context"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// slide decides a request by sliding windows: what is charged is charged to all limits, or none.
//
// Limits in shadow mode deny nobody and limits in quota mode deny only if all of them do, so
// neither can be a part of one question with the others. They are asked afterwards, and charged if
// the request goes ahead.
func (s *Service) slide(ctx context.Context, c *call) error {
	if err := s.takeAll(ctx, c); err != nil {
		return err
	}
	s.chargeUsed(ctx, c)
	return nil
}

func (s *Service) takeAll(ctx context.Context, c *call) error {
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

// chargeUsed charges the hits for which there was no room where they are those of streams that end:
// where the cost is known only afterwards, Envoy asks when a stream begins, and sends the hits when
// it ends. By then they are used, whether or not there is room. The answer stays a denial.
//
// The two cannot be told apart in a request. A limit is one of streams if it was asked about with
// zero hits before, which only looks; or without hits of the descriptor, which counts one, if the
// hits now are the descriptor's own.
func (s *Service) chargeUsed(ctx context.Context, c *call) {
	if !slices.ContainsFunc(c.items, func(it item) bool { return it.over }) {
		return
	}
	denied := c.denied() // else what had room was charged
	for _, head := range c.counters(func(it *item) bool { return (denied || it.over) && it.used() }) {
		it := &c.items[head]
		if it.asked[0] = c.united(head); it.asked[0].Cost == 0 {
			continue
		}
		d, err := s.store.Take(ctx, s.request(c.deadline, it.asked[:], driver.ModeForce))
		if err != nil { // the request is decided all the same
			s.complain("stint: hits for which there was no room could not be charged", err)
			return
		}
		it.noteCharge(&d.Charge, 0)
		it.usage.Used = max(it.usage.Used, d.Decisive().Used)
		it.usage.ResetAfter = max(it.usage.ResetAfter, d.Decisive().ResetAfter)
	}
}

// note notes how the limit was asked about, for used.
func (r *rule) note(hits int64, own bool) {
	switch {
	case hits == 0 && !r.looked.Load():
		r.looked.Store(true)
	case hits == 1 && !own && !r.begun.Load():
		r.begun.Store(true)
	}
}

// used reports whether the hits are taken for those of a stream that ends.
func (it *item) used() bool { return it.rule.looked.Load() || it.own && it.rule.begun.Load() }

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
		c.claims = c.claims[:0]
		for _, head := range some {
			c.claims = append(c.claims, c.united(head))
		}
		d, err := s.store.Take(ctx, s.request(c.deadline, c.claims, mode))
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
