package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// Truth is a log of the true events: every admitted unit at its instant, never merged, rounded or
// dropped. A leased unit may be used at any time during the lease, and a booked one from its
// instant until its grace has passed, so they count in every window in which they may be used.
// Truth checks a store's decisions against the guarantees that the algorithms make for any window,
// regardless of how they count.
//
// Record every decision, amendment and command in order, with the time at which it was made. Truth
// checks nothing where the rules guarantee nothing: in windows in which the clock stepped back and,
// for a meter, in windows in which its limit changed or units were refunded.
type Truth struct {
	// AnyDelay means that room may come back arbitrarily late, so denials are not checked.
	AnyDelay bool

	clock  int64
	limits map[limitKey]*limitTruth
}

// NewTruth returns an empty log.
func NewTruth() *Truth { return &Truth{limits: map[limitKey]*limitTruth{}} }

// limitTruth is the log of one limit of one subject.
type limitTruth struct {
	events   []event
	metered  int   // index of the first event that checkMeter checks
	maxLimit int64 // largest Max under which anything was admitted
	maxLate  int64 // maximum delay until room comes back
	limit    stint.Limit
	unsure   bool  // the delay is not known, for example because the clock stepped back
	forced   int64 // units charged regardless of room
	ahead    bool  // there were leases or bookings
	blocks   bool  // a process may have leased and returned blocks that Truth did not see
}

// event is an admission: a lease from its beginning to its end, a booking from its instant to the
// end of its grace, anything else at one instant. low and high bound the number of units, because
// the effect of a settlement on one of several limits is not always known from outside.
type event struct {
	id        uint64
	from, at  int64
	low, high int64
	booked    bool
	tentative bool // its units are not used before its owner asks again
	astray    bool // `at` may not identify the event: the clock stepped back or units were removed
}

// Took records a decision that was made at the given time, and checks it.
func (t *Truth) Took(now int64, r stint.Request, d stint.Decision) error {
	t.tick(now)
	if d.Repeat {
		return nil
	}
	r.Claims = slices.Clone(r.Claims)
	if fits := r.Terms().Fit || r.Terms().Lease > 0; fits && d.Allowed {
		if err := t.fitted(now, &r, d.Charge.Claims()[0].Cost); err != nil {
			return err
		}
		r.Claims[0].Cost = d.Charge.Claims()[0].Cost
	} else if fits {
		r.Claims[0].Cost = 1 // the request is denied only if not even one unit fits
	}
	booked := bookedStates(&r, &d)
	stays := r.Terms().Booked != nil && d.Charge.Data().At == r.Terms().Booked.At && t.hasBooking(now, &r) &&
		!slices.Contains(booked, false)
	come := !stays && !d.Banned && !slices.Contains(booked, false) && t.hasCome(now, &r)
	leased := func(l stint.Limit) bool { return l.Leased }
	blocks := d.Charge.Data().Leased != 0 || t.AnyDelay && slices.ContainsFunc(d.Charge.Claims()[0].Limits, leased)
	states, i := d.States(), -1
	for c, l := range contract.Limits(r.Claims) {
		i++
		lt := t.of(c, l)
		cost := c.CostOf(l)
		if r.Hold > 0 {
			lt.holds()
		}
		if come && cost > 0 {
			lt.takeOff(r.Terms().Booked.At, cost)
		}
		justified := lt.justified(l, now, cost) || r.Terms().Lease > 0 && lt.full(l, now, cost) ||
			r.Mode == stint.ModeReserve && lt.hasBookings(now)
		if !t.AnyDelay && states[i].RetryAfter > 0 && !justified {
			return fmt.Errorf("%s: %s denied cost %d, though the true log has room even a slice later: %s",
				c.Key(), l, cost, lt)
		}
		if d.Allowed && r.Mode != stint.ModePeek && cost > 0 {
			e := event{
				id:     d.Charge.Data().ID,
				from:   d.Charge.Data().At,
				at:     d.Charge.Data().At,
				low:    cost,
				high:   cost,
				booked: d.RetryAfter > 0,
			}
			switch {
			case d.Charge.Data().Leased != 0: // granted from a leased block, which ends later
				e.from, e.at = now, now
			case e.booked || r.Terms().Lease > 0:
				e.from = now + d.RetryAfter.Microseconds()
			}
			lt.blocks = lt.blocks || blocks
			if e.tentative = e.booked && r.Terms().Tentative; e.tentative {
				e.low = 0
			}
			moved := r.Terms().Booked != nil && booked[i] && lt.giveUp(now, r.Terms().Booked.At, e)
			if stays {
				continue // the old booking stays, so there is no new event
			}
			if r.Hold > 0 || r.Terms().AtLeast {
				e.low, e.astray = 0, true
			}
			if r.Mode == driver.ModeForce {
				lt.force(e, len(states) > 1)
				continue
			}
			if err := lt.admit(l, e, moved); err != nil {
				return fmt.Errorf("%s: %w: %s", c.Key(), err, lt)
			}
		}
	}
	return nil
}

