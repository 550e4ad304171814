package algorithm

import "github.com/stint-limiter/stint/internal/calendar"

// periods holds the ends of three periods of a calendar limit: the period in which its count was
// opened, the one before it, and the one after it.
type periods struct {
	calendar.Ends
	// noted reports whether a stored end, and not the calendar, determines when the current period
	// began. The log keeps that end as its first entry, without units, so that earlier charges do
	// not count in this period.
	noted bool
}

// openPeriods finds the periods around now. The stamps of the log's entries determine the ends of
// periods, for all processes. The calendar of this process is used only where there is no entry,
// because other processes may have different settings, time zone data or clocks.
func (v *View) openPeriods() {
	v.periods = periods{Ends: v.p.calendar.Around(v.now)}
	v.dropFarAhead()
	own := v.periods.Ends
	last, this, next := own.Last, int64(0), int64(0)
	for k := range int(v.count.n) {
		switch stamp, _ := v.count.entry(k); {
		case stamp <= v.now:
			last = max(last, stamp)
		case this == 0:
			this = stamp
		case next == 0:
			next = stamp
		}
	}
	v.periods.noted = last > own.Last
	v.periods.Last = last
	if this == 0 {
		return
	}
	v.periods.This = this
	switch {
	case next > 0:
		v.periods.Next = next
	case own.This > this:
		v.periods.Next = own.This
	case own.Next <= this:
		v.periods.Next = this + v.p.Window
	}
}

// dropFarAhead corrects a count that was written while the clock was far ahead. It makes units
// stamped more than two windows after now count only until the end of the current period, and drops
// bookings more than two windows after now.
func (v *View) dropFarAhead() {
	far := v.now + 2*v.p.Window
	c := v.count
	booked := c.more != nil && due(c.more.list, far) < len(c.more.list)
	if (c.n == 0 || c.newest() <= far) && !booked {
		return
	}
	c = c.Clone()
	for c.n > 0 && c.newest() > far {
		k := int(c.n) - 1
		_, n := c.entry(k)
		c.remove(k)
		c.append(v.p, v.periods.This, n)
	}
	if booked {
		for k := len(c.more.list) - 1; k >= due(c.more.list, far); k-- {
			c.more.change(k, -c.more.list[k].n)
		}
	}
	v.count = c
}

// begin returns the beginning of the period that ends at end.
func (p *periods) begin(end int64) int64 {
	if end <= p.This {
		return p.Last
	}
	return p.This
}

// stamp returns the stamp of a charge at t: the charge counts until its stamp plus the span.
func (v *View) stamp(t int64) int64 {
	if v.p.calendar == nil {
		return v.p.stamp(t)
	}
	switch e := &v.periods; {
	case t < e.Last:
		return e.Last
	case t < e.This:
		return e.This
	case t < e.Next:
		return e.Next
	default:
		return e.Next + v.p.Window
	}
}

// Horizon returns the first instant that cannot be booked, or Never. For a calendar limit, it is
// the end of the next period, because later ends are not known.
func (v *View) Horizon() int64 {
	if v.p.calendar == nil {
		return Never
	}
	return v.periods.Next
}

// dropExpired removes the entries that have left the window from the opened count.
func (v *View) dropExpired() {
	keep := 0
	if v.p.calendar != nil && v.periods.noted {
		// Keep the last expired entry, without its units: its stamp is the time at which the
		// current period begins.
		keep = 1
	}
	if v.expired == keep && v.expiredSum == 0 {
		return
	}
	c, units := v.count, v.expiredSum
	stamp, last := c.entry(v.expired - 1)
	if keep > 0 {
		units -= last
	}
	if c.dropOldest(v.expired-keep, units); keep > 0 {
		c.set(0, stamp, 0)
		c.sum -= last
	}
	v.expired, v.expiredSum = keep, 0
}
