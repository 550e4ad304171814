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

// Truth is the log of what really happened: every admitted unit at its instant, never merged,
// rounded or dropped. A leased unit happens when its holder likes, and so does a booked one from
// its instant until its grace has passed, so they count in every window in which they might. Truth
// checks a store's decisions against what the algorithms promise in any window, knowing nothing of
// how they count.
//
// Feed it every decision, amendment and command in order, with the clock at which it was made.
// Where the rules give no promise it asks for none: across a step back of the clock, and of a meter
// across a change of its limit or a refund.
type Truth struct {
	// AnyDelay says that room may come back as late as the store likes.
	AnyDelay bool

	clock  int64
	limits map[limitKey]*limitTruth
}

// NewTruth returns a log of nothing.
func NewTruth() *Truth { return &Truth{limits: map[limitKey]*limitTruth{}} }

// limitTruth is the truth about one limit of one subject.
type limitTruth struct {
	events   []event
	metered  int   // number of the first event that its meter still bounds
	maxLimit int64 // largest Max that admitted anything
	maxLate  int64 // how late room may come back: one slice
	limit    stint.Limit
	unsure   bool  // how late is not known: the clock stepped back
	forced   int64 // units charged whether or not there was room
	ahead    bool  // there were leases or bookings
	blocks   bool  // a process may have taken blocks of it and returned them, unseen
}

// event is an admission: of a lease from when it was made to its end, of a booking from its instant
// to the end of its grace, of anything else at one instant. What a settlement made of it on one
// limit of several is not always known from outside; low and high bound it.
type event struct {
	id        uint64
	from, at  int64
	low, high int64
	booked    bool
	tentative bool // it is not used before its owner asks again
	astray    bool // at may no longer find it: the clock stepped back since, or units were taken off it
}

// Took records a decision made at now and checks it.
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
		r.Claims[0].Cost = 1 // where that much fits, it is not denied
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
			case d.Charge.Data().Leased != 0: // from memory: its block ends later
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
				continue // it stays where it was, and is nowhere if limits were reset since
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

