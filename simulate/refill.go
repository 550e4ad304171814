package simulate

import (
	"math/bits"

	"github.com/stint-limiter/stint"
)

// refill finds the smallest maximum under which the meter of a burst denies nothing. The meter of a limit with a window W,
// a burst of b times and a maximum L has room for all charges if, for every two of them, what was charged from the one to
// the other is at most L·(b + the time between them / W). So L is the steepest slope from a point (instant of a charge,
// units charged before it) to a later point (instant + b·W, units charged), times W. The points from which it can be the steepest are
// the lower convex hull of all.
type refill struct {
	sum  int64 // units charged
	hull []reached
}

// reached is an instant in microseconds, and the units charged before it.
type reached struct{ at, units int64 }

// add counts a charge, not before the last, and returns the smallest maximum under which there is room for it, if all
// before it was admitted.
func (m *refill) add(at, units, window, burst int64) int64 {
	p := reached{at, m.sum}
	n := len(m.hull)
	if n == 0 || m.hull[n-1].at < at { // else the last is lower
		for ; n >= 2 && !steeper(m.hull[n-1], p, m.hull[n-2], m.hull[n-1]); n-- {
		}
		m.hull = append(m.hull[:n], p)
	}
	m.sum += units
	end := reached{at + burst*window, m.sum}
	low, high := 0, len(m.hull)-1
	for low < high {
		middle := (low + high) / 2
		if steeper(m.hull[middle+1], end, m.hull[middle], end) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	from := m.hull[low]
	most := slopeTimes(from, end, window)
	if m.sum > stint.MaxUnits {
		*m = refill{} // so much was never charged
	}
	return most
}

// amend changes the last charge by some units.
func (m *refill) amend(by int64) { m.sum = max(m.sum+by, 0) }

// steeper reports whether the line from a to b is steeper than that from c to d. All lead upwards to the right.
func steeper(a, b, c, d reached) bool {
	hi, lo := bits.Mul64(uint64(b.units-a.units), uint64(d.at-c.at))
	hi2, lo2 := bits.Mul64(uint64(d.units-c.units), uint64(b.at-a.at))
	return hi > hi2 || hi == hi2 && lo > lo2
}

// slopeTimes is how far the line from a to b rises in a time, rounded up, and at most largestMax.
func slopeTimes(a, b reached, time int64) int64 {
	hi, lo := bits.Mul64(uint64(b.units-a.units), uint64(time))
	if hi >= uint64(b.at-a.at) {
		return largestMax
	}
	rise, rest := bits.Div64(hi, lo, uint64(b.at-a.at))
	if rest > 0 {
		rise++
	}
	return int64(min(rise, uint64(largestMax)))
}
