package resilience

import (
	"iter"
	"math"
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
// Times are nanoseconds since the start of the ledger, but for those of the store's clock, which
// are its microseconds and said to be its instants.
type count struct {
	*rule
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
	heard  heard
	owed   *owed
}

// heard is what the store's newest answer on a limit said was used, at its instant, and until when
// some of that counts. With what it does not count it bounds what is used, too: more closely where
// units were given back, which mine takes for the oldest. If it denied a cost, there is no room for
// that until an instant, whatever is taken of what others have used.
type heard struct{ used, until, at, denied, full int64 }

// parts is in how many parts a window is divided to count what this process was granted.
const parts = 16

// rule is a limit and what follows from it.
type rule struct {
	stint.Limit
	capacity         int64
	part             int64 // the length of a part of the window
	unit, rate, tick int64 // of a meter, as docs/rules.md has them; zero if there is none
	ledger           *ledger
}

func newRule(l *stint.Limit, of *ledger) *rule {
	r := &rule{Limit: *l, capacity: l.Capacity(), part: int64(l.Window) / parts, ledger: of}
	if contract.HasMeter(l) && l.Max > 0 {
		r.unit, r.rate, r.tick = l.Meter()
	}
	return r
}

// cost is what a claim costs under the limit.
func (r *rule) cost(c *stint.Claim) int64 {
	if r.Algorithm == stint.AlgorithmConcurrency {
		return min(c.Cost, 1)
	}
	return c.Cost
}

// others is what other processes have used of a limit. It is known when the last of its units
// leaves its window, and not when the others do. If processes share what is left, they are taken to
// have been used evenly; else all of them to be the last one.
type others struct {
	units       int64
	from, until int64
	// booked are bookings of this process among them, which all count until an instant.
	booked, bookedUntil int64
}

// ours says that units were charged to this process at an instant of the store's, by an answer that
// came after a newer one: that has counted them already, among what others have used.
func (c *count) ours(units, at int64) {
	c.heard.used += units
	if c.Algorithm == stint.AlgorithmConcurrency || stillIn(&c.Limit, units, at, c.heard.at) > 0 {
		c.others.units = max(c.others.units-units, 0)
	}
	if m := c.meter; m != nil && c.unit > 0 {
		weight := min(c.weight(units), m.raised)
		m.stored -= weight
		m.raised -= weight
	}
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

// owed is what the store does not count of what this process was granted.
type owed struct {
	// uncharged units were granted without the store, at last at an instant, and are not known to
	// be charged.
	uncharged int64
	at        int64
	since     int64 // what was granted before is not among them any more
	// generation is that of the state that was charged last.
	generation uint32
	// groups are those that are yet to become debts, by when they were granted.
	groups []group
	// refilled is the weight of them that the meter has given back.
	refilled int64
	// charged are those that were charged lately: answers of an earlier instant do not count them.
	charged []charged
}

type charged struct {
	at     int64  // the store's instant,
	call   uint64 // and the call in which that was
	until  int64
	units  int64
	weight int64 // that a meter was charged
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
			if c.holders[i].stored <= now {
				units++
			}
		}
		return units
	}
	if c.owed == nil || c.overdue(now) {
		return 0
	}
	units, _ = c.owed.after(at, call)
	return c.owed.uncharged + units
}

// after is what was charged after the store's answer of an instant, in a call, and its weight.
func (o *owed) after(at int64, call uint64) (units, weight int64) {
	for i := range o.charged {
		if p := &o.charged[i]; p.at > at || p.at == at && p.call != call {
			units += p.units
			weight += p.weight
		}
	}
	return units, weight
}

// overdue reports that nothing that is owed counts any more.
func (c *count) overdue(now int64) bool {
	switch age, window := now-c.owed.at, c.Window.Microseconds(); {
	case c.unit > 0:
		return age > meterLife(&c.Limit)
	case c.Algorithm == stint.AlgorithmFixed:
		return c.ledger.wall(c.owed.at)/window != c.ledger.wall(now)/window
	default:
		return age > int64(c.Window)+c.part
	}
}

// owe counts units that this process was granted without the store.
func (c *count) owe(units, now int64) {
	if units <= 0 {
		return
	}
	c.grant(units, now, false)
	if c.owed == nil {
		c.owed = new(owed)
	}
	if c.overdue(now) {
		c.owed.uncharged, c.owed.since = 0, now
	}
	c.owed.uncharged += units
	c.owed.at = max(c.owed.at, now)
}

// unowe notes that units that were granted at a time are not owed any more, and returns how many
// were.
func (c *count) unowe(units, granted int64) int64 {
	if c.owed == nil || granted < c.owed.since {
		return 0
	}
	units = max(min(units, c.owed.uncharged), 0)
	c.owed.uncharged -= units
	return units
}

// repaid notes that the store has charged units that were granted at a time, but for what meters
// had refilled for some time.
func (c *count) repaid(units, granted, at int64, call uint64, now int64, refilled time.Duration) {
	if units = c.unowe(units, granted); units == 0 {
		return
	}
	o := c.owed
	o.charged = slices.DeleteFunc(o.charged, func(p charged) bool { return p.until <= now })
	weight := int64(0)
	if m := c.meter; m != nil {
		weight = min(max(c.weight(units)-c.given(refilled), 0), m.local)
		m.stored, m.local = m.stored+weight, m.local-weight
	}
	if n := len(o.charged); n == maxCharged {
		o.charged[1].units += o.charged[0].units
		o.charged[1].weight += o.charged[0].weight
		o.charged = slices.Delete(o.charged, 0, 1)
	}
	o.charged = append(o.charged, charged{at, call, now + int64(answerTime), units, weight})
}

