package resilience

import (
	"math/bits"
	"time"

	"github.com/stint-limiter/stint"
)

// meter is the level of a limit that refills, in weights as defined in docs/rules.md. stored is the
// level in the store, for all processes. local is the weight of those units granted to this process
// that the store has not counted. The processes divide up the capacity that stored leaves free. A
// refill lowers stored first. If stored reaches 0, each process lowers its local by its share of
// the rest of the refill.
type meter struct {
	stored, local int64
	// raised is the weight by which answers have raised stored. A part of it may be due to charges
	// of this process that are not answered yet.
	raised int64
	at     int64
}

// leak lowers a meter by the weight that is refilled between its last update and t.
func (c *count) leak(m *meter, t int64) {
	ticks, instances := c.ticks(t)-c.ticks(m.at), c.ledger.instances()
	if ticks <= 0 {
		return
	}
	gone := c.given(time.Duration(ticks*c.tick) * time.Microsecond)
	stored := min(gone, m.stored)
	local := min((gone-stored)/instances, m.local)
	m.stored, m.local = m.stored-stored, m.local-local
	m.raised = min(m.raised, m.stored)
	if instances == 1 || m.local == 0 {
		m.at = t
	} else { // advance only by the time that this refill took, so that no fraction is lost
		m.at = c.after(m.at, stored+local*instances)
	}
}

// given returns the weight that a limit refills during d.
func (c *count) given(d time.Duration) int64 {
	high, low := bits.Mul64(uint64(d.Microseconds()/c.tick), uint64(c.rate))
	if high > 0 || low > uint64(stint.MaxUnits) {
		return stint.MaxUnits
	}
	return int64(low)
}

// after returns the time at which the given weight has been refilled, if the refill begins at t.
func (c *count) after(t, weight int64) int64 {
	ticks := min(ceilDiv(weight, c.rate), int64(maxAhead)/int64(time.Microsecond)/c.tick)
	return (c.ticks(t) + ticks) * c.tick * int64(time.Microsecond)
}

func (c *count) ticks(t int64) int64 { return t / (c.tick * int64(time.Microsecond)) }

// weight returns the weight of units, at most MaxUnits.
func (c *count) weight(units int64) int64 { return min(units, stint.MaxUnits/c.unit) * c.unit }

// metered returns the meter, updated to now. It creates the meter if there is none.
func (c *count) metered(now int64) *meter {
	if c.meter == nil {
		c.meter = &meter{at: now}
	}
	c.leak(c.meter, now)
	return c.meter
}

// meterLeft returns how many units of the meter this process may take at t.
func (c *count) meterLeft(t int64) int64 {
	var m meter
	instances := c.ledger.instances()
	if c.meter != nil {
		m = *c.meter
		c.leak(&m, t)
	}
	if instances == 1 {
		return c.capacity - ceilDiv(m.stored+m.local, c.unit)
	}
	return ceilDiv(c.capacity-ceilDiv(m.stored, c.unit), instances) - ceilDiv(m.local, c.unit)
}

// meterFits returns the earliest time at which the meter has room for cost units, if no units are
// granted or given back before then.
func (c *count) meterFits(cost int64) int64 {
	m, instances := c.meter, c.ledger.instances()
	// This process's share covers the cost if the level in the store is at most `stored` units.
	stored := c.capacity - instances*(cost+ceilDiv(m.local, c.unit)-1) - 1
	if instances == 1 {
		return c.after(m.at, m.stored+m.local-(c.capacity-cost)*c.unit)
	}
	if stored >= 0 {
		return c.after(m.at, m.stored-stored*c.unit)
	}
	return c.after(m.at, m.stored+max(m.local-(ceilDiv(c.capacity, instances)-cost)*c.unit, 0)*instances)
}

// fill adds units to the meter, if there is one. stored reports whether the store has counted them.
func (c *count) fill(units, now int64, stored bool) {
	if c.unit == 0 {
		return
	}
	m := c.metered(now)
	level := &m.local
	if stored {
		level = &m.stored
	}
	*level = min(*level+c.weight(units), stint.MaxUnits/2)
}