// bookedStates reports, for each limit of a request that asks to move a booking up, whether the
// booking was made in the limit's current state. It reports true for limits under which the request
// costs nothing, because nothing was booked there.
func bookedStates(r *stint.Request, d *stint.Decision) (same []bool) {
	state := 0 // index of the claim's first state
	for i := range r.Claims {
		names := contract.StateNames(&r.Claims[i], nil)
		for j := range r.Claims[i].Limits {
			l := &r.Claims[i].Limits[j]
			k := state + slices.Index(names, l.Name)
			same = append(same, r.Terms().Booked != nil && (r.Claims[i].CostOf(l) == 0 ||
				r.Terms().Booked.GenerationAt(k) == d.Charge.Data().GenerationAt(k)))
		}
		state += len(names)
	}
	return same
}

// hasBooking reports whether some limit has the booking that a request asks to move up.
func (t *Truth) hasBooking(now int64, r *stint.Request) bool {
	for c, l := range contract.Limits(r.Claims) {
		if slices.ContainsFunc(t.of(c, l).events, func(e event) bool { return e.is(now, r.Terms().Booked.At) }) {
			return true
		}
	}
	return false
}

// is reports whether the event is a booking that begins after now and ends at the given instant.
func (e *event) is(now, at int64) bool { return e.booked && e.at == at && e.from > now && e.high > 0 }

// like reports whether e and `other` certainly have the same number of units.
func (e *event) like(other event) bool {
	return e.high == other.high && (e.low == other.low || e.tentative)
}

// hasCome reports whether the booking that a request asks to move up is due and is still in a log.
func (t *Truth) hasCome(now int64, r *stint.Request) bool {
	if r.Terms().Booked == nil || t.hasBooking(now, r) {
		return false
	}
	for c, l := range contract.Limits(r.Claims) {
		if c.CostOf(l) > 0 && hasLog(l) && slices.ContainsFunc(t.of(c, l).events, func(e event) bool {
			return e.booked && e.at == r.Terms().Booked.At && e.high > 0
		}) {
			return true
		}
	}
	return false
}

// takeOff records that a due booking that was not used is decided again. It is not known from
// outside how many units the store removes. If the cost differs from that of the booking, the store
// may remove units of other events.
func (lt *limitTruth) takeOff(at, cost int64) {
	lt.metered = len(lt.events) // the store may give back units that the meter had already refilled
	certain := false
	for i := range lt.events {
		e := &lt.events[i]
		if !e.booked || e.at != at {
			continue
		}
		certain = !e.astray && e.high == cost && (e.low == cost || e.tentative)
		for j := range lt.events {
			if o := &lt.events[j]; o.at == e.at && o.from != e.from {
				o.low = 0
			}
		}
		e.low, e.astray = 0, true
	}
	if !certain {
		lt.unsure = true
		lt.excuse(math.MaxInt64)
	}
}

