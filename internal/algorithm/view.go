package algorithm

// View is a count opened at one instant. The zero View is not usable.
type View struct {
	count  *Count // the opened count: stored, or a changed copy of it
	stored *Count
	p      *Params
	now    int64

	expired    int   // number of the oldest entries, or holders, that no longer count
	expiredSum int64 // units of the expired entries
	inWindow   int64 // units of the other entries, or number of the other holders
	most       int64 // maximum of inWindow; -1 if nothing ever fits
	meter      meter // meter of the count, advanced to now
	ahead      []booking
	booked     int64   // total number of units in ahead
	held       held    // held units that have not expired
	books      bool    // whether queries are for a booking; see method goes
	periods    periods // set for a calendar limit
}

// Open opens a count under p at now: it computes the usage at now without writing the count. back
// is how far the clock has stepped back since the last write, or 0 if the count has already been
// moved back.
func (v *View) Open(c *Count, p *Params, now, back int64) {
	v.count, v.stored, v.p, v.now = c, c, p, now
	v.expired, v.expiredSum, v.inWindow, v.most = 0, 0, 0, p.most
	v.meter.level, v.meter.unit, v.meter.until = 0, 0, 0
	if v.ahead != nil { // only if necessary, because writing a pointer is expensive
		v.ahead, v.booked = nil, 0
	}
	if v.held.total > 0 {
		v.held = held{}
	}
	v.books = false
	if p.void() {
		if p.Places {
			v.openPlaces()
		}
		return
	}
	if back > 0 {
		c = c.Clone()
		c.StepBack(back, now)
		v.count = c
	}
	if p.calendar != nil {
		v.openPeriods()
		c = v.count
	}
	if c.more != nil {
		v.openMore()
		c = v.count
	}
	if c.n > 0 && c.oldest() <= now-p.Span {
		v.countExpired()
	}
	v.inWindow = c.sum - v.expiredSum
	if p.unit > 0 {
		v.openMeter()
	}
}

// openMeter advances the meter to now. If the count has no meter yet, its meter starts with the
// units in the log. The meter of a bucket, which has no log, starts empty.
func (v *View) openMeter() {
	p, m := v.p, &v.meter
	if m.unit == 0 {
		m.unit, m.level = p.unit, min(v.inWindow, MaxUnits/p.unit)*p.unit
	} else {
		m.leak(p, v.now)
	}
	m.at = v.now
}

// openMore opens the meter and the held units. It moves due bookings to the meter of the view, and
// to the log of a copy of the count.
func (v *View) openMore() {
	p, m := v.p, v.count.more
	if p.unit > 0 && m.unit > 0 {
		v.meter = m.meter
		v.meter.convert(p)
	}
	if n := due(m.list, v.now); n > 0 {
		if v.count == v.stored {
			v.count = v.stored.Clone()
			m = v.count.more
		}
		if v.count.n > 0 {
			v.countExpired()
			v.dropExpired()
		}
		for i := range m.list[:n] {
			b := &m.list[i]
			if v.meter.unit > 0 {
				v.meter.pass(p, b)
			}
			if stamp := v.stamp(b.end); p.log && stamp > v.now-p.Span {
				v.count.append(p, stamp, b.n)
			}
		}
		m.drop(n)
	}
	if len(m.list) > 0 {
		v.ahead, v.booked = m.list, m.sum
	}
	if len(m.held.units) > 0 && p.log {
		v.openHeld()
	}
}

func (v *View) countExpired() {
	for cut := v.now - v.p.Span; v.expired < int(v.count.n); v.expired++ {
		stamp, n := v.count.entry(v.expired)
		if stamp > cut {
			return
		}
		v.expiredSum += n
	}
}

// Used returns the usage now, including all bookings and held units.
func (v *View) Used() int64 {
	return min(max(v.inWindow, v.meter.units())+v.booked+v.held.total, MaxUnits)
}

// Spare returns the number of units that can be charged regardless of the capacity. It leaves half
// of MaxUnits for later charges and bookings.
func (v *View) Spare() int64 { return max(MaxUnits/2-v.Used(), 0) }

// Books makes later queries of the view apply to a booking. For a booking, held units count for
// longer, because they may be charged until they expire.
func (v *View) Books() { v.books = true }

