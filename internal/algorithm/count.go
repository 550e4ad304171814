package algorithm

import "slices"

// Count holds the usage of one limit. The zero Count has no usage.
type Count struct {
	log
	more *more
}

// more is the part of a count that most counts do not need.
type more struct {
	meter
	bookings
	held held
}

// Booked reports whether the count has bookings.
func (c *Count) Booked() bool { return c.more != nil && len(c.more.list) > 0 }

func (c *Count) extra() *more {
	if c.more == nil {
		c.more = new(more)
	}
	return c.more
}

func (c *Count) tidy() {
	if c.more == nil || len(c.more.list) > 0 || len(c.more.held.units) > 0 {
		return
	}
	c.more.list, c.more.held.units = nil, nil
	if c.more.unit == 0 {
		c.more = nil
	}
}

// StepBack makes the times of the count earlier by the duration `back`, after the clock has stepped
// back to now. The ends of calendar periods do not move.
func (c *Count) StepBack(back, now int64) {
	if c.calendar {
		return
	}
	c.shift(back)
	if c.more != nil {
		c.more.shift(back)
		c.more.at = min(c.more.at, now)
	}
}

// Clone returns a deep copy with room for one more booking.
func (c *Count) Clone() *Count {
	d := *c
	d.words = append([]uint64(nil), c.words...)
	if c.more != nil {
		m := *c.more
		m.list = append(make([]booking, 0, len(m.list)+1), m.list...)
		m.held.units = slices.Clone(m.held.units)
		d.more = &m
	}
	return &d
}

// CopyMeter copies the meter of another count to c, if that count has one.
func (c *Count) CopyMeter(from *Count) {
	if from.more != nil {
		c.extra().meter = from.more.meter
	}
}

// Bytes returns the number of bytes that the count uses in addition to its struct.
func (c *Count) Bytes() int {
	n := 8 * cap(c.words)
	if c.more != nil {
		n += 96 + 24*cap(c.more.list) + 16*cap(c.more.held.units)
	}
	return n
}

// Dead reports whether the count can be forgotten without changing any later answer. The last write
// of the count must have used p, and must not be later than now.
func (c *Count) Dead(p *Params, now int64) bool {
	if p.Places {
		return c.Vacant(now) && c.noRetake() < now
	}
	if c.n > 0 && c.newest()+p.Span >= now {
		return false
	}
	if p.calendar != nil && (c.more != nil || c.n > 0 && c.newest() > p.calendar.Around(now).Last) {
		return false // the count may determine the current period; see periods
	}
	if c.more == nil {
		return true
	}
	if h := c.more.held.units; len(h) > 0 {
		until := h[len(h)-1].until
		if c.more.held.charges {
			until = p.stamp(until) + p.Span
		}
		if until >= now {
			return false
		}
	}
	if end := lastEnd(c.more.list); end > 0 && p.stamp(end)+p.Span >= now {
		return false
	}
	if (!p.log || p.unit == 0) && now <= c.more.until {
		return false
	}
	var v View
	v.Open(c, p, now, 0)
	return v.meter.level == 0
}
