package resilience

import (
	"math"
	"time"
)

// leaseDemand is what is known of the demand for a lease, and what follows from it. All of it is
// under the lease's lock.
type leaseDemand struct {
	rate      float64 // units per second
	began     int64   // when the lease did, monotonic, as all instants here
	countedAt int64   // when the rate was last brought up to date,
	counted   int64   // and how many units had been wanted by then

	low  int64 // with fewer units held it is time to renew,
	lead int64 // or that much time before the end of the last block

	seen      int64 // how many units had been wanted when the sweeper last looked,
	changedAt int64 // and when it last found that changed
}

// Bounds on the length of a lease.
const (
	minLease = 20 * time.Millisecond
	maxLease = 5 * time.Second
)

// length is how long a block lasts: short, for its units count for that much longer, but long
// enough for a few round trips. It is no longer than half a window.
func (ls *lease) length(roundTrip int64) time.Duration {
	d := max(ls.window/20, 4*time.Duration(roundTrip), minLease)
	return min(d, maxLease, ls.window/2).Truncate(time.Microsecond)
}

// tooShort reports that a block would be nearly over when it arrives.
func (ls *lease) tooShort(roundTrip int64) bool {
	return ls.length(roundTrip) < 2*time.Duration(roundTrip)
}

// plan returns how many units to ask for, and for how long. If it is none, it returns after how
// long to plan again. The lock is held.
func (ls *lease) plan(now leaseTime, roundTrip int64) (ask int64, length, pause time.Duration) {
	length = ls.length(roundTrip)
	pause = max(length/32, time.Millisecond)
	if ls.tooShort(roundTrip) {
		return 0, length, pause
	}
	cost := max(1, ls.misses.largest.Load())
	ls.misses.largest.Store(cost - cost/64)
	total := ls.total()
	if total-ls.demand.counted < 2*cost {
		return 0, length, pause // so little since the last time is cheaper from the store
	}
	ls.demand.count(total, max(1, ls.misses.largest.Load()), now, length)
	held, debt := ls.usable(now)
	// It is time to renew when what is left will be gone in two round trips. A renewal asks for
	// what is wanted from now until that is so again, half a lease later.
	margin := min(5*time.Millisecond, length/8)
	lead := min(2*time.Duration(roundTrip)+margin, length/2)
	ls.demand.lead = int64(lead)
	ls.demand.low = min(ls.capacity, max(cost, ls.expect(0, lead, cost)))
	target := max(ls.demand.low+cost, ls.expect(0.25, 2*time.Duration(roundTrip)+length/2, cost))
	// If there is enough, low and lead tell when there is not.
	return min(max(0, target-held)+debt, ls.capacity), length, 0
}

// expect is how much will be wanted in a time, and a part more, or as much more as chance may
// bring: requests that come independently spread by the square root of their number.
func (ls *lease) expect(part float64, in time.Duration, cost int64) int64 {
	units := ls.demand.rate * seconds(int64(in))
	more := max(part*units, 2*math.Sqrt(units*float64(cost)))
	return int64(math.Ceil(min(units+more, float64(ls.capacity))))
}

// count brings the rate up to date, given how many units were ever wanted.
//
// At first the rate is the mean of all there was, later of the last half lease or so. What chance
// does not explain is believed at once. A few requests that come in the same moment say little.
func (d *leaseDemand) count(total, largest int64, now leaseTime, length time.Duration) {
	passed := now.mono - d.countedAt
	if passed <= 0 {
		return
	}
	fresh := max(0, total-d.counted)
	latest := float64(fresh) / seconds(max(passed, int64(length)/8))
	memory := max(length/2, 200*time.Millisecond)
	weight := max(1-math.Exp(-float64(passed)/float64(memory)), float64(passed)/float64(now.mono-d.began))
	expected, cost := d.rate*seconds(passed), float64(largest)
	if latest > d.rate && float64(fresh) > expected+4*math.Sqrt((expected+cost)*cost) {
		weight = 1
	}
	d.rate += weight * (latest - d.rate)
	d.countedAt, d.counted = now.mono, total
}

// renewAt is when to renew while serving from a block, given the units in blocks that end later.
func (d *leaseDemand) renewAt(b *leaseBlock, later int64) int64 {
	if later < d.low {
		return b.end.mono - d.lead
	}
	return math.MaxInt64
}

func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }
