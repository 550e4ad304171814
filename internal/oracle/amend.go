package oracle

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// settled identifies a charge that was settled.
type settled struct {
	at int64
	id uint64
}

// ownSettled identifies a charge whose claims in one scope this process settled.
type ownSettled struct {
	scopeKey
	settled
}

// ownReleased identifies a charge whose places in one scope this process released.
type ownReleased struct {
	scopeKey
	id uint64
}

// Amend implements [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if err := ctx.Err(); err != nil {
		return stint.Amended{}, err
	}
	if err := a.Validate(&c); err != nil {
		return stint.Amended{}, err
	}
	if c.Data().Fallback || c.Data().Leased != 0 {
		return stint.Amended{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	claims := cloneClaims(c.Claims())
	if a.Kind == stint.AmendSettle {
		return s.settle(c, claims, a, now), nil
	}
	holding := false
	if a.Kind == stint.AmendExtend && c.Data().Hold > 0 {
		holding = s.extendHolds(&c, claims, a, now)
	}
	places, applied := 0, 0
	for i, claim := range claims {
		for _, p := range s.openAll([]*stint.Claim{claim}, now) {
			h, ok := p.counts.(*holders)
			if !ok || p.cost() == 0 {
				continue
			}
			places++
			if a.Kind == stint.AmendRelease {
				s.released[ownReleased{scopeOf(claim), c.Data().ID}] = true
			}
			if a.Kind == stint.AmendRelease && h.release(c.Data().ID) || a.Kind == stint.AmendExtend &&
				h.extend(p.limit, now, c.Data().ID) {
				s.write(p, now)
				applied++
			} else if a.Kind == stint.AmendExtend && !a.KnownOnly && s.mayRetake(&c, i, claim, p.limit, now) {
				h.charge(p.limit, now, c.Data().ID)
				s.write(p, now)
				applied++
			}
		}
	}
	if a.Kind == stint.AmendExtend {
		return stint.Amended{Changed: applied == places && (places > 0 || holding)}, nil
	}
	return stint.Amended{Changed: applied > 0}, nil
}

// mayRetake reports whether the charge c may take back a place that the store has forgotten. It may
// not do so if the place was released or settled, or if the limit was reset after the charge and
// less than a window ago. i is the index of the claim in c.
func (s *Store) mayRetake(c *stint.Charge, i int, claim *stint.Claim, l *stint.Limit, now int64) bool {
	key := ownSettled{scopeOf(claim), settled{c.Data().AtOf(i), c.Data().ID}}
	if slices.Contains(s.settled[key.scopeKey], key.settled) || slices.Contains(s.own, key) ||
		s.released[ownReleased{key.scopeKey, c.Data().ID}] {
		return false
	}
	at, was := s.resets[keyOf(claim, l)]
	return !was || at > now || now >= at+l.Window.Microseconds() || key.at > at
}

func (s *Store) settle(c stint.Charge, claims []*stint.Claim, a stint.Amendment, now int64) stint.Amended {
	refund := a.Cost == 0 && a.Costs == nil && c.Data().RequestID != ""
	if refund {
		k := s.inForce(claims[0], c.Data().RequestID, c.Data().IDLife.Microseconds(), now)
		if k != nil && k.repeats > 0 {
			return stint.Amended{}
		}
	}
	var done stint.Amended
	if c.Data().Hold > 0 {
		done = s.settleHolds(&c, claims, a, now)
	} else {
		done = s.settleCharge(c, claims, a, now)
	}
	if refund && done.Changed {
		s.forget(claims[0], c.Data().RequestID)
	}
	return done
}

// settleCharge settles a charge without a hold.
func (s *Store) settleCharge(c stint.Charge, claims []*stint.Claim, a stint.Amendment, now int64) stint.Amended {
	touched, dropped, sums := map[ownSettled]bool{}, int64(0), contract.Totals{}
	state := 0 // index of the claim's first state in the charge
	for i, claim := range claims {
		names := contract.StateNames(claim, nil)
		first := state
		state += len(names)
		at := c.Data().AtOf(i)
		key := ownSettled{scopeOf(claim), settled{at, c.Data().ID}}
		if slices.Contains(s.settled[key.scopeKey], key.settled) || slices.Contains(s.own, key) {
			continue
		}
		for _, p := range s.openAll([]*stint.Claim{claim}, now) {
			known := p.in != nil && p.in.generation != 0 &&
				p.in.generation == c.Data().GenerationAt(first+slices.Index(names, p.limit.Name))
			truth, named := contract.TotalOf(&a, p.limit.Name)
			if p.cost() == 0 || !named {
				continue
			}
			charged, applied := p.counts.settle(p.limit, now,
				settlement{c.Data().ID, at, p.cost(), truth, a.MaxDebt, known})
			if applied {
				s.write(p, now)
				touched[key] = true
				dropped = max(dropped, truth-charged)
				if p.in != nil {
					sums.Add(&a, p.limit.Name, truth)
				}
			}
		}
	}
	for key := range touched {
		list := append(s.settled[key.scopeKey], key.settled)
		slices.SortFunc(list, func(a, b settled) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
		})
		if len(list) > driver.MaxSettled {
			list = list[1:]
		}
		s.settled[key.scopeKey] = list
		if s.own = append(s.own, key); len(s.own) > contract.MaxOwnSettled {
			s.own = s.own[1:]
		}
	}
	if len(touched) == 0 {
		return stint.Amended{}
	}
	return stint.Amended{Changed: true, Charged: max(0, sums.Sum-dropped)}
}

// cloneClaims returns copies of claims and of their limits.
func cloneClaims(claims []stint.Claim) (copies []*stint.Claim) {
	for _, c := range claims {
		c.Limits = slices.Clone(c.Limits)
		copies = append(copies, &c)
	}
	return copies
}

// wait returns the duration from now to the instant `at`, or stint.Never if `at` is never.
func wait(at, now int64) time.Duration {
	if at == never {
		return stint.Never
	}
	return contract.Duration(at - now)
}