// fitted checks a charge whose cost the store may lower: if the store charged less than the whole
// cost, some limit must have no room for one more unit.
func (t *Truth) fitted(now int64, r *stint.Request, cost int64) error {
	if cost < 1 || cost > r.Claims[0].Cost {
		return fmt.Errorf("%s: charged %d of %d", r.Claims[0].Key(), cost, r.Claims[0].Cost)
	}
	if cost == r.Claims[0].Cost || t.AnyDelay {
		return nil
	}
	for j := range r.Claims[0].Limits {
		if l := &r.Claims[0].Limits[j]; t.of(&r.Claims[0], l).full(l, now, cost+1) {
			return nil
		}
	}
	return fmt.Errorf(
		"%s: charged %d of %d, though the true log has room for more even a slice later",
		r.Claims[0].Key(),
		cost,
		r.Claims[0].Cost,
	)
}

// Amended records an amendment that applied.
func (t *Truth) Amended(now int64, charge stint.Charge, a stint.Amendment) {
	t.tick(now)
	if a.Kind != stint.AmendSettle && (a.Kind != stint.AmendExtend || charge.Data().Hold == 0) {
		return
	}
	if charge.Data().Hold > 0 { // see limitTruth.holds
		for c, l := range contract.Limits(charge.Claims()) {
			t.of(c, l).holds()
		}
		return
	}
	certain := len(charge.Claims()) == 1 && len(charge.Claims()[0].Limits) == 1
	for c, l := range contract.Limits(charge.Claims()) {
		truth, named := contract.TotalOf(&a, l.Name)
		if c.CostOf(l) == 0 || !named {
			continue // not charged, or not settled
		}
		lt := t.of(c, l)
		lt.settle(charge.Data().ID, truth, certain)
	}
}

// holds records that units of the limit are held. It is not known from outside when they are used,
// so earlier events are no longer checked.
func (lt *limitTruth) holds() {
	lt.unsure, lt.metered = true, len(lt.events)
	lt.excuse(math.MaxInt64)
}

// settle widens the bounds on the units of the event with the given id. certain means that the
// charge has only this limit, so the settlement must have changed this event, which then has no
// more units than the given cost. Events from before a reset or a step back of the clock cannot be
// found; if no event matches, the settlement may have changed any event. A store may confuse a
// lease and bookings that end at the same instant, so settle widens their bounds, too.
func (lt *limitTruth) settle(id uint64, cost int64, certain bool) {
	lt.metered = len(lt.events) // the store may give back units that the meter had already refilled
	for i := range lt.events {
		e := &lt.events[i]
		if e.id != id || e.astray {
			continue
		}
		e.low, e.high = min(e.low, cost), max(e.high, cost)
		mistaken := false
		for j := range lt.events {
			if o := &lt.events[j]; o.at == e.at && o.from != e.from && (o.booked || e.booked) {
				mistaken, o.low = true, 0
			}
		}
		if certain && !mistaken {
			e.high = cost
		}
		return
	}
	lt.unsure = true
	lt.excuse(math.MaxInt64)
}