// LastEnd returns the end of the last booking, or 0 if there is none.
func (v *View) LastEnd() int64 { return lastEnd(v.ahead) }

// EndsAround returns the last end of a booking at or before the instant `at`, or 0 if there is
// none, and the first end of a booking after that instant, or Never if there is none.
func (v *View) EndsAround(at int64) (before, after int64) {
	n := due(v.ahead, at)
	if n < len(v.ahead) {
		return lastEnd(v.ahead[:n]), v.ahead[n].end
	}
	return lastEnd(v.ahead), Never
}

// Bookings returns the number of bookings and the instant at which the last one begins, or 0 and 0
// if there are none.
func (v *View) Bookings() (n int, latest int64) {
	if n = len(v.ahead); n == 0 {
		return 0, 0
	}
	return n, v.ahead[n-1].at
}

// Reset returns the time until the usage is 0 if nothing else happens.
func (v *View) Reset() int64 {
	if !v.p.log || v.p.unit > 0 || v.booked > 0 || v.held.total > 0 {
		return v.moreReset()
	}
	if v.inWindow == 0 {
		return 0
	}
	return v.count.newest() + v.p.Span - v.now
}

// moreReset is Reset for a count with a meter, bookings, held units or places.
func (v *View) moreReset() (reset int64) {
	if v.p.Places {
		return v.placesReset()
	}
	if v.p.log && v.inWindow+v.booked > 0 {
		newest := int64(0)
		if v.inWindow > 0 {
			newest = v.count.newest()
		}
		if len(v.ahead) > 0 {
			newest = max(newest, v.stamp(lastEnd(v.ahead)))
		}
		reset = newest + v.p.Span - v.now
	}
	if h := v.held.units; len(h) > 0 {
		reset = max(reset, v.goes(&h[len(h)-1], false)-v.now)
	}
	if v.p.unit > 0 {
		m := v.meterAfter(len(v.ahead))
		reset = max(reset, m.fallsTo(v.p, 0)-v.now)
	}
	return min(reset, MaxUnits-v.now)
}

func (v *View) meterAfter(n int) meter {
	m := v.meter
	for i := range v.ahead[:n] {
		m.pass(v.p, &v.ahead[i])
	}
	return m
}

// At returns the usage at the future instant t, without bookings that end after t. It also returns
// the time from t until the usage is 0.
func (v *View) At(t int64) (used, reset int64) {
	if v.p.Places { // places cannot be booked
		return v.Used(), v.Reset()
	}
	n := due(v.ahead, t)
	if v.p.log {
		newest := int64(0)
		count := func(stamp, n int64) {
			if stamp > t-v.p.Span {
				used += n
				newest = max(newest, stamp)
			}
		}
		for k := v.expired; k < int(v.count.n); k++ {
			count(v.count.entry(k))
		}
		for _, b := range v.ahead[:n] {
			count(v.stamp(b.end), b.n)
		}
		if used > 0 {
			reset = newest + v.p.Span - t
		}
		for i := range v.held.units {
			u := &v.held.units[i]
			if v.stamp(u.until) > t-v.p.Span {
				used += u.n
			}
			reset = max(reset, v.goes(u, false)-t)
		}
	}
	if v.p.unit > 0 {
		m := v.meterAfter(n)
		m.leak(v.p, t)
		used = max(used, m.units())
		reset = max(reset, m.fallsTo(v.p, 0)-t)
	}
	return used, min(reset, MaxUnits-t)
}

// Each calls f for every entry in the window and every booking, with the time of the charge or
// booking, the time at which it leaves the window, and its units. The time of an entry of a fixed
// window or a calendar period is the start of that window or period. Meters have no entries; for
// places see [View.EachPlace].
func (v *View) Each(f func(at, until, n int64)) {
	if !v.p.log {
		return
	}
	for k := v.expired; k < int(v.count.n); k++ {
		stamp, n := v.count.entry(k)
		at := stamp
		switch {
		case v.p.calendar != nil:
			at = v.periods.begin(stamp)
		case v.p.Span == 0:
			at -= v.p.Slice
		}
		f(at, stamp+v.p.Span, n)
	}
	for _, b := range v.ahead {
		f(b.at, v.stamp(b.end)+v.p.Span, b.n)
	}
}
