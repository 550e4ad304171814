package resilience

import (
	"math/bits"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// count is what a process knows of one limit of a subject: what it was granted itself, by the store
// and without it, and what others had used when the store last answered. Together they are at least
// what is used, as long as the store and this process are the only ones who grant anything.
//
// Times are nanoseconds since the start of the ledger.
type count struct {
	*rule
	index   int    // in its record
	resetAt int64  // what was granted before was reset,
	resets  uint64 // when there had been so many of any

	// mine is what this process was granted, by the sixteenth of the window in which it learned of
	// that. A sixteenth counts until its end is a window ago: never shorter than in the store, and
	// at most a sixteenth longer. newest is the number of the newest. A fixed window has one
	// number, until newest.
	mine   [parts + 1]int64
	newest int64
	sum    int64 // of mine
	// holders have a place under a concurrency limit.
	holders []holder
	meter   *meter

	others others
	owed   *owed
}

// parts is in how many parts a window is divided to count what this process was granted.
const parts = 16

// rule is a limit and what follows from it.
type rule struct {
	stint.Limit
	capacity         int64
	part             int64 // the length of a part of the window
	unit, rate, tick int64 // of a meter, as docs/rules.md has them; zero if there is none
}

func newRule(l *stint.Limit) *rule {
	r := &rule{Limit: *l, capacity: l.Capacity(), part: int64(l.Window) / parts}
	if contract.HasMeter(l) && l.Max > 0 {
		r.unit, r.rate, r.tick = l.Meter()
	}
	return r
}

// holder is who holds a place, until when without a heartbeat. The store may not know of it.
type holder struct {
	id      uint64
	until   int64
	void    int64 // when the last heartbeat that was not answered cannot arrive any more
	counted bool
}

// others is what other processes have used of a limit. It is known when the last of its units
// leaves its window, and not when the others do. If processes share what is left, they are taken to
// have been used evenly; else all of them to be the last one.
type others struct {
	units       int64
	from, until int64
	// raised is by how much the newest answer raised the units. It may have counted what an older
	// one granted to us, which is yet to come.
	raised int64
}

// ours says that some of it was granted to this process, by an answer that came after a newer one.
func (o *others) ours(units int64) {
	units = min(units, o.raised, o.units)
	o.units -= units
	o.raised -= units
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
	return int64(quotient)
}

// owed is what the store does not count of what this process was granted.
type owed struct {
	// uncharged units were granted without the store, at last at an instant, and are not known to
	// be charged.
	uncharged int64
	at        int64
	since     int64 // what was granted before is not among them any more
	// generation is that of the state that was charged last.
	generation uint32
	// charged are those that were charged lately: answers of an earlier instant do not count them.
	charged []charged
}

type charged struct {
	at    int64  // the store's instant,
	call  uint64 // and the call in which that was
	until int64
	units int64
}

const (
	// answerTime is longer than any answer is waited for, and maxCharged how many charges are
	// remembered for that time.
	answerTime = 10 * time.Second
	maxCharged = 8
)

// uncounted is how many units that count the store's answer of an instant, in a call, does not. The
// largest instant is for all that was ever charged.
func (c *count) uncounted(at int64, call uint64, now int64) (units int64) {
	if c.Algorithm == stint.AlgorithmConcurrency {
		for i := range c.holders {
			if !c.holders[i].counted {
				units++
			}
		}
		return units
	}
	if c.owed == nil || c.overdue(now) {
		return 0
	}
	units = c.owed.uncharged
	for i := range c.owed.charged {
		if o := &c.owed.charged[i]; o.at > at || o.at == at && o.call != call {
			units += o.units
		}
	}
	return units
}

// overdue reports that nothing that is owed counts any more.
func (c *count) overdue(now int64) bool {
	life := int64(c.Window) + c.part
	if c.unit > 0 {
		life = meterLife(&c.Limit)
	}
	return now-c.owed.at > life
}

// owe counts units as uncharged.
func (c *count) owe(units, now int64) {
	if c.owed == nil {
		c.owed = new(owed)
	}
	if c.overdue(now) {
		c.owed.uncharged, c.owed.since = 0, now
	}
	c.owed.uncharged += units
	c.owed.at = max(c.owed.at, now)
}

// repaid notes that the store has charged units that were granted at a time, or that they are not
// owed any more, if the instant is 0.
func (c *count) repaid(units, granted, at int64, call uint64, now int64) {
	if c.owed == nil || granted < c.owed.since {
		return
	}
	o := c.owed
	units = max(min(units, o.uncharged), 0)
	o.uncharged -= units
	o.charged = slices.DeleteFunc(o.charged, func(p charged) bool { return p.until <= now })
	if units == 0 || at == 0 {
		return
	}
	if c.meter != nil {
		c.meter.stored = min(c.meter.stored+c.weight(units), c.meter.level)
	}
	if n := len(o.charged); n == maxCharged {
		o.charged[1].units += o.charged[0].units
		o.charged = slices.Delete(o.charged, 0, 1)
	}
	o.charged = append(o.charged, charged{at, call, now + int64(answerTime), units})
}

// meter is the level of a limit that refills, of this process's part if several share it, in
// weights as docs/rules.md has them; and what of that the store counts.
type meter struct {
	level, stored int64
	at            int64
}

// leak lets a meter run empty until an instant, by a process's part of the rate.
func (c *count) leak(m *meter, t, instances int64) {
	ticks := c.ticks(t) - c.ticks(m.at)
	if ticks <= 0 {
		return
	}
	if high, low := bits.Mul64(uint64(ticks), uint64(c.rate)); high > 0 || low/uint64(instances) >= uint64(m.level) {
		m.level, m.stored, m.at = 0, 0, t
		return
	}
	gone := ticks * c.rate / instances
	m.level -= gone
	m.stored = max(m.stored-gone, 0)
	if instances == 1 {
		m.at = t
	} else { // by what it took to give that back, so that no fraction is lost
		m.at = (c.ticks(m.at) + (gone*instances+c.rate-1)/c.rate) * c.tick * int64(time.Microsecond)
	}
}

func (c *count) ticks(t int64) int64 { return t / (c.tick * int64(time.Microsecond)) }

// levelAt is the level at an instant.
func (c *count) levelAt(t, instances int64) int64 {
	if c.meter == nil {
		return 0
	}
	m := *c.meter
	c.leak(&m, t, instances)
	return m.level
}

// number is that of the part of the window in which an instant is. It is above parts, so that there
// are numbers before it.
func (c *count) number(t int64) int64 { return t/c.part + parts + 1 }

func slot(number int64) uint64 { return uint64(number) % (parts + 1) }

// endOf is when the part of a number does not count any more.
func (c *count) endOf(number int64) int64 { return number * c.part }

// advance forgets the parts that do not count any more.
func (c *count) advance(now int64) {
	switch c.Algorithm {
	case stint.AlgorithmFixed:
		if now >= c.newest {
			c.mine[0], c.sum = 0, 0
		}
	case stint.AlgorithmSliding:
		n := c.number(now)
		for skip := max(c.newest+1, n-parts); skip <= n; skip++ {
			c.sum -= c.mine[slot(skip)]
			c.mine[slot(skip)] = 0
		}
		c.newest = max(c.newest, n)
	case stint.AlgorithmConcurrency:
		if len(c.holders) > 0 {
			c.holders = slices.DeleteFunc(c.holders, func(h holder) bool { return h.until <= now })
		}
		c.sum = int64(len(c.holders))
	}
}

// mineAt is how much of what this process was granted counts at an instant that is not before the
// last advance.
func (c *count) mineAt(t int64) (units int64) {
	switch c.Algorithm {
	case stint.AlgorithmConcurrency:
		for i := range c.holders {
			if c.holders[i].until > t {
				units++
			}
		}
	case stint.AlgorithmFixed:
		if t < c.newest {
			units = c.sum
		}
	case stint.AlgorithmSliding:
		units = c.sum
		oldest := c.number(t) - parts
		for n := c.newest - parts; n < min(oldest, c.newest+1); n++ {
			units -= c.mine[slot(n)]
		}
	}
	return units
}

// surely is how much of what counts now the store surely counts: not the oldest part.
func (c *count) surely() int64 {
	if c.Algorithm == stint.AlgorithmSliding {
		return c.sum - c.mine[slot(c.newest-parts)]
	}
	return c.sum
}

// grant counts units that this process was granted. The end is that of the present window, if that
// is fixed.
func (c *count) grant(units, now, end, instances int64) {
	switch c.advance(now); c.Algorithm {
	case stint.AlgorithmFixed:
		c.newest = end
		c.mine[0] += units
		c.sum += units
	case stint.AlgorithmSliding:
		c.mine[slot(c.newest)] += units
		c.sum += units
	}
	if c.unit > 0 {
		m := c.metered(now, instances)
		m.level = min(m.level+c.weight(units), stint.MaxUnits)
	}
}

// weight is that of so many units in the meter.
func (c *count) weight(units int64) int64 { return min(units, stint.MaxUnits/c.unit) * c.unit }

// metered returns the meter as of now.
func (c *count) metered(now, instances int64) *meter {
	if c.meter == nil {
		c.meter = &meter{at: now}
	}
	c.leak(c.meter, now, instances)
	return c.meter
}

// giveBack takes up to so many units off what this process was granted at an instant, if they still
// count: the oldest first, so that room returns no earlier than it would with the units that are
// meant. A meter has refilled some of them since. The store may have counted them, and given them
// back.
func (c *count) giveBack(units, at, now, instances int64, stored bool) {
	if c.meter != nil {
		m := c.metered(now, instances)
		given := c.weight(units)
		if ticks := c.ticks(now) - c.ticks(at); ticks >= given/c.rate*instances {
			given = 0
		} else {
			given -= max(ticks, 0) * c.rate / instances
		}
		m.level -= min(given, m.level)
		if stored {
			m.stored -= min(given, m.stored)
		}
		m.stored = min(m.stored, m.level)
	}
	if c.advance(now); now-at >= int64(c.Window) {
		return
	}
	if c.Algorithm == stint.AlgorithmFixed {
		if now < c.newest && at >= c.newest-int64(c.Window) {
			c.mine[0] -= min(units, c.mine[0])
			c.sum = c.mine[0]
		}
		return
	}
	if c.Algorithm != stint.AlgorithmSliding {
		return
	}
	for n := c.newest - parts; n <= c.newest && units > 0; n++ {
		gone := min(units, c.mine[slot(n)])
		c.mine[slot(n)] -= gone
		c.sum -= gone
		units -= gone
	}
}

// hear notes what the store says is used, without the cost of the request that it answers.
// Uncounted is what the answer does not count of what this process was granted.
func (c *count) hear(u *stint.Usage, cost, uncounted, now, instances int64) {
	used := max(u.Used-cost, 0)
	if c.unit > 0 {
		m := c.metered(now, instances)
		stored := used
		if c.Algorithm == stint.AlgorithmSliding && instances == 1 && used <= c.sum {
			stored = min(used, ceilDiv(m.stored, c.unit)) // the log alone explains it
		}
		if instances > 1 {
			stored = max(ceilDiv(c.capacity, instances)-ceilDiv(c.capacity-used, instances), 0)
		}
		more := m.level
		if uncounted <= more/c.unit {
			more = uncounted * c.unit
		}
		m.stored = c.weight(stored)
		m.level = min(m.stored+more, stint.MaxUnits)
		return
	}
	// What others have used is between two bounds, since it is not known exactly when the oldest of
	// our own units leave their window. What was known before stands if it is between them.
	least := max(used-max(c.sum-uncounted, 0), 0)
	most := max(used-max(c.surely()-uncounted, 0), 0)
	before := c.others.at(now, instances > 1)
	units := min(max(before, least), most)
	c.others = others{units, now, now + int64(min(u.ResetAfter, maxAhead)), max(units-before, 0)}
}

// drain takes a cost off the meter, if there is one, of which the store has counted it.
func (c *count) drain(cost, now, instances int64) {
	if c.unit > 0 {
		m, weight := c.metered(now, instances), c.weight(cost)
		m.level, m.stored = max(m.level-weight, 0), max(m.stored-weight, 0)
	}
}

// maxAhead is the longest that anything counts.
const maxAhead = stint.MaxWindow * stint.MaxBurst

// left is how many units this process may take at an instant, if nothing happens until then: all
// that is left, or its part. It is below zero if too much is used.
func (c *count) left(t, uncounted, instances int64) int64 {
	left := c.capacity
	if c.Algorithm != stint.AlgorithmBucket {
		mine, others := c.mineAt(t), c.others.at(t, instances > 1)
		if instances == 1 {
			left = c.capacity - mine - others
		} else {
			since := min(uncounted, mine)
			left = ceilDiv(c.capacity-(mine-since)-others, instances) - since
		}
	}
	if c.unit > 0 {
		left = min(left, ceilDiv(c.capacity, instances)-ceilDiv(c.levelAt(t, instances), c.unit))
	}
	return left
}

// when is how long it takes until so many units are left; Never if they never are.
func (c *count) when(now, cost, uncounted, instances int64) time.Duration {
	switch {
	case c.left(now, uncounted, instances) >= cost:
		return 0
	case cost > c.capacity || c.Max == 0:
		return stint.Never
	}
	best := int64(-1)
	try := func(t int64) {
		if t > now && (best < 0 || t < best) && c.left(t, uncounted, instances) >= cost {
			best = t
		}
	}
	try(c.others.until)
	if c.meter != nil {
		try(c.leaked(cost, instances))
	}
	if instances > 1 && c.others.units > 0 {
		for i := range int64(parts) {
			try(now + (c.others.until-now)/parts*i)
		}
	}
	switch c.Algorithm {
	case stint.AlgorithmConcurrency:
		for i := range c.holders {
			try(c.holders[i].until)
		}
	case stint.AlgorithmFixed:
		try(c.newest)
	case stint.AlgorithmSliding:
		for n := c.newest; n >= c.newest-parts; n-- {
			try(c.endOf(n))
		}
	}
	if best < 0 {
		return outageRetry // only the store can allow it
	}
	return time.Duration(best-now).Truncate(time.Microsecond) + time.Microsecond
}

// leaked is when the meter has leaked so far that a cost fits.
func (c *count) leaked(cost, instances int64) int64 {
	over := c.meter.level - (ceilDiv(c.capacity, instances)-cost)*c.unit
	if over <= 0 || over > stint.MaxUnits/instances {
		return c.meter.at
	}
	ticks := ceilDiv(over*instances, c.rate)
	if ticks > int64(maxAhead)/int64(time.Microsecond)/c.tick {
		return 0
	}
	return (c.ticks(c.meter.at) + ticks) * c.tick * int64(time.Microsecond)
}

// reset is how long it takes until nothing is used.
func (c *count) reset(now, instances int64) time.Duration {
	end := now
	if c.others.units > 0 {
		end = max(end, c.others.until)
	}
	switch c.Algorithm {
	case stint.AlgorithmConcurrency:
		for i := range c.holders {
			end = max(end, c.holders[i].until)
		}
	case stint.AlgorithmFixed:
		if c.mine[0] > 0 {
			end = max(end, c.newest)
		}
	case stint.AlgorithmSliding:
		for n := c.newest; n >= c.newest-parts; n-- {
			if c.mine[slot(n)] > 0 {
				end = max(end, c.endOf(n))
				break
			}
		}
	}
	if c.meter != nil && c.meter.level > 0 && c.meter.level <= stint.MaxUnits/instances {
		ticks := min(ceilDiv(c.meter.level*instances, c.rate), int64(maxAhead)/int64(time.Microsecond)/c.tick)
		end = max(end, (c.ticks(c.meter.at)+ticks)*c.tick*int64(time.Microsecond))
	}
	return time.Duration(end - now).Truncate(time.Microsecond)
}

func ceilDiv(a, n int64) int64 {
	if a <= 0 {
		return 0
	}
	return (a-1)/n + 1
}
