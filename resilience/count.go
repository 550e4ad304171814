package resilience

import (
	"iter"
	"math/bits"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// count tracks how much of one limit of a subject is used. It adds up the units granted to this
// process, by the store or without it, and the units that other processes had used when the store
// last answered. It does not know the units that other processes have been granted since that
// answer.
//
// Times are nanoseconds since the start of the ledger. Times that come from the store are
// microseconds of the store's clock.
type count struct {
	*rule
	since int64 // grants from before this time were reset

	// mine holds the units granted to this process. The window has sixteen parts, and a grant is in
	// the part in which this process learned of it. A part counts until one window after its end.
	// So a grant counts at least as long as in the store, and at most a sixteenth of the window
	// longer. newest is the number of the newest part. A fixed window or a calendar period has only
	// one part.
	mine    [parts + 1]int64
	newest  int64
	holders []holder
	meter   *meter

	// stored describes the calendar period that the store counts, if it ends at a different time
	// than the period of the limit's own calendar. end is the end of the stored period, in seconds
	// of the store's clock. Grants made at the time `since` or later count in the stored period.
	stored struct{ end, since int64 }

	others others
	heard  heard
	before answer // the last answer that certainly came before a loss; see [ledger.keep]
	owed   *owed
}

// heard is the store's newest answer about a limit. at is the time of the answer by the store's
// clock, and call is its number; see [ledger.nextCall]. If the answer denied a cost, denied is that
// cost, and full is the earliest time at which it can be granted.
type heard struct {
	answer
	at, denied, full int64
	call             uint64
}

// parts is the number of parts into which a window is divided to count the units granted to this
// process.
const parts = 16

// rule is a limit and the values derived from it.
type rule struct {
	stint.Limit
	capacity         int64
	part             int64 // the length of a part of the window
	unit, rate, tick int64 // the results of [stint.Limit.Meter]; zero if there is no meter
	ledger           *ledger
}

// cost returns the cost of a claim under the limit: at most 1 if it is a concurrency limit.
func (r *rule) cost(c *stint.Claim) int64 {
	if r.Algorithm == stint.AlgorithmConcurrency {
		return min(c.CostOf(&r.Limit), 1)
	}
	return c.CostOf(&r.Limit)
}

// others holds the units of a limit that other processes have used. The store reports when the last
// of these units leaves its window, but not when the rest do. If there are several processes, the
// units are assumed to leave evenly between the times `from` and `until`, unless the window is
// fixed or a calendar period. Otherwise all of them are assumed to leave at the time `until`.
type others struct {
	units       int64
	from, until int64
	// booked is the number of those units that this process has booked. They count until
	// bookedUntil.
	booked, bookedUntil int64
}

// bookedFor returns how long a booking counts after the booked time: seventeen sixteenths of the
// window. In the store, a booking also counts longer than a window, because of its grace and the
// store's resolution. If the window is 40 ms or longer, these add less than a sixteenth of it.
func (r *rule) bookedFor() int64 { return int64(r.Window + r.Window/parts) }

// ours subtracts units granted to this process from the units of others, unless the granted units
// no longer counted when the store gave its newest answer. at is the time of their charge, by the
// store's clock. ours also lowers the meter, by at most the weight by which answers have raised it.
func (c *count) ours(units, at, now int64) {
	if c.Algorithm == stint.AlgorithmConcurrency || stillIn(&c.Limit, units, at, c.heard.at) > 0 {
		c.others.take(units, now)
	}
	if m := c.meter; m != nil && c.unit > 0 {
		weight := min(c.weight(units), m.raised)
		m.stored, m.raised = m.stored-weight, m.raised-weight
	}
}

// take subtracts units, but never those that this process has booked.
func (o *others) take(units, now int64) {
	least := int64(0)
	if now < o.bookedUntil {
		least = min(o.booked, o.units)
	}
	o.units = max(o.units-units, least)
}

// unbook subtracts the units of a booking that was given back. counted is true if the newest answer
// may have counted them.
func (o *others) unbook(units int64, counted bool) {
	o.booked = max(o.booked-units, 0)
	if counted {
		o.units = max(o.units-units, 0)
	}
}

// evenly reports whether the units of others are assumed to leave their window evenly.
func (c *count) evenly() bool {
	return c.ledger.instances() > 1 && c.Algorithm != stint.AlgorithmFixed && c.Algorithm != stint.AlgorithmCalendar
}

func (o *others) at(t int64, evenly bool) int64 {
	switch {
	case t >= o.until || o.units == 0:
		return 0
	case !evenly || t <= o.from:
		return o.units
	}
	high, low := bits.Mul64(uint64(o.units), uint64(o.until-t))
	quotient, rest := bits.Div64(high, low, uint64(o.until-o.from))
	if rest > 0 {
		quotient++
	}
	if t < o.bookedUntil {
		return max(int64(quotient), min(o.booked, o.units))
	}
	return int64(quotient)
}

// number returns the number of the part of the window that contains t. It exceeds the constant
// parts, so that the earlier parts of the window have positive numbers. A fixed window or a
// calendar period, by the store's clock, is one part. Its number exceeds that of the previous
// window by more than that constant, so that nothing from the previous window counts.
func (c *count) number(t int64) int64 {
	switch c.Algorithm {
	case stint.AlgorithmFixed:
		return c.ledger.wall(t) / c.Window.Microseconds() * (parts + 1)
	case stint.AlgorithmCalendar: // the number is the second in which the period ends
		if end := c.stored.end; t >= c.stored.since && c.ledger.wall(t) < end*1e6 {
			return end
		}
		_, end := contract.Period(&c.Limit, c.ledger.wall(t))
		return end / 1e6
	}
	return t/c.part + parts + 1
}

// until returns the time until which the part with the given number counts.
func (c *count) until(number int64) int64 {
	switch c.Algorithm {
	case stint.AlgorithmFixed:
		return c.ledger.instant((number/(parts+1)+1)*c.Window.Microseconds(), 0)
	case stint.AlgorithmCalendar:
		return c.ledger.instant(number*1e6, 0)
	}
	return number * c.part
}

// inParts reports whether grants are counted by part of the window.
func (c *count) inParts() bool {
	return c.Algorithm != stint.AlgorithmBucket && c.Algorithm != stint.AlgorithmConcurrency
}

func slot(number int64) uint64 { return uint64(number) % (parts + 1) }

// advance forgets grants and holders that no longer count.
func (c *count) advance(now int64) {
	c.holders = slices.DeleteFunc(c.holders, func(h holder) bool { return h.until <= now })
	if c.inParts() {
		n := c.number(now)
		if c.Algorithm == stint.AlgorithmFixed && n < c.newest { // the store's clock has gone back
			units := c.mine[slot(c.newest)]
			c.mine, c.newest = [parts + 1]int64{}, n
			c.mine[slot(n)] = units
		}
		for skip := max(c.newest+1, n-parts); skip <= n; skip++ {
			c.mine[slot(skip)] = 0
		}
		c.newest = max(c.newest, n)
	}
}

// granted iterates over the grants to this process. It yields the time at which a grant stops
// counting, and its units.
func (c *count) granted() iter.Seq2[int64, int64] {
	return func(yield func(until, units int64) bool) {
		switch {
		case c.Algorithm == stint.AlgorithmConcurrency:
			for i := range c.holders {
				if !yield(c.holders[i].until, 1) {
					return
				}
			}
		case c.inParts():
			for n := c.newest - parts; n <= c.newest; n++ {
				if units := c.mine[slot(n)]; units > 0 && !yield(c.until(n), units) {
					return
				}
			}
		}
	}
}

// mineAt returns how many of the units granted to this process count at t, which must not be before
// the time of the last call of advance.
func (c *count) mineAt(t int64) (sum int64) {
	for until, units := range c.granted() {
		if until > t {
			sum += units
		}
	}
	return sum
}

// grant counts units that were granted to this process, by the store if stored is true. at is the
// time of the grant: now, or the time of the charge if the units raise an earlier charge. If that
// time is no longer in the window, the units count from now on.
func (c *count) grant(units, at, now int64, stored bool) {
	c.advance(now)
	c.add(units, at)
	c.fill(units, now, stored)
}

func (c *count) add(units, at int64) {
	if c.inParts() {
		n := c.number(at)
		if n <= c.newest-parts {
			n = c.newest
		}
		c.mine[slot(n)] += units
	}
}

// take subtracts up to the given number of units from mine, and returns how many it subtracted. It
// begins with the part with the given number, and continues with later parts, because this process
// may have learned of a charge a little later than the store made it.
func (c *count) take(units, number int64) (taken int64) {
	for n := number; n >= c.newest-parts && n <= c.newest && taken < units; n++ {
		gone := min(units-taken, c.mine[slot(n)])
		c.mine[slot(n)] -= gone
		taken += gone
	}
	return taken
}

// ungrant takes back up to the given number of units that were granted to this process at the given
// time, if they still count. It returns how many it took back.
func (c *count) ungrant(units, at, now int64) int64 {
	if c.advance(now); c.inParts() {
		return c.take(units, c.number(at))
	}
	return 0
}

// hear records u, the usage that the store reports in its answer to a request. asked is the cost of
// the request. cost is the number of units in u that were charged for the request; hear leaves them
// out. at and call are the time and the number of the answer. uncounted is the number of units
// granted to this process that the answer does not count. born is when the process began to record
// the subject.
func (c *count) hear(u *stint.Usage, asked, cost, uncounted, at int64, call uint64, born, now int64) {
	used := max(u.Used-cost, 0)
	until := now + int64(min(u.ResetAfter, maxAhead))
	next := heard{at: at, call: call, answer: answer{others: u.Used, until: until, arrived: now}}
	if u.RetryAfter > 0 && u.RetryAfter < maxAhead {
		next.denied, next.full = asked, now+int64(u.RetryAfter)
	}
	if c.unit > 0 {
		c.hearMeter(u, cost, uncounted, at, call, now)
	}
	if at == c.heard.at { // answers with the same time may arrive in any order
		next.others, next.until = max(next.others, c.heard.others), max(until, c.heard.until)
	}
	c.heard = next
	if c.Algorithm == stint.AlgorithmCalendar && u.ResetAfter > 0 {
		c.hearEnd((c.ledger.wall(until)+5e5)/1e6, now)
	}
	switch {
	case c.unit == 0:
	case c.Algorithm == stint.AlgorithmBucket || c.ledger.instances() > 1 || now-born > int64(c.Window)+c.part:
		return // the meter counts what others have used
	default: // the log may count grants to an earlier process
		until = min(until, now+int64(c.Window))
	}
	// The usage of others is between two bounds, because it is not known exactly when the oldest
	// part of the units of this process leaves its window. The previous value is kept if it is
	// between these bounds.
	mine := c.mineAt(now)
	least := max(used-max(mine-uncounted, 0), 0)
	most := max(used-max(mine-c.mine[slot(c.newest-parts)]-uncounted, 0), 0)
	before := c.others.at(now, c.evenly())
	if now < c.others.bookedUntil { // the units of others include at least the bookings
		booked := min(c.others.booked, used)
		before, most = max(before, booked), max(most, booked)
	}
	c.others.units = min(max(before, least), most)
	c.others.from, c.others.until = now, until
}

// hearEnd records end, the end of a calendar period according to the store, in seconds of its
// clock. This end takes precedence over the limit's own calendar: grants count until end, even if
// their period ends at a different time by that calendar.
func (c *count) hearEnd(end, now int64) {
	if c.number(now) == end {
		return
	}
	c.advance(now)
	units := c.mine[slot(c.newest)]
	c.mine, c.newest = [parts + 1]int64{}, end
	c.mine[slot(end)] = units
	since := now
	if c.owed != nil && len(c.owes(now).parts) > 0 {
		since = c.owed.parts[0].from
	}
	c.stored.end, c.stored.since = end, since
}

// maxAhead is the longest time for which a unit counts.
const maxAhead = stint.MaxWindow * stint.MaxBurst

// left returns how many units this process may take at t, if none are granted or given back before
// t: all units that are left or, if there are several processes, its share of them. uncounted is
// the number of units granted to this process that the store has not counted. The result is
// negative if too much is used.
func (c *count) left(t, uncounted int64) int64 {
	left := c.logLeft(t, uncounted)
	if c.unit > 0 {
		left = min(left, c.meterLeft(t))
	}
	return left
}

// logLeft is like left, but ignores the meter. If a limit has a meter, the meter counts the units
// that other processes have used. Then logLeft counts only the units of this process and those that
// an earlier process may have used. For a bucket, logLeft returns the capacity.
func (c *count) logLeft(t, uncounted int64) int64 {
	instances := c.ledger.instances()
	if c.Algorithm == stint.AlgorithmBucket {
		return c.capacity
	}
	mine, others := c.mineAt(t), c.others.at(t, c.evenly())
	if instances == 1 {
		return c.capacity - mine - others
	}
	since := min(uncounted, mine)
	return ceilDiv(c.capacity-(mine-since)-others, instances) - since
}

// when returns how long it takes until enough units are left for the given cost, Never if they
// never will be, or outageRetry if only the store can tell.
func (c *count) when(now, cost, uncounted int64) time.Duration {
	instances := c.ledger.instances()
	switch {
	case c.left(now, uncounted) >= cost:
		return 0
	case cost > c.capacity || c.Max == 0:
		return stint.Never
	}
	best := int64(-1)
	try := func(t int64) {
		if t > now && (best < 0 || t < best) && c.left(t, uncounted) >= cost {
			best = t
		}
	}
	try(c.others.until)
	if c.meter != nil {
		try(c.meterFits(cost))
	}
	if instances > 1 && c.others.units > 0 {
		for i := range int64(parts) {
			try(now + (c.others.until-now)/parts*i)
		}
	}
	for until := range c.granted() {
		try(until)
	}
	if best < 0 {
		return outageRetry
	}
	if instances > 1 && cost >= c.heard.denied {
		best = max(best, c.heard.full)
	}
	return time.Duration(best-now).Truncate(time.Microsecond) + time.Microsecond
}

// reset returns how long it takes until nothing is used.
func (c *count) reset(now int64) time.Duration {
	end, instances := now, c.ledger.instances()
	if c.others.units > 0 {
		end = max(end, c.others.until)
	}
	for until, units := range c.granted() {
		if units > 0 {
			end = max(end, until)
		}
	}
	if m := c.meter; m != nil {
		end = max(end, c.after(m.at, m.stored+min(m.local, stint.MaxUnits/instances)*instances))
	}
	return time.Duration(end - now).Truncate(time.Microsecond)
}

func ceilDiv(a, n int64) int64 {
	if a <= 0 {
		return 0
	}
	return (a-1)/n + 1
}
