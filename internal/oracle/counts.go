package oracle

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// counts is the stored data of a limit that counts over time: a log, a meter or both, along with
// bookings and held units.
type counts struct {
	entries []entry
	booked  []booking
	held    []entry     // at is the expiry of an entry's units
	charges bool        // whether held units are charged when they expire
	books   bool        // whether the request is a reservation; see method goes
	meter   *meter      // nil if the limit has no meter yet
	limit   stint.Limit // limit under which the counts were last written; see [Store.Idle]
	ends    []int64     // ends of a calendar limit's periods; see openCalendar
}

// entry is n units in a log. at is their stamp.
type entry struct{ at, n int64 }

// booking is n units that may be used between the instants from and until, called T and E in
// docs/rules.md.
type booking struct{ from, until, n int64 }

func hasLog(l *stint.Limit) bool { return l.Algorithm != stint.AlgorithmBucket }

func hasMeter(l *stint.Limit) bool {
	return l.Max > 0 && (l.Algorithm == stint.AlgorithmBucket ||
		l.Algorithm == stint.AlgorithmSliding && l.Capacity() > l.Max)
}

// isOff reports whether the limit is a bucket that never refills. The state of such a limit does
// not change.
func isOff(l *stint.Limit) bool { return !hasLog(l) && !hasMeter(l) }

func (k *counts) clone() *counts {
	c := &counts{entries: slices.Clone(k.entries), booked: slices.Clone(k.booked), held: slices.Clone(k.held),
		charges: k.charges, books: k.books, limit: k.limit, ends: k.ends}
	if k.meter != nil {
		c.meter = k.meter.clone()
	}
	return c
}

func (k *counts) open(l *stint.Limit, now int64) {
	if isOff(l) {
		return
	}
	if l.Algorithm == stint.AlgorithmCalendar {
		k.openCalendar(l, now)
	}
	var due []booking
	for len(k.booked) > 0 && k.booked[0].from <= now {
		due, k.booked = append(due, k.booked[0]), k.booked[1:]
	}
	if hasMeter(l) && k.meter != nil {
		k.meter.open(l, due, now)
	}
	if hasLog(l) {
		k.entries = slices.DeleteFunc(k.entries, func(e entry) bool { return e.at <= now-span(l) && e.n > 0 })
		for _, b := range due {
			if k.stamp(l, b.until) > now-span(l) {
				k.append(k.stamp(l, b.until), b.n)
			}
		}
		k.openHeld(l, now)
	}
	if hasMeter(l) && k.meter == nil {
		k.meter = newMeter(l, sum(k.entries), now)
	}
}

func (k *counts) bookings() []booking { return k.booked }

// used, reset, asOf and earliest return the larger of the results for the log and for the meter.

func (k *counts) used(l *stint.Limit) int64 {
	if isOff(l) {
		return 0
	}
	var of int64
	if hasLog(l) {
		of = sum(k.entries)
	}
	if hasMeter(l) {
		of = max(of, k.meter.used())
	}
	if hasLog(l) {
		of = min(of+sum(k.held), most)
	}
	for _, b := range k.booked {
		of = min(of+b.n, most)
	}
	return of
}

func (k *counts) reset(l *stint.Limit, now int64) int64 {
	end := now
	if hasLog(l) {
		end = max(end, k.logEnd(l, k.entries, k.booked))
	}
	if hasMeter(l) {
		end = max(end, k.meter.through(l, k.booked, now).emptyAt(l))
	}
	return min(end, most) - now
}

func (k *counts) asOf(l *stint.Limit, at int64) (used, reset int64) {
	booked := slices.DeleteFunc(slices.Clone(k.booked), func(b booking) bool { return b.from > at })
	end := at
	if hasLog(l) {
		used = k.amount(l, at)
		end = max(end, k.logEnd(l, k.entries, booked))
	}
	if hasMeter(l) {
		m := k.meter.through(l, booked, at)
		used = max(used, m.used())
		end = max(end, m.emptyAt(l))
	}
	return used, min(end, most) - at
}

func (k *counts) fits(l *stint.Limit, now, cost int64) bool {
	if l.Capacity() == 0 || cost > l.Capacity() {
		return false
	}
	return (!hasLog(l) || k.logFits(l, now, cost)) && (!hasMeter(l) || k.meter.fits(l, k.booked, cost))
}

// earliest requires that `from` is not before the last booking.
func (k *counts) earliest(l *stint.Limit, from, cost int64) int64 {
	if l.Capacity() == 0 || cost > l.Capacity() {
		return never
	}
	at := from
	if hasLog(l) {
		at = max(at, k.logEarliest(l, from, cost))
	}
	if hasMeter(l) {
		at = max(at, k.meter.through(l, k.booked, from).earliest(l, cost))
	}
	if at > most {
		return never
	}
	return at
}

// lease charges a cost. A log counts it as if it were charged at the instant `until`, which is now
// or the end of a lease.
func (k *counts) lease(l *stint.Limit, until, cost int64) {
	if hasLog(l) {
		k.append(k.stamp(l, until), cost)
	}
	if hasMeter(l) {
		k.meter.add(cost)
	}
}

// book adds a booking, in the order in which bookings begin. If the booking before it has the same
// beginning and end, book adds the units to that one instead.
func (k *counts) book(from, until, cost int64) {
	i := 0
	for i < len(k.booked) && k.booked[i].from <= from {
		i++
	}
	if i > 0 && k.booked[i-1].from == from && k.booked[i-1].until == until {
		k.booked[i-1].n += cost
		return
	}
	k.booked = slices.Insert(k.booked, i, booking{from, until, cost})
}

