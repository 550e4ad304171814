package resilience

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// owed is what the store does not count, or may not, of what this process was granted under a
// limit.
type owed struct {
	// parts are what was granted in each part of the window, as in [count], and older what has left
	// it, which a limit that refills may still count.
	parts  [parts + 1]owedPart
	older  owedPart
	newest int64
	sum    owedPart // of all of them
	// refilled is the weight of what is due that the meter has given back.
	refilled int64
	// charged are those that were charged lately: answers of an earlier instant do not count them.
	charged []charged
	// paid are charges of what was due, of which some may be given back.
	paid []paidGroup
}

// owedPart is units that were granted without the store from one instant to another, and are not
// known to be charged. Those of them that are due are to be charged together, and no debt yet.
type owedPart struct{ uncharged, due, from, at int64 }

type charged struct {
	at     int64 // the store's instant,
	call   uint64
	until  int64 // when it leaves its window
	sure   int64 // any answer that arrives later counts it, whatever its instant
	units  int64
	weight int64 // that a meter was charged
}

// paidGroup is units that the store has charged together, and were granted from one instant to
// another.
type paidGroup struct {
	from, at, units int64
	charge          stint.Charge
}

const (
	// answerTime is longer than any answer is waited for, and maxCharged how many charges are
	// remembered for that time.
	answerTime = 10 * time.Second
	maxCharged = 8
	// maxPaid is how many charges of what was due are remembered.
	maxPaid = 64
)

// owes returns what is owed as of now.
func (c *count) owes(now int64) *owed {
	if c.owed == nil {
		c.owed = new(owed)
	}
	o, n := c.owed, c.number(now)
	for skip := max(o.newest+1, n-parts); skip <= n; skip++ {
		p := &o.parts[slot(skip)]
		if c.unit > 0 && p.uncharged > 0 {
			if o.older.uncharged == 0 {
				o.older.from = p.from
			}
			o.older.add(p.uncharged, p.due)
			o.older.at = p.at
		} else {
			o.sum.add(-p.uncharged, -p.due)
		}
		*p = owedPart{}
	}
	if o.newest = max(o.newest, n); now-o.older.at > meterLife(&c.Limit) {
		o.sum.add(-o.older.uncharged, -o.older.due)
		o.older = owedPart{}
	}
	return o
}

func (p *owedPart) add(uncharged, due int64) { p.uncharged, p.due = p.uncharged+uncharged, p.due+due }

// each goes through the parts, the oldest first, and until when they count.
func (c *count) eachOwed() iter.Seq2[int64, *owedPart] {
	return func(yield func(until int64, p *owedPart) bool) {
		life := meterLife(&c.Limit)
		if !yield(c.owed.older.at+life, &c.owed.older) {
			return
		}
		for n := c.owed.newest - parts; n <= c.owed.newest; n++ {
			p := &c.owed.parts[slot(n)]
			until := p.at + life
			if c.unit == 0 {
				until = c.until(n)
			}
			if p.uncharged > 0 && !yield(until, p) {
				return
			}
		}
	}
}

// owedAt returns the part of an instant; nil if nothing of that counts any more.
func (c *count) owedAt(t int64) *owedPart {
	switch {
	case c.owed == nil:
		return nil
	case c.number(t) >= c.owed.newest-parts:
		return &c.owed.parts[slot(min(c.number(t), c.owed.newest))]
	case c.unit > 0:
		return &c.owed.older
	}
	return nil
}

// uncounted is how many units that count the store's answer of an instant, to a call, does not. The
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
	if c.owed == nil {
		return 0
	}
	arrived := now
	if at == c.heard.at && call == c.heard.call {
		arrived = c.heard.arrived
	}
	units, _ = c.owed.after(at, call, arrived, now)
	if c.owed.sum.uncharged > 0 {
		for until, p := range c.eachOwed() {
			if until > now {
				units += p.uncharged
			}
		}
	}
	return units
}

// after is what was charged after the store's answer of an instant, to a call, and its weight.
func (o *owed) after(at int64, call uint64, arrived, now int64) (units, weight int64) {
	for i := range o.charged {
		p := &o.charged[i]
		later := p.at > at || p.at == at && (p.call/maxBatch != call/maxBatch || p.call > call)
		if later && p.until > now && p.sure > arrived {
			units += p.units
			weight += p.weight
		}
	}
	return units, weight
}

// owe counts units that this process was granted without the store, as of an instant; see grant.
func (c *count) owe(units, at, now int64) {
	if units <= 0 {
		return
	}
	c.grant(units, at, now, false)
	p := &c.owes(now).parts[slot(c.owed.newest)]
	if p.at = now; p.uncharged == 0 {
		p.from = now
	}
	p.add(units, 0)
	c.owed.sum.add(units, 0)
}

// unowe notes that units that were granted at a time are not owed any more, and returns how many
// were.
func (c *count) unowe(units, granted int64) int64 {
	p := c.owedAt(granted)
	if p == nil {
		return 0
	}
	units = max(min(units, p.uncharged-p.due), 0)
	p.add(-units, 0)
	c.owed.sum.add(-units, 0)
	return units
}

// together adds units that were granted at an instant, and are owed, to what is due.
func (c *count) together(units, at int64) {
	if p := c.owedAt(at); p != nil {
		units = min(units, p.uncharged-p.due)
		p.add(0, units)
		c.owed.sum.add(0, units)
	}
}

// cancel takes up to so many units off what was granted from one instant to another and is due. It
// returns how many are left.
func (c *count) cancel(units, from, to int64) int64 {
	if c.owed == nil {
		return units
	}
	for _, p := range c.eachOwed() {
		if p.from <= to && from <= p.at {
			gone := min(units, p.due)
			p.add(-gone, -gone)
			c.owed.sum.add(-gone, -gone)
			units -= gone
		}
	}
	return units
}

// repaid notes that the store has charged units that were granted at a time, but for what meters
// had refilled for some time.
func (c *count) repaid(units, granted, at int64, call uint64, now int64, refilled time.Duration) {
	if units = c.unowe(units, granted); units == 0 {
		return
	}
	o := c.owed
	o.charged = slices.DeleteFunc(o.charged, func(p charged) bool {
		return p.until <= now || p.sure <= c.heard.arrived
	})
	weight, until := int64(0), granted+int64(c.Window)+c.part
	if m := c.meter; m != nil {
		weight, until = min(max(c.weight(units)-c.given(refilled), 0), m.local), math.MaxInt64
		m.stored, m.local = m.stored+weight, m.local-weight
	}
	if n := len(o.charged); n == maxCharged {
		first, next := &o.charged[0], &o.charged[1]
		next.units, next.weight = next.units+first.units, next.weight+first.weight
		next.until, next.sure = max(next.until, first.until), max(next.sure, first.sure)
		o.charged = slices.Delete(o.charged, 0, 1)
	}
	o.charged = append(o.charged, charged{at, call, until, now + int64(answerTime), units, weight})
}

// keep remembers what was charged together.
func (o *owed) keep(g paidGroup) {
	if len(o.paid) == maxPaid {
		o.paid = slices.Delete(o.paid, 0, 1)
	}
	o.paid = append(o.paid, g)
}
