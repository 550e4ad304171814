package oracle

import (
	"math/big"

	"github.com/stint-limiter/stint"
)

// meter is the meter of a bucket or of a burst: a level that falls over time. Levels and weights
// are big.Int, so that no product can overflow.
type meter struct {
	level *big.Int
	at    int64
	unit  int64
	limit stint.Limit // limit under which the meter was last opened; see Idle
}

// scale defines the weights in a limit's meter. The weight of one unit of cost is `unit`. The meter
// gives back the weight `rate` every `tick` microseconds.
type scale struct{ unit, rate, tick int64 }

func scaleOf(l *stint.Limit) scale {
	for _, tick := range []int64{1, 1_000, 1_000_000} {
		window := l.Window.Microseconds()
		if window%tick != 0 {
			break
		}
		gcd := new(big.Int).GCD(nil, nil, big.NewInt(window/tick), big.NewInt(l.Max)).Int64()
		s := scale{window / tick / gcd, l.Max / gcd, tick}
		if times(l.Capacity(), s.unit).Cmp(big.NewInt(most)) <= 0 {
			return s
		}
	}
	panic("oracle: a limit that Validate refuses: " + l.String())
}

func times(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// ceil returns ⌈a / b⌉ for a ≥ 0, b > 0.
func ceil(a *big.Int, b int64) int64 {
	q, r := new(big.Int).QuoRem(a, big.NewInt(b), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

func newMeter(l *stint.Limit, units, now int64) *meter {
	unit := scaleOf(l).unit
	return &meter{level: times(min(units, most/unit), unit), at: now, unit: unit, limit: *l}
}

func (m *meter) clone() *meter {
	c := *m
	c.level = new(big.Int).Set(m.level)
	return &c
}

func (m *meter) open(l *stint.Limit, due []booking, now int64) {
	if unit := scaleOf(l).unit; unit != m.unit {
		m.level = times(min(ceil(m.level, m.unit), most/unit), unit)
		m.unit = unit
	}
	m.limit = *l
	*m = *m.through(l, due, now)
}

// leak advances the meter to t, unless t is before m.at because the clock stepped back.
func (m *meter) leak(l *stint.Limit, t int64) {
	if t <= m.at {
		return
	}
	s := scaleOf(l)
	m.level.Sub(m.level, times(t/s.tick-m.at/s.tick, s.rate))
	if m.level.Sign() < 0 {
		m.level.SetInt64(0)
	}
	m.at = t
}

// add adds units, which may be negative. The level stays between 0 and 2^53.
func (m *meter) add(units int64) {
	m.level.Add(m.level, times(units, m.unit))
	if m.level.Sign() < 0 {
		m.level.SetInt64(0)
	}
	if m.level.Cmp(big.NewInt(most)) > 0 {
		m.level.SetInt64(most)
	}
}

// addLate adds units, less the weight that the meter gives back in `refilled` microseconds.
func (m *meter) addLate(l *stint.Limit, units, refilled int64) {
	s := scaleOf(l)
	weight := times(min(units, most/s.unit), s.unit)
	if weight.Sub(weight, times(refilled/s.tick, s.rate)); weight.Sign() < 0 {
		return
	}
	m.level.Add(m.level, weight)
	m.add(0)
}

// through returns a copy of the meter with all bookings charged at their instants. If t is later,
// the copy is advanced to t.
func (m *meter) through(l *stint.Limit, booked []booking, t int64) *meter {
	c := m.clone()
	for _, b := range booked {
		c.leak(l, b.from)
		c.add(b.n)
	}
	if t > c.at {
		c.leak(l, t)
	}
	return c
}

func (m *meter) used() int64 { return ceil(m.level, m.unit) }

// below returns the first instant, at or after m.at, at which the level has fallen by the given
// weight.
func (m *meter) below(l *stint.Limit, weight *big.Int) int64 {
	if weight.Sign() <= 0 {
		return m.at
	}
	s := scaleOf(l)
	return (m.at/s.tick + ceil(weight, s.rate)) * s.tick
}

func (m *meter) emptyAt(l *stint.Limit) int64 { return m.below(l, m.level) }

func (m *meter) earliest(l *stint.Limit, cost int64) int64 {
	excess := new(big.Int).Add(m.level, times(cost, m.unit))
	return m.below(l, excess.Sub(excess, times(l.Capacity(), m.unit)))
}

// fits reports whether the level would be within the capacity now and at every booking if the given
// cost were added.
func (m *meter) fits(l *stint.Limit, booked []booking, cost int64) bool {
	full, c := times(l.Capacity(), m.unit), m.clone()
	if c.level.Add(c.level, times(cost, m.unit)); c.level.Cmp(full) > 0 {
		return false
	}
	for _, b := range booked {
		if c.leak(l, b.from); c.level.Sign() == 0 {
			break
		}
		if c.level.Add(c.level, times(b.n, m.unit)); c.level.Cmp(full) > 0 {
			return false
		}
	}
	return true
}

// settle adds the given number of units, which may be negative, to a bucket's charge, unless the
// bucket has refilled the whole charge. It reports whether it changed the charge.
func (m *meter) settle(l *stint.Limit, now int64, c settlement, by int64) bool {
	s := scaleOf(l)
	refilled := times(max(0, now/s.tick-c.at/s.tick), s.rate)
	if refilled.Cmp(times(c.cost, s.unit)) >= 0 {
		return false
	}
	if by >= 0 {
		m.add(by)
		return true
	}
	back := times(-by, s.unit)
	if back.Sub(back, refilled); back.Sign() > 0 {
		m.level.Sub(m.level, back)
	}
	if m.level.Sign() < 0 {
		m.level.SetInt64(0)
	}
	return true
}

// room returns how many units can be added before the level exceeds 2^53.
func (m *meter) room() int64 {
	left := big.NewInt(most)
	return left.Sub(left, m.level).Quo(left, big.NewInt(m.unit)).Int64()
}