// bookedStates says for each limit of a request that asks to move a booking up whether that was
// booked in the limit's state as it is now. Where the request costs nothing, nothing was booked.
func bookedStates(r *stint.Request, d *stint.Decision) (same []bool) {
	state := 0 // number of the claim's first
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

// is reports whether the event is a booking to come that ends at an instant.
func (e *event) is(now, at int64) bool { return e.booked && e.at == at && e.from > now && e.high > 0 }

// like reports whether an event is certain to have as many units as another.
func (e *event) like(other event) bool {
	return e.high == other.high && (e.low == other.low || e.tentative)
}

// hasCome reports whether a log has the booking that a request asks about, and it has come.
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

// takeOff notes that a booking which has come is decided on again: it has not been used. How much
// of it the store takes off is not known from outside. If that is not what was booked, others may
// be taken for it.
func (lt *limitTruth) takeOff(at, cost int64) {
	lt.metered = len(lt.events) // a meter may give back what it had refilled already
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

// fitted checks what was charged of a cost that may be lowered: if not all of it, then one unit
// more did not fit under some limit.
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
	if charge.Data().Hold > 0 { // see Took
		for c, l := range contract.Limits(charge.Claims()) {
			t.of(c, l).holds()
		}
		return
	}
	certain := len(charge.Claims()) == 1 && len(charge.Claims()[0].Limits) == 1
	for c, l := range contract.Limits(charge.Claims()) {
		truth, named := total(&a, l.Name)
		if c.CostOf(l) == 0 || !named {
			continue // it was not charged, or is not settled
		}
		lt := t.of(c, l)
		lt.settle(charge.Data().ID, truth, certain)
	}
}

// holds notes that units are held of the limit: from outside it is not known when they are used.
func (lt *limitTruth) holds() {
	lt.unsure, lt.metered = true, len(lt.events)
	lt.excuse(math.MaxInt64)
}

// settle bounds what a settlement made of an event. A charge from before a reset is unknown, one
// from before a step back of the clock is no longer where it was; if it applied all the same, it
// may have changed what others used since. A lease and bookings with one end may be taken for each
// other.
func (lt *limitTruth) settle(id uint64, cost int64, certain bool) {
	lt.metered = len(lt.events) // a meter may give back what it had refilled already
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

// giveUp takes a booking out that is asked to move up, or gives it the id of the answer if that
// left it where it was. It reports whether there is one: a booking that has come is none.
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
		for _, i := range found { // which one it was, or what is left of it, is not known
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

// GaveBack records that units were given back: of what had happened until now, or in the same
// slice, nobody can tell from outside which ones. What lies ahead has to stay.
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
	case l.Algorithm == stint.AlgorithmCalendar: // a period that began under another calendar may be as long again
		lt.maxLate = 2 * l.Window.Microseconds()
	case l.Algorithm == stint.AlgorithmSliding && l.Capacity() > stint.Resolution:
		lt.maxLate = (span(l) + stint.Resolution - 1) / stint.Resolution
	}
	// Under limits that change and with leases ahead, a log may have to merge what is not that
	// close.
	lt.unsure = lt.unsure || len(lt.events) > maxEntries && (lt.ahead || lt.limit != *l)
	if lt.limit.Max != l.Max || lt.limit.Burst != l.Burst {
		lt.metered = len(lt.events)
	}
	lt.limit = *l
	return lt
}

// tick notes the clock. When it steps back, windows overlap that did not.
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

// excuse takes events up to an instant out of what must not be exceeded: what is left of each
// nobody can tell.
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
	// A window that moves forward gains something only where an event begins, so those that end
	// there are enough.
	for _, other := range lt.events {
		if moved && other.from > e.from {
			continue // it was ahead of that before, and nearer
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

// force records an event that needs no room: nothing is promised of the windows that it is in but
// that nothing else is admitted there. Of several limits a booking may end sooner on one than on
// another, and none is forced above 2^52.
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

// checkMeter pours all events into a new meter. So in no stretch of time there are more than the
// capacity and what is refilled meanwhile. A meter counts units when they are charged.
//
// The units of a block are charged when it is taken, and used up to half a window later: so much
// more may be refilled. What is left of a block is returned, and then the meter falls by units that
// it may have refilled already. These are at most one capacity, which is what a log holds of blocks
// at once.
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
			return fmt.Errorf("%s admitted %d up to %d, refills left out", l, m.used(), e.from)
		}
	}
	return nil
}

// check holds the window that ends at an instant, and the aligned one around it, against the limit
// that an event was admitted under, if it is in there.
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

// justified reports whether the true log, its events at most a slice later than they were, would
// deny cost units at now.
func (lt *limitTruth) justified(l *stint.Limit, now, cost int64) bool {
	if lt.unsure || hasMeter(l) || l.Algorithm == stint.AlgorithmBucket || l.Algorithm == stint.AlgorithmConcurrency {
		return true // promises nothing that the equality of answers does not cover
	}
	reach := span(l) + lt.maxLate
	if lt.sum(now-reach, now, false)+cost > l.Capacity() {
		return true
	}
	for _, end := range lt.events { // those that begin later are booked
		if end.from > now && end.from < now+reach && lt.sum(end.from-reach, end.from, false)+cost > l.Capacity() {
			return true
		}
	}
	return false
}

// full reports whether the true log, its events at most a slice later than they were, has no room
// for cost units beside all that is booked.
func (lt *limitTruth) full(l *stint.Limit, now, cost int64) bool {
	if lt.unsure || hasMeter(l) || l.Algorithm == stint.AlgorithmBucket {
		return true
	}
	return lt.sum(now-span(l)-lt.maxLate, math.MaxInt64, false)+cost > l.Capacity()
}

// hasBookings reports whether something is booked ahead of now: nobody who waits overtakes that.
func (lt *limitTruth) hasBookings(now int64) bool {
	return slices.ContainsFunc(lt.events, func(e event) bool { return e.booked && e.from > now })
}

// in reports whether some of the event may have happened in (after, until].
func (e *event) in(after, until int64) bool { return e.at > after && e.from <= until }

// sum is what happened in (after, until], at least or at most.
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
