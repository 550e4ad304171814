package oracle

import (
	"context"
	"slices"

	"github.com/stint-limiter/stint"
)

// part is one limit of one claim of a request in the course of a decision.
type part struct {
	claim   *stint.Claim
	limit   *stint.Limit
	shifted state // as stored, steps back of the clock taken out
	stepped bool
	opened  state
}

// Take implements [stint.Store].
func (s *Store) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if err := ctx.Err(); err != nil {
		return stint.Decision{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	claims := cloneClaims(r)
	parts := s.openAll(claims, now)

	d := stint.Decision{Charge: stint.ChargeOf(&r)}
	states := d.Grow(len(parts))
	fit := func() {
		if r.Fit || r.Lease > 0 {
			claims[0].Cost = max(1, min(r.Cost, leastLeft(parts, now)))
		}
	}
	show := func(costs bool) {
		for i, p := range parts {
			states[i].Used = p.opened.used(p.limit, now)
			states[i].ResetAfter = duration(p.opened.reset(p.limit, now))
			if costs {
				states[i].RetryAfter = wait(p.opened.earliest(p.limit, now, p.claim.Cost), now)
			}
		}
	}

	// 1. Ban.
	for i, c := range claims {
		if b := s.banOf(c.Subject, now); r.Bans != nil && !c.Shared && b.until > now {
			fit()
			show(true)
			d.Banned, d.Decider, d.RetryAfter = true, uint8(i), duration(b.until-now)
			s.writeBans(&r, claims, now)
			return d, nil
		}
	}

	// 2. Request id.
	if k := s.seen(&r, now); k != nil && k.repeats < stint.MaxRepeats {
		show(false)
		d.Repeat = true
		if k.at-now >= 16 {
			d.RetryAfter = duration(k.at - now)
		}
		if r.Mode != stint.Take || d.RetryAfter == 0 {
			d.Allowed = true
			if r.Mode != stint.Peek {
				k.repeats++
				s.writeBans(&r, claims, now)
			}
		}
		return d, nil
	}

	// 3. Limits.
	fit()
	show(true)
	at := s.when(parts, r.Mode, now)
	d.RetryAfter = wait(at, now)
	switch {
	case at == never:
	case r.Lease > 0:
		d.Allowed = at == now
		for i, p := range parts {
			if at == now && left(p, now) < p.claim.Cost {
				d.Allowed, d.RetryAfter, states[i].RetryAfter = false, r.Lease, r.Lease
			}
		}
	case r.Mode == stint.Reserve:
		d.Allowed = d.RetryAfter <= r.Longest() && (at == now || !fullyBooked(parts))
	default:
		d.Allowed = at == now
	}
	if r.Mode != stint.Peek {
		s.writeBans(&r, claims, now)
		s.writeSteps(parts)
	}

	// 4. Charge.
	if d.Allowed {
		if r.Mode != stint.Peek {
			d.Charge.ID, d.Charge.At = s.chargeAll(&r, parts, now, at)
			d.Charge.Claim.Cost = claims[0].Cost
			for i, p := range parts {
				states[i].Used = p.opened.used(p.limit, now)
				states[i].ResetAfter = duration(p.opened.reset(p.limit, now))
			}
		}
		return d, nil
	}

	// 5. Strike.
	denier := claims[0]
	for i, p := range parts {
		if states[i].RetryAfter != 0 {
			denier = p.claim
			break
		}
	}
	d.Decider = uint8(slices.Index(claims, denier))
	if r.Mode == stint.Take && r.Bans != nil && r.Bans.After > 0 && denier.Cost > 0 && !denier.Shared {
		if until := s.strike(r.Bans, denier.Subject, now); until > 0 {
			d.Banned = true
			d.RetryAfter = longer(d.RetryAfter, duration(until-now))
		}
	}
	return d, nil
}

// openAll opens every limit of every claim, on copies.
func (s *Store) openAll(claims []*stint.Claim, now int64) []part {
	var parts []part
	for _, c := range claims {
		for i := range c.Limits {
			p := part{claim: c, limit: &c.Limits[i]}
			p.shifted = s.stored(c, p.limit)
			p.stepped = p.shifted.stepBack(p.limit, now)
			p.opened = p.shifted.clone()
			p.opened.open(p.limit, now)
			parts = append(parts, p)
		}
	}
	return parts
}

// left is what is left of a limit, less than nothing in debt.
func left(p part, now int64) int64 { return p.limit.Capacity() - p.opened.used(p.limit, now) }

func leastLeft(parts []part, now int64) int64 {
	least := most
	for _, p := range parts {
		least = min(least, left(p, now))
	}
	return least
}

// when returns the instant at which all limits have room, or never.
func (s *Store) when(parts []part, mode stint.Mode, now int64) int64 {
	at := now
	if mode == stint.Reserve {
		for _, p := range parts {
			for _, b := range p.opened.bookings() {
				at = max(at, b.at)
			}
		}
	}
	for {
		next := at
		for _, p := range parts {
			t := p.opened.earliest(p.limit, at, p.claim.Cost)
			if t == never {
				return never
			}
			next = max(next, t)
		}
		if next == at {
			return at
		}
		at = next
	}
}

func fullyBooked(parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return len(p.opened.bookings()) >= stint.MaxBookings })
}

// writeSteps writes the clock's steps back to the limits that are to be charged,
// even if they are not: a denial must not hide the step from the next decision.
func (s *Store) writeSteps(parts []part) {
	for _, p := range parts {
		if p.stepped && p.claim.Cost > 0 {
			s.limits[keyOf(p.claim, p.limit)] = p.shifted
		}
	}
}

// writeBans does the same for the subjects' bans.
func (s *Store) writeBans(r *stint.Request, claims []*stint.Claim, now int64) {
	if r.Mode == stint.Peek || r.Bans == nil {
		return
	}
	for _, c := range claims {
		if _, known := s.bans[c.Subject]; known && c.Cost > 0 && !c.Shared {
			s.bans[c.Subject] = s.banOf(c.Subject, now)
		}
	}
}

// chargeAll charges, books or leases every claim that costs something, and returns
// the id and the instant of the charge, 0 if none did.
func (s *Store) chargeAll(r *stint.Request, parts []part, now, at int64) (uint64, int64) {
	if r.Lease > 0 {
		at = now + r.Lease.Microseconds()
	}
	s.serial++
	charged := false
	for _, p := range parts {
		if p.claim.Cost == 0 {
			continue
		}
		charged = true
		switch {
		case r.Lease > 0:
			p.opened.(*eventLog).lease(p.limit, at, p.claim.Cost)
		case at > now:
			p.opened.book(at, p.claim.Cost)
		default:
			p.opened.charge(p.limit, now, p.claim.Cost, s.serial)
		}
		s.limits[keyOf(p.claim, p.limit)] = p.opened
	}
	if !charged {
		return 0, 0
	}
	s.remember(r, now, at)
	return s.serial, at
}
