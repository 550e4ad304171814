package oracle

import (
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// Take implements [stint.Store].
func (s *Store) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if err := ctx.Err(); err != nil {
		return stint.Decision{}, err
	}
	if len(r.Claims) == 0 {
		return stint.Decision{}, r.Validate()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	claims := cloneClaims(r.Claims)
	d := s.decide(r, claims, now)
	d.Charge.Data().Now = now
	// A repeat with the charge of the original request already has the generations of that charge.
	if !d.Repeat || d.Charge.IsZero() {
		s.setGenerations(claims, &d.Charge)
	}
	s.noteCharge(&r, &d)
	return d, nil
}

// decide decides r. claims holds copies of the claims of r, which decide may change.
func (s *Store) decide(r stint.Request, claims []*stint.Claim, now int64) stint.Decision {
	parts := s.openAll(claims, now)
	for _, p := range parts {
		if k, ok := p.counts.(*counts); ok {
			k.books = r.Mode == stint.ModeReserve
		}
	}

	d := stint.Decision{Charge: contract.ChargeOf(&r)}
	states := d.MakeUsages(len(parts))
	fit := func() {
		if r.Terms().Fit || r.Terms().Lease > 0 {
			for _, p := range parts {
				claims[0].Cost = min(claims[0].Cost, left(p))
			}
			claims[0].Cost = max(claims[0].Cost, 1)
		}
	}
	show := func() {
		for i, p := range parts {
			states[i].Used = p.counts.used(p.limit)
			states[i].ResetAfter = contract.Duration(p.counts.reset(p.limit, now))
		}
	}
	retries := func(mode stint.Mode) {
		for i, p := range parts {
			states[i].RetryAfter = p.retryAfter(mode, now, p.cost())
		}
	}

	// 1. Ban.
	if r.Mode == driver.ModeForce {
		r.Bans = nil
	}
	for i, c := range claims {
		if b := s.banOf(c.Subject, now); r.Bans != nil && !c.Shared && b.until > now {
			fit()
			show()
			retries(stint.ModePeek)
			d.Banned, d.Denier, d.BanLeft = true, uint8(i+1), contract.Duration(b.until-now)
			d.RetryAfter = d.BanLeft
			s.writeBans(&r, claims, now)
			return d
		}
	}

	// 2. Request id.
	if k := s.seen(&r, now); k != nil && (k.repeats < driver.MaxRepeats || r.Mode == driver.ModeForce) {
		show()
		d.Repeat = true
		if wait := k.until - contract.Life(&r).Microseconds() - now; wait >= 16 {
			d.RetryAfter = contract.Duration(wait)
		}
		if r.Mode != stint.ModeTake || d.RetryAfter == 0 {
			d.Allowed = true
			if r.Mode != stint.ModePeek {
				k.repeats = min(k.repeats+1, driver.MaxRepeats)
				s.writeBans(&r, claims, now)
			}
			if first := recall(&r, k.charge); !first.IsZero() {
				d.Charge = first
			}
		}
		return d
	}

	// 3. Limits.
	old, come := s.giveUp(&r, claims, parts)
	come = come && r.Mode == stint.ModeReserve && s.takeOff(&r, parts, now)
	fit()
	show()
	var at int64
	switch {
	case r.Mode == driver.ModeForce:
		at = now + (r.MaxWait + time.Microsecond - 1).Microseconds()
	case come: // a booking that is due goes ahead of waiting requests
		retries(stint.ModeTake)
		at = when(parts, stint.ModeTake, now)
		for _, p := range parts {
			p.seen = p.counts
		}
	default:
		retries(r.Mode)
		at = when(parts, r.Mode, now)
	}
	for i, p := range parts {
		if r.Hold == 0 || r.Mode == driver.ModeForce || p.in == nil || p.cost() == 0 || at == never {
			continue
		}
		if full := s.holdFull(stateOf(p.claim, p.limit), now); full > 0 {
			at = max(at, now+full)
			states[i].RetryAfter = max(states[i].RetryAfter, contract.Duration(full))
		}
	}
	d.RetryAfter = wait(at, now)
	switch {
	case at == never:
	case r.Mode == driver.ModeForce:
		d.Allowed = true
	case r.Terms().Lease > 0:
		d.Allowed = at == now
		for i, p := range parts {
			if at == now && left(p) < p.cost() {
				d.Allowed, d.RetryAfter, states[i].RetryAfter = false, r.Terms().Lease, r.Terms().Lease
			}
		}
	case r.Mode == stint.ModeReserve:
		d.Allowed = d.RetryAfter <= contract.Longest(&r) && (at == now || come || !fullyBooked(parts)) &&
			(at == now || ahead(parts, at))
	default:
		d.Allowed = at == now
	}
	if r.Mode != stint.ModePeek {
		s.writeBans(&r, claims, now)
		s.writeSteps(parts, now)
	}
	if old != never && (!d.Allowed || at >= old) {
		s.stay(&r, parts, &d, old, now)
		return d
	}

	// 4. Charge.
	if d.Allowed {
		if r.Mode != stint.ModePeek {
			d.Charge.Data().ID, d.Charge.Data().At = s.chargeAll(&r, parts, now, at)
			d.Charge.Claims()[0].Cost = claims[0].Cost
			show()
			if at > now && r.Terms().Lease == 0 {
				showAsOf(parts, states, at)
			}
		}
		return d
	}

	// 5. Strike.
	denier := claims[0]
	for i, p := range parts {
		if states[i].RetryAfter != 0 {
			denier = p.claim
			break
		}
	}
	d.Denier = uint8(slices.Index(claims, denier) + 1)
	if r.Mode == stint.ModeTake && r.Bans != nil && r.Bans.After > 0 && contract.Charges(denier) && !denier.Shared {
		if until := s.strike(r.Bans, denier.Subject, now); until > 0 {
			d.Banned, d.BanLeft = true, contract.Duration(until-now)
			d.RetryAfter = max(d.RetryAfter, d.BanLeft)
		}
	}
	return d
}

// left returns the units left under a limit: a negative number if the limit is in debt.
func left(p *part) int64 { return p.limit.Capacity() - p.counts.used(p.limit) }

// lastBooked returns the instant at which the last booking on the limit begins, or now if there is
// none.
func (p *part) lastBooked(now int64) int64 {
	at := now
	for _, b := range p.seen.bookings() {
		at = max(at, b.from)
	}
	return at
}

// retryAfter returns the RetryAfter of a decision under the limit of p alone.
func (p *part) retryAfter(mode stint.Mode, now, cost int64) time.Duration {
	waits := mode == stint.ModeReserve && len(p.seen.bookings()) > 0
	if !waits && p.seen.fits(p.limit, now, cost) {
		return 0
	}
	return wait(p.seen.earliest(p.limit, p.lastBooked(now), cost), now)
}

// when returns the first instant at which all limits have room, or never.
func when(parts []*part, mode stint.Mode, now int64) int64 {
	fits, at := true, now
	for _, p := range parts {
		waits := mode == stint.ModeReserve && len(p.seen.bookings()) > 0
		fits = fits && !waits && p.seen.fits(p.limit, now, p.cost())
		at = max(at, p.lastBooked(now))
	}
	if fits {
		return now
	}
	for {
		next := at
		for _, p := range parts {
			t := p.seen.earliest(p.limit, at, p.cost())
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

// ahead reports whether the instant `at` is before the end of the next period of every calendar
// limit. Nothing is booked after that, because later ends are not known.
func ahead(parts []*part, at int64) bool {
	return !slices.ContainsFunc(parts, func(p *part) bool {
		return p.limit.Algorithm == stint.AlgorithmCalendar && at >= p.counts.(*counts).ends[2]
	})
}

func fullyBooked(parts []*part) bool {
	return slices.ContainsFunc(parts, func(p *part) bool { return len(p.seen.bookings()) >= driver.MaxBookings })
}

// writeBans writes the subjects' bans, moved back if the clock stepped back.
func (s *Store) writeBans(r *stint.Request, claims []*stint.Claim, now int64) {
	if r.Mode == stint.ModePeek || r.Bans == nil {
		return
	}
	for _, c := range claims {
		if _, known := s.bans[c.Subject]; known && contract.Charges(c) && !c.Shared {
			s.bans[c.Subject] = s.banOf(c.Subject, now)
		}
	}
}

// chargeAll charges, books or leases every claim with a cost above 0. It returns the id and the
// instant of the charge, or zeros if every cost is 0.
func (s *Store) chargeAll(r *stint.Request, parts []*part, now, at int64) (uint64, int64) {
	stated, noted := at, at // instants of the charge and of the request id
	switch {
	case r.Terms().Lease > 0:
		stated = now + r.Terms().Lease.Microseconds()
		noted = stated
	case r.Terms().Age > 0:
		stated = max(1, now-r.Terms().Age.Microseconds())
	case at > now:
		stated = at + contract.Grace(r).Microseconds()
		for _, p := range parts {
			for _, b := range p.seen.bookings() {
				if b.from > at {
					stated = min(stated, b.until)
				}
			}
		}
		for _, p := range parts {
			for _, b := range p.seen.bookings() {
				if b.from <= at {
					stated = max(stated, b.until)
				}
			}
		}
	}
	s.serial++
	charged := false
	for _, p := range parts {
		if p.cost() == 0 {
			continue
		}
		charged = true
		switch k := p.counts.(type) {
		case *holders:
			k.charge(p.limit, now, s.serial)
		case *counts:
			if p.booked {
				k.unbook(r.Terms().Booked.At, p.cost())
			}
			switch {
			case r.Hold > 0 && isStock(p.limit, r.Hold.Microseconds()) &&
				s.holdFull(stateOf(p.claim, p.limit), now) == 0:
				n := p.cost()
				if r.Mode == driver.ModeForce {
					n = max(0, min(n, most/2-k.used(p.limit)))
				}
				k.holdFor(p.limit, expiryOf(stated, r.Hold.Microseconds()), n, now)
			case r.Mode == driver.ModeForce:
				cost := p.cost()
				if r.Terms().AtLeast {
					cost = max(0, cost-k.used(p.limit))
				}
				k.force(p.limit, now, at, stated, cost, r.Terms().Refilled.Microseconds())
			case at > now:
				k.insert(at, stated, p.cost())
			default:
				k.lease(p.limit, stated, p.cost())
			}
		}
		s.write(p, now)
	}
	if !charged {
		return 0, 0
	}
	if r.Hold > 0 {
		s.addHolds(parts, s.serial, r.Hold.Microseconds(), stated, now)
	}
	s.remember(r, now, noted)
	return s.serial, stated
}

// setGenerations copies the generation of every state to the charge.
func (s *Store) setGenerations(claims []*stint.Claim, c *stint.Charge) {
	i := 0
	for _, claim := range claims {
		for _, name := range contract.StateNames(claim, nil) {
			var generation uint32
			if st := s.states[stateKey{scopeOf(claim), name}]; st != nil {
				generation = st.generation
			}
			contract.SetGeneration(c, i, generation)
			i++
		}
	}
}

// showAsOf sets Used and ResetAfter in states to their values at the instant at which a booking
// begins.
func showAsOf(parts []*part, states []stint.Usage, at int64) {
	for i, p := range parts {
		used, reset := p.counts.asOf(p.limit, at)
		states[i].Used, states[i].ResetAfter = used, contract.Duration(reset)
	}
}

// giveUp removes the booking that the request replaces, and lets the decision see only the bookings
// before it. It returns as `old` the first instant at which the booking begins on any limit. If one
// of the limits does not have the booking, giveUp removes nothing and `old` is [never]; charging
// the request then removes the booking where it is found. gone reports whether the booking may be
// due: no limit has it, but every state still has the generation of the booking's charge.
func (s *Store) giveUp(r *stint.Request, claims []*stint.Claim, parts []*part) (old int64, gone bool) {
	booked := r.Terms().Booked
	if old = never; booked == nil {
		return old, false
	}
	gone = true
	whole, state := true, 0 // state is the index of the claim's first state
	for _, claim := range claims {
		names := contract.StateNames(claim, nil)
		for _, p := range parts {
			if p.claim != claim || p.cost() == 0 {
				continue
			}
			same := p.in != nil && p.in.generation != 0 &&
				p.in.generation == booked.GenerationAt(state+slices.Index(names, p.limit.Name))
			p.booked = same && slices.ContainsFunc(p.counts.bookings(),
				func(b booking) bool { return b.until == booked.At })
			whole, gone = whole && p.booked, gone && same && !p.booked
		}
		state += len(names)
	}
	if !whole {
		return old, gone
	}
	for _, p := range parts {
		if k, ok := p.counts.(*counts); ok && p.booked {
			p.booked = false
			if from := k.unbook(booked.At, p.cost()); old == never || from < old {
				old = from
			}
		}
	}
	if old == never {
		return old, gone
	}
	for _, p := range parts {
		seen := p.counts.(*counts).clone()
		seen.booked = slices.DeleteFunc(seen.booked, func(b booking) bool { return b.from >= old })
		p.seen = seen
	}
	return old, false
}

// takeOff prepares the decision on a booking that is due: its units are already in the logs and
// meters. If a log still has them, takeOff removes them from every limit, and lets the decision see
// only bookings with a grace period. It reports whether a log had them.
func (s *Store) takeOff(r *stint.Request, parts []*part, now int64) bool {
	at := r.Terms().Booked.At
	if !slices.ContainsFunc(parts, func(p *part) bool {
		return p.cost() > 0 && hasLog(p.limit) && p.counts.(*counts).entryOf(p.limit, now, at) >= 0
	}) {
		return false
	}
	for _, p := range parts {
		k := p.counts.(*counts)
		c := settlement{at: at, cost: p.cost(), known: true}
		if c.cost > 0 && !isOff(p.limit) && k.settleFound(p.limit, now, c, -c.cost) {
			s.write(p, now)
		}
		firm := k.clone()
		firm.books = true
		firm.booked = slices.DeleteFunc(firm.booked, func(b booking) bool { return b.until == b.from })
		p.seen = firm
	}
	return true
}

// stay answers a request that cannot move its booking up: the booking stays as it is. It writes
// nothing.
func (s *Store) stay(r *stint.Request, parts []*part, d *stint.Decision, old, now int64) {
	for _, p := range parts {
		k := &counts{}
		if stored := p.in.limits[p.limit.ID()]; stored != nil {
			k = stored.clone()
		}
		k.open(p.limit, now)
		p.counts = k
	}
	s.serial++
	d.Allowed, d.RetryAfter = true, wait(old, now)
	d.Charge.Data().ID, d.Charge.Data().At = s.serial, r.Terms().Booked.At
	showAsOf(parts, d.Usages(), old)
}