// force charges a cost if the instant `at` is now, and books it otherwise. It reduces the cost if
// the usage would otherwise exceed 2^52. A log counts a cost charged now as if it were charged at
// the instant `until`. For a meter, force subtracts from the cost what the meter gives back in
// `refilled` microseconds.
func (k *counts) force(l *stint.Limit, now, at, until, cost, refilled int64) {
	cost = max(0, min(cost, most/2-k.used(l)))
	switch {
	case cost == 0 || isOff(l):
	case at == now:
		if hasLog(l) && k.stamp(l, until) > now-span(l) {
			k.append(k.stamp(l, until), cost)
		}
		if hasMeter(l) {
			k.meter.addLate(l, cost, refilled)
		}
	default:
		k.insert(at, until, cost)
	}
}

// insert adds a booking. The booking ends at the instant `until` or, if a later booking ends before
// that, at the end of that booking. If there are already 1,000 bookings, insert adds the units to
// the last one instead.
func (k *counts) insert(at, until, cost int64) {
	if n := len(k.booked); n >= driver.MaxBookings {
		k.booked[n-1].n += cost
		return
	}
	for _, b := range k.booked {
		if b.from > at {
			until = min(until, b.until)
		}
	}
	k.book(at, until, cost)
}

// unbook subtracts a cost from the booking that ends at the instant `until`. It returns the instant
// at which the booking begins, or never if there is no such booking.
func (k *counts) unbook(until, cost int64) int64 {
	i := slices.IndexFunc(k.booked, func(b booking) bool { return b.until == until })
	if i < 0 {
		return never
	}
	from := k.booked[i].from
	k.change(i, -cost)
	return from
}

// change adds the given number of units, which may be negative, to booking i. It removes the
// booking if no units are left.
func (k *counts) change(i int, by int64) {
	if k.booked[i].n += by; k.booked[i].n <= 0 {
		k.booked = slices.Delete(k.booked, i, i+1)
	}
}

func (k *counts) settle(l *stint.Limit, now int64, c settlement) (charged int64, applied bool) {
	if isOff(l) {
		return 0, false
	}
	by := c.trueCost - c.cost
	if by > 0 {
		by = min(by, k.mostRaise(l, c.maxDebt))
	}
	if c.known && k.settleFound(l, now, c, by) {
		return c.cost + by, true
	}
	return 0, false
}

// settleFound adds the given number of units, which may be negative, to the charge c. It reports
// whether it found the charge.
func (k *counts) settleFound(l *stint.Limit, now int64, c settlement, by int64) bool {
	if c.at > now {
		if i := slices.IndexFunc(k.booked, func(b booking) bool { return b.until == c.at }); i >= 0 {
			k.change(i, by)
			return true
		}
	}
	if !hasLog(l) {
		return k.meter.settle(l, now, c, by)
	}
	i := k.entryOf(l, now, c.at)
	if i < 0 {
		return false
	}
	by = max(by, -k.entries[i].n)
	if k.entries[i].n += by; k.entries[i].n == 0 {
		k.entries = slices.Delete(k.entries, i, i+1)
	}
	if hasMeter(l) {
		k.meter.add(by)
	}
	return true
}

// entryOf returns the index of the entry with the units charged at the instant `at`, or -1 if the
// window has no such entry.
func (k *counts) entryOf(l *stint.Limit, now, at int64) int {
	if k.stamp(l, at) <= now-span(l) {
		return -1
	}
	return slices.IndexFunc(k.entries, func(e entry) bool { return e.at == k.stamp(l, at) && e.n > 0 })
}

// mostRaise returns the maximum number of units by which a settlement may raise a charge. With a
// meter, it is at most the units that fit plus maxDebt, or plus the capacity if maxDebt is 0. No
// sum may exceed 2^53.
func (k *counts) mostRaise(l *stint.Limit, maxDebt int64) int64 {
	ahead, by := sum(k.held), most
	for _, b := range k.booked {
		ahead += b.n
	}
	if hasLog(l) {
		by = most - sum(k.entries) - ahead
	}
	if hasMeter(l) {
		by = min(by, max(0, l.Capacity()-k.used(l))+cmp.Or(maxDebt, l.Capacity()))
		by = min(by, k.meter.room()-ahead)
	}
	return max(0, by)
}

func (k *counts) giveBack(l *stint.Limit, now, units int64) bool {
	given := false
	if hasLog(l) {
		left, rest := units, []entry(nil)
		for _, e := range k.entries {
			if had := e.n; e.at <= k.stamp(l, now) && had > 0 {
				n := min(e.n, left)
				left, e.n, given = left-n, e.n-n, true
				if e.n == 0 {
					continue
				}
			}
			rest = append(rest, e)
		}
		k.entries = rest
	}
	if hasMeter(l) && k.meter.level.Sign() > 0 {
		k.meter.add(-units)
		given = true
	}
	return given
}

func (k *counts) show(l *stint.Limit) (entries []driver.Entry) {
	if !hasLog(l) {
		return nil // a bucket does not store the times of charges
	}
	for _, e := range k.entries {
		at := e.at
		switch {
		case e.n == 0:
			continue // the entry only stores when the current period began
		case l.Algorithm == stint.AlgorithmCalendar:
			if at = k.ends[0]; e.at > k.ends[1] {
				at = k.ends[1]
			}
		case l.Algorithm == stint.AlgorithmFixed:
			at -= l.Window.Microseconds()
		}
		entries = append(entries, driver.Entry{At: contract.Instant(at), Until: contract.Instant(e.at + span(l)), Units: e.n})
	}
	for _, b := range k.booked {
		entries = append(entries, driver.Entry{
			At: contract.Instant(b.from), Until: contract.Instant(k.stamp(l, b.until) + span(l)), Units: b.n})
	}
	return entries
}
