package resilience

import (
	"context"
	"math"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// amended applies to the local counts an amendment of a charge of the store.
func (l *local) amended(c *stint.Charge, a stint.Amendment) {
	ctx := context.Background()
	for _, booking := range []bool{false, true} {
		if other, ok := l.counterparts.get(l.counterpartKey(c, booking)); ok && other.own.Data().ID != 0 {
			if own := partOf(&other.own, c); own.Data().ID != 0 {
				_, _ = l.own.Amend(ctx, own, a)
			}
			return
		}
	}
	if own, ok := l.recentCharges.of(c); ok && a.Kind == stint.AmendSettle {
		_, _ = l.own.Amend(ctx, own, a)
	}
}

// amendSince applies to what this process took of its part an amendment of a local charge, or of a
// part of it.
func (l *local) amendSince(c, since *stint.Charge, a stint.Amendment, wall int64) {
	ctx := context.Background()
	switch {
	case since.Data().ID != 0:
		if part := partOf(since, c); part.Data().ID != 0 {
			_, _ = l.since.Amend(ctx, part, a)
		}
	case a.Kind == stint.AmendSettle && l.since.Stats().Subjects > 0:
		for i := range c.Claims() {
			claim := &c.Claims()[i]
			for j := range claim.Limits {
				if n := stillIn(&claim.Limits[j], claim.Cost-a.Cost, c.Data().At, wall); n > 0 {
					_ = l.since.Command(ctx, stint.Command{Kind: stint.CommandGiveBack, Subject: claim.Subject,
						Scope: claim.Scope, Limits: claim.Limits[j : j+1], Units: n})
				}
			}
		}
	}
}

// commanded applies a command locally that the store has executed, or failed to. Units are given
// back once: not here if the store gave them back and is yet to be charged with what was granted
// here.
func (l *local) commanded(c *stint.Command, done bool, now int64) {
	ctx := context.Background()
	if c.Kind == stint.CommandGiveBack {
		claims := []stint.Claim{{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}}
		set := l.lock(claims)
		defer l.unlock(set)
		if rec := l.find(&claims[0]); rec != nil {
			for j := range c.Limits {
				k := rec.of(&c.Limits[j])
				switch {
				case k == nil || k.uncharged == 0:
				case done:
					return
				default:
					k.drop(c.Units, now)
				}
			}
			l.clearOwing(rec)
		}
	}
	_ = l.own.Command(ctx, *c) // fails only once it is closed
	if c.Kind == stint.CommandReset || c.Kind == stint.CommandGiveBack {
		_ = l.since.Command(ctx, *c)
	}
}

// changePlaces changes how many local places of some claims the store does not know of.
func (l *local) changePlaces(claims []stint.Claim, change, now int64) {
	set := l.lock(claims)
	defer l.unlock(set)
	for i := range claims {
		claim := &claims[i]
		rec := l.find(claim)
		for j := range claim.Limits {
			if k := rec.of(&claim.Limits[j]); k != nil && k.limit.Algorithm == stint.AlgorithmConcurrency &&
				claim.Cost > 0 {
				k.places = max(k.placesNow(now)+change, 0)
				k.placesAt = now
			}
		}
	}
}

// partOf returns the part of the store's charge that corresponds to a local one, or to a part of
// it.
func partOf(store, local *stint.Charge) stint.Charge {
	if len(store.Claims()) == len(local.Claims()) {
		return *store
	}
	var numbers []int
	for i := range local.Claims() {
		want := &local.Claims()[i]
		for k := range store.Claims() {
			c := &store.Claims()[k]
			if c.Subject == want.Subject && c.Scope == want.Scope &&
				slices.EqualFunc(c.Limits, want.Limits, func(a, b stint.Limit) bool {
					return contract.SameID(&a, &b)
				}) {
				numbers = append(numbers, k)
			}
		}
	}
	return store.Part(numbers...)
}

// settleOwed changes what is owed for a local charge, or a part of it, to its true cost, at an
// instant and its wall time. What may have been charged already is given back.
func (l *local) settleOwed(settled settlement, now, wall int64) {
	c, cost := &settled.charge, settled.amendment.Cost
	set := l.lock(c.Claims())
	defer l.unlock(set)
	for i := range c.Claims() { // a single request is owed under its first
		claim := &c.Claims()[i]
		if rec := l.find(claim); rec != nil {
			for _, s := range rec.sent {
				if s.charge == c.Data().ID {
					s.settlements = append(s.settlements, settled)
					return
				}
			}
		}
	}
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		if claim.Cost > 0 && claim.Cost != cost {
			l.adjust(claim, cost-claim.Cost, settled.charged-claim.Cost, c.Data().At, now, wall)
		}
	}
}

