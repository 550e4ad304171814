package envoyrls

import (
	"context"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// slide decides a request by sliding windows. A denied request is charged only for hits that have
// already been used (see chargeUsed).
//
// Limits in shadow mode never deny a request, and limits in quota mode deny it only if all of them
// are exceeded. So they cannot be in the same request to the store as the other limits. They are
// decided later, and charged only if the request is allowed.
func (s *Service) slide(ctx context.Context, c *call) error {
	if err := s.takeAll(ctx, c); err != nil {
		return err
	}
	s.chargeUsed(ctx, c)
	return nil
}

func (s *Service) takeAll(ctx context.Context, c *call) error {
	if len(c.items) == 1 { // as in most requests; there is then never anything to undo
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
	if mode == stint.ModeTake && c.denied() { // all quotas are exhausted
		s.undo(ctx, c, charges)
		mode = stint.ModePeek
	}
	if err := s.takeApart(ctx, c, inShadowMode, mode); err != nil {
		s.undo(ctx, c, charges)
		return err
	}
	return nil
}

// chargeUsed charges hits at the end of a stream even if there is no room for them. If the cost of
// a stream is known only afterward, Envoy sends one request when the stream begins, and another one
// with the hits when the stream ends. By then, the hits have been used, whether or not there is
// room. The answer is still a denial.
//
// A request does not say whether a stream begins or ends. chargeUsed assumes that a limit applies
// to streams in two cases. In the first case, an earlier request had zero hits, and so only peeked.
// In the second case, the descriptor has its own number of hits, but an earlier descriptor under
// the same limit had none, and counted one hit.
func (s *Service) chargeUsed(ctx context.Context, c *call) {
	if !c.exceeds() {
		return
	}
	denied := c.denied() // if not denied, items with room have already been charged
	for _, head := range c.counters(func(it *item) bool { return (denied || it.over) && it.used() }) {
		it := &c.items[head]
		if it.asked[0] = c.united(head); it.asked[0].Cost == 0 {
			continue
		}
		d, err := s.store.Take(ctx, s.request(c.deadline, it.asked[:], driver.ModeForce))
		if err != nil { // log only: the request has been decided
			s.complain("stint: hits without room could not be charged", err)
			return
		}
		it.noteCharge(&d.Charge, 0)
		it.usage.Used = max(it.usage.Used, d.Decisive().Used)
		it.usage.ResetAfter = max(it.usage.ResetAfter, d.Decisive().ResetAfter)
	}
}

// note records how requests use the limit, for [item.used].
func (r *rule) note(hits int64, own bool) {
	switch {
	case hits == 0 && !r.looked.Load():
		r.looked.Store(true)
	case hits == 1 && !own && !r.begun.Load():
		r.begun.Store(true)
	}
}

// used reports whether the hits are assumed to belong to a stream that has ended.
func (it *item) used() bool { return it.rule.looked.Load() || it.own && it.rule.begun.Load() }

func enforced(it *item) bool     { return !it.rule.shadow && !it.quota }
func inQuotaMode(it *item) bool  { return !it.rule.shadow && it.quota }
func inShadowMode(it *item) bool { return it.rule.shadow }

// takeTogether decides the items whose limits must all have room. It sends a single request to the
// store or, if there are more counters than a request can have claims, several requests, one after
// another. If one of them is denied, it gives back all charges. It returns the charges that remain.
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

// united returns one claim for all items with the same counter. head is the index of the first of
// them. The claim has the sum of their costs and the lowest of their limits. The limits differ only
// if the request contains limits.
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

// spread copies a decision to the items that it is about. Claim k of the decision is for the items
// that share a counter with item heads[k].
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