// giveUp removes the booking that a request asked to move up. If the decision left the booking at
// its instant, giveUp only sets its id to that of the decision. It reports whether there is such a
// booking; a booking that is due does not count.
func (lt *limitTruth) giveUp(now, at int64, moved event) bool {
	var found []int
	for i := range lt.events {
		if lt.events[i].is(now, at) {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 0:
		return false
	case len(found) > 1 || !lt.events[found[0]].like(moved):
		// Any of these events may be the booking, and the number of units left is not known.
		for _, i := range found {
			e := &lt.events[i]
			e.low, e.high, e.astray = 0, e.high+moved.high, true
		}
	case moved.at == at:
		lt.events[found[0]].id = moved.id
	default:
		lt.events = slices.Delete(lt.events, found[0], found[0]+1)
		if found[0] < lt.metered {
			lt.metered--
		}
	}
	return true
}

// GaveBack records that units were given back. The units came from events up to the end of the
// current slice, but it is not known from outside which events these are. Later events keep their
// units.
func (t *Truth) GaveBack(now int64, c stint.Command) {
	t.tick(now)
	for i := range c.Limits {
		lt := t.of(&stint.Claim{Subject: c.Subject, Scope: c.Scope}, &c.Limits[i])
		lt.metered = len(lt.events)
		if c.Limits[i].Algorithm == stint.AlgorithmBucket {
			for j := range lt.events {
				if e := &lt.events[j]; e.from <= now {
					e.low, e.astray = 0, true
				}
			}
			continue
		}
		lt.excuse(now + lt.maxLate)
	}
}

// Forgot records that limits of a subject were reset.
func (t *Truth) Forgot(now int64, c stint.Command) {
	t.tick(now)
	for i := range c.Limits {
		delete(t.limits, limitKey{scopeKey{c.Subject, c.Scope}, c.Limits[i].ID()})
	}
}

func (t *Truth) of(c *stint.Claim, l *stint.Limit) *limitTruth {
	key := keyOf(c, l)
	if t.limits[key] == nil {
		t.limits[key] = &limitTruth{}
	}
	lt := t.limits[key]
	switch {
	case l.Algorithm == stint.AlgorithmFixed:
		lt.maxLate = l.Window.Microseconds()
	case l.Algorithm == stint.AlgorithmCalendar:
		// A period that began under another calendar may be twice as long.
		lt.maxLate = 2 * l.Window.Microseconds()
	case l.Algorithm == stint.AlgorithmSliding && l.Capacity() > stint.Resolution:
		lt.maxLate = (span(l) + stint.Resolution - 1) / stint.Resolution
	}
	// After a change of the limit, or with leases or bookings, a log may have to merge entries that
	// are further apart than maxLate.
	lt.unsure = lt.unsure || len(lt.events) > maxEntries && (lt.ahead || lt.limit != *l)
	if lt.limit.Max != l.Max || lt.limit.Burst != l.Burst {
		lt.metered = len(lt.events)
	}
	lt.limit = *l
	return lt
}

// tick records the time. If the clock stepped back, windows that did not overlap before may
// overlap, so earlier events are no longer checked.
func (t *Truth) tick(now int64) {
	if now < t.clock {
		for _, lt := range t.limits {
			lt.unsure = true
			lt.metered = len(lt.events)
			lt.excuse(math.MaxInt64)
		}
	}
	t.clock = now
}

// excuse is called when it is unknown how many units are left of the events up to the given
// instant. Checks against the capacity then ignore these events.
func (lt *limitTruth) excuse(until int64) {
	for i := range lt.events {
		if lt.events[i].at <= until {
			lt.events[i].low, lt.events[i].astray = 0, true
		}
	}
}

// admit records an event and checks every window that contains it.
func (lt *limitTruth) admit(l *stint.Limit, e event, moved bool) error {
	lt.events = append(lt.events, e)
	lt.ahead = lt.ahead || e.from < e.at
	lt.maxLimit = max(lt.maxLimit, l.Max)
	// A window that moves forward gains units only where an event begins, so it is enough to check
	// windows that end there.
	for _, other := range lt.events {
		if moved && other.from > e.from {
			// The booking was already in this window before it moved up: it began after e.from, but
			// not after other.from.
			continue
		}
		if err := lt.check(l, &e, other.from); err != nil {
			return err
		}
	}
	if hasMeter(l) {
		return lt.checkMeter(l)
	}
	return nil
}

// force records an event that needs no room. In windows that contain it, the only guarantee is that
// nothing else is admitted. Its units are uncertain in two cases: a booking on several limits may
// end sooner on one of them, and a store forces no units above 2^52.
func (lt *limitTruth) force(e event, several bool) {
	total := e.high
	for _, other := range lt.events {
		total = min(total+other.high, most)
	}
	if e.booked && several || total > most/2 {
		e.low, e.astray = 0, true
	}
	lt.events = append(lt.events, e)
	lt.ahead = lt.ahead || e.from < e.at
	lt.forced = min(lt.forced+e.high, most)
	lt.metered = len(lt.events)
}

// checkMeter adds all events to a new meter, to check that no period of time has more units than
// the capacity plus the refill in that period. A meter counts units when they are charged.
//
// The units of a block are charged when the block is leased, and used up to half a window later. So
// the refill during that time may be used, too. When the rest of a block is returned, the meter may
// give back units that it has already refilled. These are at most one capacity, because the log has
// room for at most one capacity of blocks at once.
func (lt *limitTruth) checkMeter(l *stint.Limit) error {
	events := slices.Clone(lt.events[lt.metered:])
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.from, b.from) })
	m := newMeter(l, 0, events[0].from)
	full := times(l.Capacity(), m.unit)
	if lt.blocks {
		full = times(2*l.Capacity()+(l.Max+1)/2, m.unit)
	}
	for _, e := range events {
		m.leak(l, e.from)
		if m.level.Add(m.level, times(e.low, m.unit)); m.level.Cmp(full) > 0 {
			return fmt.Errorf("%s admitted %d up to %d, not counting refills", l, m.used(), e.from)
		}
	}
	return nil
}