// adjust changes what is owed under a claim that was charged at an instant. A raise of a limit that
// takes no larger debt is of so many units. The lock is held.
func (l *local) adjust(c *stint.Claim, units, bounded, at, now, wall int64) {
	rec := l.record(c, now)
	for j := range c.Limits {
		k := rec.limit(&c.Limits[j])
		if units > 0 {
			raise := units
			if contract.HasMeter(&k.limit) {
				raise = min(units, max(bounded, 0))
			}
			if raise > 0 {
				k.grant(raise, now, now)
				l.add(rec, k, now, raise)
			}
			continue
		}
		// What has left its window gives nothing back: what is owed is of others.
		charged := k.drop(stillIn(&k.limit, -units, at, wall), now)
		if charged == 0 {
			continue
		}
		if sent := rec.sending(k); sent != nil {
			sent.back += charged
		} else {
			l.giveBack(rec, &k.limit, charged)
		}
	}
	l.clearOwing(rec)
}

// giveBack gives units of a limit back to the store.
func (l *local) giveBack(rec *record, limit *stint.Limit, units int64) {
	l.command(stint.Command{Kind: stint.CommandGiveBack, Subject: rec.subject, Scope: rec.scope,
		Limits: []stint.Limit{*limit}, Units: units})
}

// stillIn is how many units that were charged at an instant surely still count in a limit.
func stillIn(l *stint.Limit, units, at, now int64) int64 {
	window := l.Window.Microseconds()
	switch age := max(now-at, 0); {
	case l.Algorithm == stint.AlgorithmConcurrency || age >= window || l.Algorithm == stint.AlgorithmFixed &&
		at/window != now/window:
		return 0
	case l.Algorithm == stint.AlgorithmBucket || contract.HasMeter(l):
		units -= int64(math.Ceil(float64(age) / float64(window) * float64(l.Max)))
	}
	return max(units, 0)
}

// sending returns the part of a sending that charges a limit, or nil.
func (r *record) sending(k *known) *sentPart {
	for _, s := range r.sent {
		for i := range s.parts {
			if s.parts[i].limit == k {
				return &s.parts[i]
			}
		}
	}
	return nil
}

// forget drops what is known and owed of limits that are reset. It returns what is being charged.
func (l *local) forget(c *stint.Command, now int64) (inFlight []*sending) {
	claims := []stint.Claim{{Subject: c.Subject, Scope: c.Scope}}
	set := l.lock(claims)
	defer l.unlock(set)
	reset := l.resets.Add(1)
	rec := l.find(&claims[0])
	if rec == nil {
		return nil
	}
	rec.resetAt = now
	for i := range c.Limits {
		if k := rec.of(&c.Limits[i]); k != nil {
			*k = known{limit: k.limit, reset: reset}
		}
	}
	for _, s := range rec.sent {
		s.parts = slices.DeleteFunc(s.parts, func(p sentPart) bool {
			return p.rec == rec && slices.ContainsFunc(c.Limits, func(l stint.Limit) bool {
				return contract.SameID(&l, &p.limit.limit)
			})
		})
		if s.inFlight {
			inFlight = append(inFlight, s)
		}
	}
	rec.sent = slices.DeleteFunc(rec.sent, func(s *sending) bool { return len(s.parts) == 0 })
	l.clearOwing(rec)
	return inFlight
}