// fillOverruled adds units to the meter, if there is one, for a charge that is about to be
// refunded; see overrule. Like an answer of the store, it also increases raised.
func (c *count) fillOverruled(units, now int64) {
	if c.fill(units, now, true); c.unit > 0 {
		c.meter.raised = min(c.meter.raised+c.weight(units), c.meter.stored)
	}
}

// drain subtracts units from the meter, if there is one, because they are given back. at is the
// time of their charge: units that have been refilled since are not subtracted. stored reports
// whether the store has counted the units.
func (c *count) drain(units, at, now int64, stored bool) {
	if c.unit == 0 {
		return
	}
	m, since := c.metered(now), c.given(time.Duration(max(now-at, 0)))
	if stored {
		c.lower(m, max(c.weight(units)-since, 0), now)
	} else {
		m.local -= min(max(c.weight(units)-since/c.ledger.instances(), 0), m.local)
	}
}

// lower subtracts the given weight from m.stored, but leaves at least the weight of bookings,
// because booked units are not refilled before the booked time.
func (c *count) lower(m *meter, weight, now int64) {
	least := int64(0)
	if booked := c.others.bookedUntil - c.bookedFor(); booked > now && c.others.booked > 0 {
		least = c.weight(c.others.booked) + c.given(time.Duration(booked-now))
	}
	m.stored = max(m.stored-weight, min(m.stored, least))
	m.raised = min(m.raised, m.stored)
}

// unraise subtracts units from the meter, if there is one, because the store has given them back.
// at is the time of their charge: units that have been refilled since are not subtracted. unraise
// subtracts at most the weight by which answers of the store have raised the meter.
func (c *count) unraise(units, at, now int64) {
	if c.unit > 0 {
		m := c.metered(now)
		weight := min(max(c.weight(units)-c.given(time.Duration(max(now-at, 0))), 0), m.raised)
		m.raised -= weight
		c.lower(m, weight, now)
	}
}

// hearMeter records the usage that the store reports for a limit that refills. It has the
// parameters of [count.hear].
func (c *count) hearMeter(u *stint.Usage, cost, uncounted, at int64, call uint64, now int64) {
	m := c.metered(now)
	// The level is the weight that is refilled until the reset, unless the log takes longer to
	// empty.
	ahead := min(u.ResetAfter, maxAhead) + time.Duration(c.tick)*time.Microsecond - 1
	stored := c.given(ahead)
	if c.Algorithm != stint.AlgorithmBucket {
		stored = min(stored, c.weight(u.Used))
	}
	// Answers with the same time may arrive in any order. The highest level counts all charges.
	if at == c.heard.at {
		stored = max(stored, m.stored)
	}
	stored = max(stored-c.weight(cost), 0)
	if c.Algorithm == stint.AlgorithmSliding && c.ledger.instances() == 1 && u.Used-cost <= c.mineAt(now)-uncounted {
		stored = min(stored, m.stored) // grants to this process explain all of the usage
	}
	// The answer does not count later charges. repaid has moved them to stored: move them back.
	if c.owed != nil {
		_, after := c.owed.after(at, call, now, now)
		m.local += after
	}
	m.local = min(m.local, c.weight(uncounted))
	if raised := stored - m.stored; raised > 0 || at == c.heard.at {
		m.raised = max(m.raised+raised, 0)
	}
	m.raised = min(m.raised, stored)
	m.stored = stored
}

// hearBooked raises the meter, if necessary, so that when a booking is due, the meter will have
// refilled to the level that the store reports for that instant. Others may have used units that
// this process does not know about.
func (c *count) hearBooked(u *stint.Usage, ahead time.Duration, now int64) {
	if c.unit == 0 || c.Algorithm == stint.AlgorithmSliding && c.ledger.instances() == 1 {
		return
	}
	m, level := c.metered(now), c.given(min(u.ResetAfter, maxAhead))
	if c.Algorithm != stint.AlgorithmBucket {
		level = min(level, c.weight(u.Used))
	}
	if more := level + c.given(ahead) - m.stored; more > 0 {
		m.stored, m.raised = m.stored+more, m.raised+more
	}
}

// convert converts the meter to the weights of another rule for the limit.
func (m *meter) convert(old, next *rule) {
	for _, level := range []*int64{&m.stored, &m.local} {
		*level = min(ceilDiv(*level, old.unit), stint.MaxUnits/2/next.unit) * next.unit
	}
	m.raised = 0
}