// number is that of the part of the window in which an instant is. It is above parts, so that there
// are numbers before it.
func (c *count) number(t int64) int64 { return t/c.part + parts + 1 }

func slot(number int64) uint64 { return uint64(number) % (parts + 1) }

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

// granted goes through what this process was granted: when it does not count any more, and how many
// units that are.
func (c *count) granted() iter.Seq2[int64, int64] {
	return func(yield func(until, units int64) bool) {
		switch c.Algorithm {
		case stint.AlgorithmConcurrency:
			for i := range c.holders {
				if !yield(c.holders[i].until, 1) {
					return
				}
			}
		case stint.AlgorithmFixed:
			yield(c.newest, c.sum)
		case stint.AlgorithmSliding:
			for n := c.newest - parts; n <= c.newest; n++ {
				if units := c.mine[slot(n)]; units > 0 && !yield(n*c.part, units) {
					return
				}
			}
		}
	}
}

// mineAt is how much of what this process was granted counts at an instant that is not before the
// last advance.
func (c *count) mineAt(t int64) (sum int64) {
	for until, units := range c.granted() {
		if until > t {
			sum += units
		}
	}
	return sum
}

// surely is how much of what counts now the store surely counts: not the oldest part.
func (c *count) surely() int64 {
	if c.Algorithm == stint.AlgorithmSliding {
		return c.sum - c.mine[slot(c.newest-parts)]
	}
	return c.sum
}

// grant counts units that this process was granted, by the store or not.
func (c *count) grant(units, now int64, stored bool) {
	switch c.advance(now); c.Algorithm {
	case stint.AlgorithmFixed: // until the window ends by the store's clock
		window := c.Window.Microseconds()
		c.newest = now + (window-c.ledger.wall(now)%window)*int64(time.Microsecond)
		c.mine[0] += units
		c.sum += units
	case stint.AlgorithmSliding:
		c.mine[slot(c.newest)] += units
		c.sum += units
	}
	c.fill(units, now, stored)
}

// giveBack takes up to so many units off what this process was granted at an instant. A meter has
// refilled some of them since. The store may have counted them, and given them back.
func (c *count) giveBack(units, at, now int64, stored bool) {
	c.drain(units, at, now, stored)
	c.ungrant(units, at, now)
}

// ungrant takes up to so many units off what this process was granted at an instant, if they still
// count: the oldest first, so that room returns no earlier than it would with the units that are
// meant.
func (c *count) ungrant(units, at, now int64) {
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

// hear notes what the store says is used, without the cost of the request that it answers, if that
// was charged what was asked. Uncounted is what the answer does not count of what this process was
// granted.
func (c *count) hear(u *stint.Usage, asked, cost, uncounted, at int64, call uint64, now int64) {
	used := max(u.Used-cost, 0)
	next := heard{used: u.Used, until: now + int64(min(u.ResetAfter, maxAhead)), at: at}
	if u.RetryAfter > 0 && u.RetryAfter < maxAhead {
		next.denied, next.full = asked, now+int64(u.RetryAfter)
	}
	if at == c.heard.at { // they may come in any order
		next.used, next.until = max(next.used, c.heard.used), max(next.until, c.heard.until)
	}
	c.heard = next
	if c.unit > 0 {
		c.hearMeter(u, cost, uncounted, at, call, now)
		return
	}
	// What others have used is between two bounds, since it is not known exactly when the oldest of
	// our own units leave their window. What was known before stands if it is between them.
	least := max(used-max(c.sum-uncounted, 0), 0)
	most := max(used-max(c.surely()-uncounted, 0), 0)
	before := c.others.at(now, c.ledger.instances() > 1)
	c.others.units = min(max(before, least), most)
	c.others.from, c.others.until = now, now+int64(min(u.ResetAfter, maxAhead))
}

// maxAhead is the longest that anything counts.
const maxAhead = stint.MaxWindow * stint.MaxBurst

// left is how many units this process may take at an instant, if nothing happens until then: all
// that is left, or its part. It is below zero if too much is used.
func (c *count) left(t, uncounted int64) int64 {
	left, instances := c.capacity, c.ledger.instances()
	if c.Algorithm != stint.AlgorithmBucket {
		mine, others := c.mineAt(t), c.others.at(t, instances > 1)
		if instances == 1 {
			left = c.capacity - min(mine+others, c.usedAt(t))
		} else {
			since := min(uncounted, mine)
			left = ceilDiv(c.capacity-(mine-since)-others, instances) - since
		}
	}
	if c.unit > 0 {
		left = min(left, c.meterLeft(t))
	}
	return left
}

// usedAt is how much is used at most at an instant, by the newest answer.
func (c *count) usedAt(t int64) int64 {
	switch {
	case c.heard.at == 0 || c.Algorithm == stint.AlgorithmConcurrency:
		return math.MaxInt64
	case t >= c.heard.until:
		return c.uncounted(c.heard.at, 0, t)
	}
	return c.heard.used + c.uncounted(c.heard.at, 0, t)
}

// when is how long it takes until so many units are left; Never if they never are.
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
	try(c.heard.until)
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
		return outageRetry // only the store can allow it
	}
	if instances > 1 && cost >= c.heard.denied {
		best = max(best, c.heard.full)
	}
	return time.Duration(best-now).Truncate(time.Microsecond) + time.Microsecond
}

// reset is how long it takes until nothing is used.
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
