package algorithm

import "github.com/stint-limiter/stint/driver"

// Charge adds a cost at now. There must be room for the cost, or it must be at most [View.Spare].
// Charge returns the number of bytes by which the count's log has grown.
func (v *View) Charge(cost int64) int { return v.Lease(v.now, cost) }

// Lease adds a cost that counts from now on. A log counts it as if it were charged at the instant
// `until`, which is not before now. Lease returns the growth of the log, like Charge.
func (v *View) Lease(until, cost int64) int {
	if v.p.unit > 0 {
		v.meter.level = min(v.meter.level+v.p.weight(cost), MaxUnits)
	}
	c := v.write()
	if !v.p.log || cost == 0 {
		return 0
	}
	before := cap(c.words)
	c.append(v.p, v.stamp(until), cost)
	v.inWindow += cost
	return 8 * (cap(c.words) - before)
}

// ChargeLate adds a cost that was used at the instant `at`, which is not after now. A log counts
// the cost as if it were charged then, unless that instant has left the window. A meter is charged
// now. Its charge is the weight of the cost minus the weight that the meter gives back in a period
// of `refilled` microseconds. The cost must be at most [View.Spare].
func (v *View) ChargeLate(at, cost, refilled int64) {
	p := v.p
	if p.unit > 0 {
		weight := p.weight(min(cost, MaxUnits/p.unit))
		v.meter.level = min(v.meter.level+max(weight-p.given(0, refilled), 0), MaxUnits)
	}
	c := v.write()
	if stamp := v.stamp(at); p.log && cost > 0 && stamp > v.now-p.Span {
		c.append(p, stamp, cost)
		v.inWindow += cost
	}
}

// Book adds a booking of a cost. The cost may be used between the instants `at` and `end`, which
// are in the future.
func (v *View) Book(at, end, cost int64) {
	m := v.write().extra()
	m.add(booking{at, end, cost})
	if v.p.unit > 0 {
		m.keep(v.p, end)
		v.meter.until = m.until
	}
	v.stored.tidy()
	v.Only(Never)
}

// Insert is like Book, but there may be later bookings. Insert makes the new booking end no later
// than these. If there are [driver.MaxBookings] already, Insert adds the cost to the last of them.
func (v *View) Insert(at, end, cost int64) {
	if v.p.void() {
		return
	}
	if n := len(v.ahead); n >= driver.MaxBookings {
		at, end = v.ahead[n-1].at, v.ahead[n-1].end
	}
	_, after := v.EndsAround(at)
	v.Book(at, min(end, after), cost)
}

// Unbook subtracts a cost from the booking that ends at end, if there is one.
func (v *View) Unbook(end, cost int64) {
	c := v.write()
	if c.more == nil {
		return
	}
	if i := find(c.more.list, end); i >= 0 {
		c.more.change(i, -cost)
	}
	v.stored.tidy()
	v.Only(Never)
}

// Settle replaces a cost that was charged at the instant `at` with the true cost. For a booking or
// a lease, `at` is its end. If the true cost is higher and the limit has a meter, Settle raises the
// cost by at most debt plus the units that fit. A debt of 0 means the capacity. Settle returns the
// cost that is charged afterwards, and whether it found the charge.
func (v *View) Settle(at, cost, truth, debt int64) (charged int64, found bool) {
	p, delta := v.p, truth-cost
	if p.void() {
		return 0, false
	}
	if delta > 0 {
		delta = min(delta, v.raise(debt))
	}
	if at > v.now {
		if i := find(v.ahead, at); i >= 0 {
			v.write().more.change(i, delta)
			v.stored.tidy()
			v.Only(Never)
			return cost + delta, true
		}
	}
	if p.log {
		return cost + delta, v.settleEntry(v.stamp(at), delta)
	}
	given := p.given(at, v.now)
	if given >= p.weight(cost) {
		return 0, false
	}
	if delta > 0 {
		v.meter.level += p.weight(delta)
	} else {
		v.lower(p.weight(-delta) - given)
	}
	v.write()
	return cost + delta, true
}

// Settleable returns an upper bound on the time for which a charge of the given cost can be settled
// after it was made.
func (v *View) Settleable(cost int64) int64 {
	switch {
	case v.p.log || v.p.Places:
		return 2 * v.p.Window
	case v.p.unit == 0:
		return 0
	}
	return v.p.wait(v.p.weight(cost)) + 2*v.p.tick
}

// raise returns the maximum number of units by which a charge can be raised, so that no sum or
// level exceeds MaxUnits. debt is as in Settle.
func (v *View) raise(debt int64) int64 {
	most, ahead := MaxUnits, v.booked+v.held.total
	if v.p.log {
		most -= v.inWindow + ahead
	}
	if v.p.unit > 0 {
		if debt == 0 {
			debt = v.p.Cap
		}
		most = min(most, max(v.p.Cap-v.Used(), 0)+debt, (MaxUnits-v.meter.level)/v.p.unit-ahead)
	}
	return max(most, 0)
}

// settleEntry changes the entry with the given stamp, and the meter, by delta units. It reports
// whether it found the entry.
func (v *View) settleEntry(stamp, delta int64) bool {
	k := v.count.find(stamp)
	if k < v.expired {
		return false
	}
	_, n := v.count.entry(k)
	delta = max(delta, -n)
	if delta > 0 {
		v.meter.level += v.p.weight(delta)
	} else {
		v.lower(v.p.weight(-delta))
	}
	k -= v.expired
	c := v.write()
	k += v.expired
	v.inWindow += delta
	if n+delta == 0 {
		c.remove(k)
		return true
	}
	c.set(k, stamp, n+delta)
	c.sum += delta
	return true
}

func (v *View) lower(weight int64) {
	v.meter.level -= min(v.meter.level, max(weight, 0))
}

// GiveBack subtracts up to the given number of units from the usage, but not from entries after the
// current slice. It takes the oldest entries of a log first. It reports whether there was any usage
// to subtract from.
func (v *View) GiveBack(units int64) bool {
	ahead, first, used := v.stamp(v.now), v.expired, false
	for ; first < int(v.count.n); first++ {
		// An entry without units marks the beginning of a period.
		if oldest, n := v.count.entry(first); n > 0 {
			used = oldest <= ahead
			break
		}
	}
	if !used && v.meter.level == 0 {
		return false
	}
	v.lower(v.p.weight(units))
	first -= v.expired
	c := v.write()
	first += v.expired
	for units > 0 && int(c.n) > first {
		stamp, n := c.entry(first)
		if stamp > ahead {
			break
		}
		taken := min(n, units)
		if taken == n {
			c.remove(first)
		} else {
			c.set(first, stamp, n-taken)
			c.sum -= taken
		}
		units -= taken
		v.inWindow -= taken
	}
	return true
}

// write stores the opened count, and returns it.
func (v *View) write() *Count {
	if v.count != v.stored || v.expired > 0 || v.p.unit > 0 || v.p.calendar != nil {
		v.commit()
	}
	return v.stored
}

func (v *View) commit() {
	c := v.stored
	if v.count != c {
		*c = *v.count
		v.count = c
		c.tidy()
	}
	v.dropExpired()
	c.calendar = v.p.calendar != nil
	if v.p.unit > 0 {
		v.meter.keep(v.p, v.now)
		c.extra().meter = v.meter
	}
}
