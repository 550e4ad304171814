package oracle

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// settled is a charge that was settled.
type settled struct {
	at int64
	id uint64
}

// Amend implements [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if c.Origin() != stint.FromStore {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	claims := cloneClaims(stint.Request{Claim: c.Claim, And: c.And()})
	if a.Kind == stint.Settle {
		return s.settle(c, claims, a.Cost, now), nil
	}
	applied := false
	for _, p := range s.openAll(claims, now) {
		h, ok := p.opened.(*holders)
		if !ok {
			continue
		}
		there := a.Kind == stint.Release && h.release(c.ID) || a.Kind == stint.Extend && h.extend(p.limit, now, c.ID)
		if there {
			s.limits[keyOf(p.claim, p.limit)] = h
			applied = true
		}
	}
	return applied, nil
}

func (s *Store) settle(c stint.Charge, claims []*stint.Claim, cost, now int64) bool {
	touched := map[scopeKey]bool{}
	for _, claim := range claims {
		if claim.Cost == 0 || s.isSettled(scopeOf(claim), c) {
			continue
		}
		for _, p := range s.openAll([]*stint.Claim{claim}, now) {
			if p.opened.settle(p.limit, now, settlement{c.ID, c.At, claim.Cost, cost}) {
				s.limits[keyOf(claim, p.limit)] = p.opened
				touched[scopeOf(claim)] = true
			}
		}
	}
	for key := range touched {
		list := append(s.settled[key], settled{c.At, c.ID})
		slices.SortFunc(list, func(a, b settled) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
		if len(list) > stint.MaxSettled {
			list = list[1:]
		}
		s.settled[key] = list
	}
	if len(touched) > 0 && cost == 0 && c.RequestID() != "" {
		s.forget(claims[0], c.RequestID())
	}
	return len(touched) > 0
}

func (s *Store) isSettled(key scopeKey, c stint.Charge) bool {
	list := s.settled[key]
	return slices.Contains(list, settled{c.At, c.ID}) || len(list) >= stint.MaxSettled && c.At <= list[0].at
}

// cloneClaims returns all claims of a request, sharing nothing with the caller.
func cloneClaims(r stint.Request) []*stint.Claim {
	var claims []*stint.Claim
	for _, c := range append([]stint.Claim{r.Claim}, r.And...) {
		c.Limits = slices.Clone(c.Limits)
		claims = append(claims, &c)
	}
	return claims
}

// wait is the time from now until an instant, which may be never.
func wait(at, now int64) time.Duration {
	if at == never {
		return stint.Never
	}
	return duration(at - now)
}
