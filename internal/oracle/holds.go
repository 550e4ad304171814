package oracle

import (
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// hold is the record of an open hold in one state: its expiry, the end of the time in which it can
// be settled, and the total that heartbeats have reported.
type hold struct{ expires, end, reported int64 }

// isStock reports whether a limit sets aside the units of a hold with the given life instead of
// charging them at once.
func isStock(l *stint.Limit, life int64) bool {
	return hasLog(l) && !hasMeter(l) && (l.HoldThrough || l.Window.Microseconds() > life)
}

// expiryOf returns the expiry of a hold that begins or is extended at the given time, rounded up to
// a multiple of a 64th of the life.
func expiryOf(at, life int64) int64 {
	g := (life + 63) / 64
	return (at + life + g - 1) / g * g
}

// openHeld removes held units that have expired and, if k.charges is set, charges them at their
// expiry. It limits the other expiries to [driver.LongestHold] from now.
func (k *counts) openHeld(l *stint.Limit, now int64) {
	before := k.held
	k.held = nil
	for _, h := range before {
		switch {
		case h.at > now:
			k.hold(min(h.at, now+driver.LongestHold.Microseconds()), h.n)
		case k.charges && k.stamp(l, h.at) > now-span(l):
			k.append(k.stamp(l, h.at), h.n)
		}
	}
}

// holdFor holds n units of the limit until the given instant. If that instant is not after now,
// the units expire at once.
func (k *counts) holdFor(l *stint.Limit, until, n, now int64) {
	if n > 0 {
		k.hold(until, n)
		k.charges = l.ChargeExpired
		k.openHeld(l, now)
	}
}

func (k *counts) hold(until, n int64) {
	if n > 0 {
		k.held = appendEntry(k.held, until, n)
	}
}

// release removes n held units: first units that expire at the instant `until` or later and then,
// if there are too few, units that expire earlier, the latest first.
func (k *counts) release(until, n int64) {
	take := func(i int) {
		by := min(n, k.held[i].n)
		k.held[i].n -= by
		n -= by
	}
	for i := range k.held {
		if k.held[i].at >= until {
			take(i)
		}
	}
	for i := len(k.held) - 1; i >= 0; i-- {
		take(i)
	}
	k.held = slices.DeleteFunc(k.held, func(h entry) bool { return h.n == 0 })
}

// raise charges the given number of units now, or as many of them as mostRaise allows. It returns
// the number of units that it did not charge.
func (k *counts) raise(l *stint.Limit, now, by, maxDebt int64) (dropped int64) {
	if by <= 0 || isOff(l) {
		return 0
	}
	charged := min(by, k.mostRaise(l, maxDebt))
	if charged > 0 {
		k.lease(l, now, charged)
	}
	return by - charged
}

// holdFull returns the time until a state has room for another hold, or 0 if it has room now.
func (s *Store) holdFull(key stateKey, now int64) int64 {
	first, n := int64(0), 0
	if len(s.holds[key]) < driver.MaxHolds {
		return 0
	}
	for _, h := range s.holds[key] {
		if h.end > now {
			if n++; n == 1 || h.end < first {
				first = h.end
			}
		}
	}
	if n < driver.MaxHolds {
		return 0
	}
	return first - now
}

// addHolds records the holds of a charge, one in every charged state that has room.
func (s *Store) addHolds(parts []*part, id uint64, life, from, now int64) {
	expires := expiryOf(from, life)
	for _, p := range parts {
		if p.in == nil || p.cost() == 0 || expires+life <= now {
			continue
		}
		key := stateOf(p.claim, p.limit)
		if s.holdFull(key, now) > 0 {
			continue
		}
		if s.holds[key] == nil {
			s.holds[key] = map[uint64]*hold{}
		}
		for other, h := range s.holds[key] {
			if h.end <= now {
				delete(s.holds[key], other)
			}
		}
		s.holds[key][id] = &hold{expires: expires, end: expires + life}
	}
}

// openHold is an open hold, with the state and the charge that it belongs to.
type openHold struct {
	claim               int
	hold                *hold
	key                 stateKey
	parts               []*part
	known               bool // the state has the generation of the charge
	cost, at, life, now int64
}

// eachHold calls f for each open hold of the charge to which the amendment applies. It passes the
// hold's true cost as total, or the cost that heartbeats have reported if that is higher.
func (s *Store) eachHold(c *stint.Charge, claims []*stint.Claim, a *stint.Amendment, now int64,
	f func(h openHold, total int64)) {
	state := 0
	for i, claim := range claims {
		for _, name := range contract.StateNames(claim, nil) {
			h := openHold{claim: i, key: stateKey{scopeOf(claim), name}, at: c.Data().AtOf(i), now: now,
				life: c.Data().Hold.Microseconds(), cost: claim.CostOf(&stint.Limit{Name: name})}
			generation := c.Data().GenerationAt(state)
			state++
			t, named := contract.TotalOf(a, name)
			if h.hold = s.holds[h.key][c.Data().ID]; !named || h.cost == 0 || h.hold == nil || h.hold.end <= now {
				continue
			}
			for _, p := range s.openAll([]*stint.Claim{claim}, now) {
				if p.in != nil && p.limit.Name == name {
					h.parts = append(h.parts, p)
					h.known = p.in.generation != 0 && p.in.generation == generation
				}
			}
			f(h, max(t, h.hold.reported))
		}
	}
}

// settle settles the hold under one limit, with a true cost of t units. It returns the number of
// units that it did not charge.
func (h *openHold) settle(p *part, t, maxDebt int64) (dropped int64) {
	k, charged := p.counts.(*counts), max(h.cost, h.hold.reported)
	at := h.at
	if isStock(p.limit, h.life) {
		if h.hold.expires > h.now || !p.limit.ChargeExpired {
			if h.hold.expires > h.now && h.known {
				k.release(h.hold.expires, max(0, h.cost-h.hold.reported))
			}
			return k.raise(p.limit, h.now, t-h.hold.reported, maxDebt)
		}
		at = h.hold.expires
	}
	by := t - charged
	if by > 0 {
		by = min(by, k.mostRaise(p.limit, maxDebt))
	}
	if !isOff(p.limit) && h.known && k.settleFound(p.limit, h.now, settlement{at: at, cost: charged}, by) {
		return max(0, t-charged-by)
	}
	return k.raise(p.limit, h.now, t-charged, maxDebt)
}

func (s *Store) settleHolds(c *stint.Charge, claims []*stint.Claim, a stint.Amendment, now int64) stint.Amended {
	var done stint.Amended
	dropped, sums := int64(0), contract.Totals{}
	s.eachHold(c, claims, &a, now, func(h openHold, t int64) {
		done.Changed = true
		for _, p := range h.parts {
			dropped = max(dropped, h.settle(p, t, a.MaxDebt))
			s.write(p, now)
		}
		sums.Add(&a, h.key.name, t)
		delete(s.holds[h.key], c.Data().ID)
	})
	for _, claim := range claims {
		for _, p := range s.openAll([]*stint.Claim{claim}, now) {
			held, ok := p.counts.(*holders)
			if t, named := contract.TotalOf(&a, p.limit.Name); !ok || p.cost() == 0 || !named || t > 0 {
				continue
			}
			s.released[ownReleased{scopeOf(claim), c.Data().ID}] = true
			if held.release(c.Data().ID) {
				s.write(p, now)
				done.Changed = true
			}
		}
	}
	done.Charged = max(0, sums.Sum-dropped)
	return done
}

// extendHolds extends the holds of a charge. It reports whether the charge has holds and all of
// them were open and not expired.
func (s *Store) extendHolds(c *stint.Charge, claims []*stint.Claim, a stint.Amendment, now int64) bool {
	want, open := 0, 0
	for _, claim := range claims {
		for _, name := range contract.StateNames(claim, nil) {
			if claim.CostOf(&stint.Limit{Name: name}) > 0 {
				want++
			}
		}
	}
	totals := a
	if a.Costs != nil { // names that a.Costs omits are extended, too
		totals.Costs = stint.Costs{}
		for _, claim := range claims {
			for i := range claim.Limits {
				totals.Costs[claim.Limits[i].Name] = a.Costs[claim.Limits[i].Name]
			}
		}
	}
	s.eachHold(c, claims, &totals, now, func(h openHold, t int64) {
		s.prolong(c, now)
		before := *h.hold
		charged := max(h.cost, before.reported)
		after := hold{expires: before.expires, end: expiryOf(now, h.life) + h.life, reported: t}
		if before.expires > now {
			open++
			after.expires = expiryOf(now, h.life)
		}
		for _, p := range h.parts {
			k, by := p.counts.(*counts), t-charged
			if isStock(p.limit, h.life) {
				if before.expires > now && h.known {
					k.release(before.expires, max(0, h.cost-before.reported))
					k.holdFor(p.limit, after.expires, max(0, h.cost-t), now)
				}
				if before.expires > now || !p.limit.ChargeExpired {
					by = t - before.reported
				}
			}
			k.raise(p.limit, now, by, a.MaxDebt)
			s.write(p, now)
		}
		*h.hold = after
	})
	return want > 0 && open == want
}
