package simulate

import (
	"math/bits"
	"sort"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// meter finds the smallest maximum L at which a limit with a burst denies nothing. If the limit has
// the window W and a burst of b times L, its bucket has room for all charges if the following holds
// for any two of them: the units charged from the first to the second, including both, are at most
// L·(b + the time between them / W).
//
// So L is W times the steepest slope from a point (time of a charge, units charged before it) to a
// later point (time + b·W, units charged including it). Only points on the lower convex hull can be
// the start of the steepest slope, so the meter keeps only those.
type meter struct {
	sum  int64 // units charged
	hull []point
}

// point is a time in microseconds and the units charged before it.
type point struct{ at, units int64 }

// add adds a charge, which must not be earlier than the last one. It returns the smallest maximum
// that has room for the charge if all earlier charges were admitted.
func (m *meter) add(at, units, window, burst int64) int64 {
	p := point{at, m.sum}
	n := len(m.hull)
	if n == 0 || m.hull[n-1].at < at { // otherwise keep the last point: it has the same time, and is lower
		for ; n >= 2 && !steeper(m.hull[n-1], p, m.hull[n-2], m.hull[n-1]); n-- {
		}
		m.hull = append(m.hull[:n], p)
	}
	m.sum += units
	end := point{at + burst*window, m.sum}
	// Along the hull, the slope of the line to the later point first increases and then decreases.
	steepest := sort.Search(len(m.hull)-1, func(i int) bool { return !steeper(m.hull[i+1], end, m.hull[i], end) })
	needed := rise(m.hull[steepest], end, window)
	if m.sum > stint.MaxUnits {
		*m = meter{} // this never happens in practice; starting over avoids an overflow
	}
	return needed
}

// bucket returns a count whose meter holds all charges. If last is not 0, it is the cost of the
// latest charge, and the meter leaves that charge out. The points on the hull are enough to compute
// the level of the meter.
func (m *meter) bucket(p *algorithm.Params, last int64) *algorithm.Count {
	c := new(algorithm.Count)
	var v algorithm.View
	for i := range m.hull {
		until := m.sum - last
		if i+1 < len(m.hull) {
			until = m.hull[i+1].units
		}
		if units := until - m.hull[i].units; units > 0 {
			v.Open(c, p, m.hull[i].at, 0)
			v.Charge(units)
		}
	}
	return c
}

// amend changes the units of the last charge by the given number, which may be negative.
func (m *meter) amend(by int64) { m.sum = max(m.sum+by, 0) }

// steeper reports whether the line from a to b is steeper than the line from c to d. Both lines
// must lead upward and to the right.
func steeper(a, b, c, d point) bool {
	hi, lo := bits.Mul64(uint64(b.units-a.units), uint64(d.at-c.at))
	hi2, lo2 := bits.Mul64(uint64(d.units-c.units), uint64(b.at-a.at))
	return hi > hi2 || hi == hi2 && lo > lo2
}

// rise returns how far the line from a to b rises within the given time, rounded up, but at most
// largestMax.
func rise(a, b point, time int64) int64 {
	hi, lo := bits.Mul64(uint64(b.units-a.units), uint64(time))
	if hi >= uint64(b.at-a.at) {
		return largestMax
	}
	quotient, remainder := bits.Div64(hi, lo, uint64(b.at-a.at))
	if remainder > 0 {
		quotient++
	}
	return int64(min(quotient, uint64(largestMax)))
}