// check verifies that the window with the given end, if it contains e, has no more units than the
// limit admits. For a fixed limit, it also checks the aligned window that contains that end.
func (lt *limitTruth) check(l *stint.Limit, e *event, end int64) error {
	sum := func(after, until int64) int64 {
		if !e.in(after, until) {
			return 0
		}
		return lt.sum(after, until, true)
	}
	window := l.Window.Microseconds()
	switch l.Algorithm {
	case stint.AlgorithmSliding:
		if n := sum(end-span(l), end); n > l.Capacity() {
			return fmt.Errorf("%s admitted %d up to %d, within %d", l, n, end, span(l))
		}
	case stint.AlgorithmBucket:
		if n := sum(end-window, end); end == e.from && n > l.Capacity()+lt.maxLimit+lt.forced {
			return fmt.Errorf("%s admitted %d up to %d in one window", l, n, end)
		}
	case stint.AlgorithmFixed:
		start := end - end%window
		if n := sum(start-1, start+window-1); n > l.Max {
			return fmt.Errorf("%s admitted %d in the window from %d", l, n, start)
		}
		if n := sum(end-window, end); n > 2*lt.maxLimit+lt.forced {
			return fmt.Errorf("%s admitted %d up to %d in one window", l, n, end)
		}
	}
	return nil
}

// justified reports whether the true log would deny a request of the given cost if events left the
// window up to maxLate too late. It also reports true for limits that the true log cannot judge.
func (lt *limitTruth) justified(l *stint.Limit, now, cost int64) bool {
	if lt.unsure || hasMeter(l) || l.Algorithm == stint.AlgorithmBucket || l.Algorithm == stint.AlgorithmConcurrency {
		return true // only the comparison with the reference checks such limits
	}
	if l.Capacity() == 0 {
		return true // such a limit denies even requests with cost 0
	}
	reach := span(l) + lt.maxLate
	if lt.sum(now-reach, now, false)+cost > l.Capacity() {
		return true
	}
	for _, end := range lt.events { // events that begin after now are bookings
		if end.from > now && end.from < now+reach && lt.sum(end.from-reach, end.from, false)+cost > l.Capacity() {
			return true
		}
	}
	return false
}

// full reports whether the true log has no room for the given cost in addition to all bookings, if
// events leave the window up to maxLate too late. It also reports true for limits that the true log
// cannot judge.
func (lt *limitTruth) full(l *stint.Limit, now, cost int64) bool {
	if lt.unsure || hasMeter(l) || l.Algorithm == stint.AlgorithmBucket {
		return true
	}
	return lt.sum(now-span(l)-lt.maxLate, math.MaxInt64, false)+cost > l.Capacity()
}

// hasBookings reports whether there are bookings after now, which a waiting request does not
// overtake.
func (lt *limitTruth) hasBookings(now int64) bool {
	return slices.ContainsFunc(lt.events, func(e event) bool { return e.booked && e.from > now })
}

// in reports whether part of the event may have happened in the period (after, until].
func (e *event) in(after, until int64) bool { return e.at > after && e.from <= until }

// sum returns the units in the period (after, until]: the fewest possible if least is set, else the
// most.
func (lt *limitTruth) sum(after, until int64, least bool) int64 {
	var n int64
	for i := range lt.events {
		e := &lt.events[i]
		switch {
		case !e.in(after, until):
		case least:
			n += e.low
		default:
			n += e.high
		}
	}
	return n
}

func (lt *limitTruth) String() string {
	s := "events"
	for _, e := range lt.events {
		if s += fmt.Sprintf(" %d×%d", e.at, e.high); e.from < e.at {
			s += fmt.Sprintf(" from %d", e.from)
		}
	}
	return s
}
