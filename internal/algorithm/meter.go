package algorithm

// meter is the level of a bucket, or of a sliding limit with a burst. The level falls over time.
// The zero meter is empty and has never been written.
type meter struct {
	level int64 // weight, at most MaxUnits
	at    int64
	unit  int64 // weight of one unit of cost
	until int64 // when the meter is empty and charges on it can no longer be settled
}

// convert makes the meter count in the unit of p.
func (m *meter) convert(p *Params) {
	if m.unit != p.unit && m.level > 0 {
		m.level = min(ceil(m.level, m.unit), MaxUnits/p.unit) * p.unit
	}
	m.unit = p.unit
}

// leak advances the meter to t. It does nothing if t is not after m.at: after the clock stepped
// back, a due booking can be before m.at.
func (m *meter) leak(p *Params, t int64) {
	if t <= m.at {
		return
	}
	if m.level > 0 {
		m.level = max(m.level-p.given(m.at, t), 0)
	}
	m.at = t
}

// pass advances the meter to the time of a booking and adds the booking.
func (m *meter) pass(p *Params, b *booking) {
	m.leak(p, b.at)
	m.level = min(m.level+p.weight(b.n), MaxUnits)
}

// fallsTo returns the instant at which the meter has fallen to level.
func (m *meter) fallsTo(p *Params, level int64) int64 {
	if m.level <= level {
		return m.at
	}
	return p.ticks(m.at)*p.tick + p.wait(m.level-level)
}

// units returns the level in units, rounded up.
func (m *meter) units() int64 {
	if m.level == 0 {
		return 0
	}
	return ceil(m.level, m.unit)
}

// keep extends m.until for a charge at the instant `at`. The charge can be settled until a full
// meter would be empty or, if this meter is above full, until this meter is empty.
func (m *meter) keep(p *Params, at int64) {
	needs := p.refill
	if m.level > p.full {
		needs = p.wait(m.level)
	}
	m.until = max(m.until, at+needs+p.tick)
}
