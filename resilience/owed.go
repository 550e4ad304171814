package resilience

import (
	"math"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// owed keeps track of the units granted to this process under one limit that the store has not
// counted, or may not have counted.
type owed struct {
	parts []owedPart // the oldest first
	// charged holds recent charges. Answers that the store gave before a charge do not count it.
	charged []charged
	// paid holds groups that the store has charged and whose units may be given back in part.
	paid []*debt
}

// owedPart counts units that were granted without the store in one part of the window, between the
// times `from` and `at`. uncharged is the number of units that are not known to be charged. due is
// the number of these that will be charged as a group but are not a debt yet. first is when the
// first of the due units was granted. Under a limit that refills, units that have left the window
// may still count: they are all in the oldest part.
type owedPart struct{ uncharged, due, from, at, first int64 }

type charged struct {
	at     int64 // the time of the charge, by the store's clock
	call   uint64
	until  int64 // when the charge leaves its window
	sure   int64 // any answer that arrives later than this counts the charge
	units  int64
	weight int64
}

const (
	// answerTime is longer than any wait for an answer. maxCharged is the maximum number of charges
	// that are remembered for that time.
	answerTime = 10 * time.Second
	maxCharged = 8
	// maxPaid is the maximum number of charged groups that are remembered.
	maxPaid = 64
)

// owes returns the units that the process owes under the limit, without those that no longer count.
func (c *count) owes(now int64) *owed {
	if c.owed == nil {
		c.owed = new(owed)
	}
	o, first := c.owed, c.number(now)-parts
	o.parts = slices.DeleteFunc(o.parts, func(p owedPart) bool { return p.uncharged == 0 || c.owedUntil(&p) <= now })
	for len(o.parts) > 1 && c.number(o.parts[1].at) < first {
		old, p := o.parts[0], &o.parts[1]
		if old.due > 0 {
			p.first = old.first
		}
		p.uncharged, p.due, p.from = p.uncharged+old.uncharged, p.due+old.due, old.from
		o.parts = slices.Delete(o.parts, 0, 1)
	}
	return o
}

// owedUntil returns the time until which a part counts.
func (c *count) owedUntil(p *owedPart) int64 {
	if c.unit > 0 {
		return p.at + meterLife(&c.Limit)
	}
	return c.until(c.number(p.at))
}

func (o *owed) due() (units int64) {
	for i := range o.parts {
		units += o.parts[i].due
	}
	return units
}

// owedAt returns the part that contains a grant made at t, or nil if the grant no longer counts.
func (c *count) owedAt(t int64) *owedPart {
	if c.owed != nil {
		for i := range c.owed.parts {
			if p := &c.owed.parts[i]; p.from <= t && t <= p.at {
				return p
			}
		}
	}
	return nil
}

// uncounted returns how many of the units that count now are missing from an answer of the store.
// at is the time of the answer by the store's clock, and call is its number; see [ledger.nextCall].
// If at is math.MaxInt64, uncounted returns how many units the store has not charged at all.
func (c *count) uncounted(at int64, call uint64, now int64) (units int64) {
	if c.Algorithm == stint.AlgorithmConcurrency {
		for i := range c.holders {
			h := &c.holders[i]
			if h.stored <= now || at != math.MaxInt64 && c.ledger.instant(at, now) < h.since {
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
	return units + c.uncharged(now)
}

// uncharged returns how many of the units that count now are not known to be charged.
func (c *count) uncharged(now int64) (units int64) {
	for i := range c.owed.parts {
		if p := &c.owed.parts[i]; c.owedUntil(p) > now {
			units += p.uncharged
		}
	}
	return units
}

// after returns the number and the weight of the units that the store charged after it gave an
// answer. at is the time of the answer by the store's clock, call is its number, and arrived is the
// time at which it arrived.
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

// owe counts units that were granted to this process without the store at the given time; see
// [count.grant]. now is read under the lock, so it never decreases from one call to the next.
func (c *count) owe(units, at, now int64) {
	if units <= 0 {
		return
	}
	c.grant(units, at, now, false)
	o := c.owes(now)
	last := len(o.parts) - 1
	if last < 0 || c.number(o.parts[last].at) != c.number(now) {
		o.parts = append(o.parts, owedPart{from: now})
		last++
	}
	p := &o.parts[last]
	p.uncharged, p.at = p.uncharged+units, now
}

// unowe subtracts units that were granted at the given time from those that are owed but not due.
// It returns how many it subtracted.
func (c *count) unowe(units, granted int64) int64 {
	p := c.owedAt(granted)
	if p == nil {
		return 0
	}
	units = max(min(units, p.uncharged-p.due), 0)
	p.uncharged -= units
	return units
}

// together makes owed units due, in the part of the window that contains the time `at`. Due units
// are charged as a group.
func (c *count) together(units, at int64) {
	p := c.owedAt(at)
	if p == nil {
		return
	}
	if p.due == 0 || at < p.first {
		p.first = at
	}
	p.due += min(units, p.uncharged-p.due)
}

// cancel subtracts units from the due units that were granted between the times `from` and `to`. It
// returns how many units are left to subtract.
func (c *count) cancel(units, from, to int64) int64 {
	if c.owed == nil {
		return units
	}
	for i := range c.owed.parts {
		if p := &c.owed.parts[i]; p.first <= to && from <= p.at {
			gone := min(units, p.due)
			p.uncharged, p.due, units = p.uncharged-gone, p.due-gone, units-gone
		}
	}
	return units
}

// repaid records that the store has charged units that were granted at the given time. at is the
// time of the charge by the store's clock, and call is the number of its answer. truth is the
// number of units that stay charged: the others will be given back, so the meter no longer counts
// them. The store's meter also leaves out units that were refilled, before the charge or since.
// refilled is the duration of that refill, which lowered the level in the store and not the level
// of the units that are still owed.
func (c *count) repaid(units, truth, granted, at int64, call uint64, now int64, refilled time.Duration) {
	if units = c.unowe(units, granted); units == 0 {
		return
	}
	o := c.owed
	o.charged = slices.DeleteFunc(o.charged, func(p charged) bool {
		return p.until <= now || p.sure <= c.heard.arrived
	})
	weight, until := int64(0), granted+int64(c.Window)+c.part
	if m := c.meter; m != nil {
		weight = c.weight(min(units, truth)) - c.given(refilled)
		weight = min(max(weight, m.local-c.weight(c.uncharged(now)), 0), m.local)
		until = math.MaxInt64
		m.stored, m.local = m.stored+weight, m.local-weight
	}
	if n := len(o.charged); n == maxCharged {
		first, next := &o.charged[0], &o.charged[1]
		if first.at > next.at || first.at == next.at && first.call > next.call { // answers may arrive in any order
			next.at, next.call = first.at, first.call
		}
		next.units, next.weight = next.units+first.units, next.weight+first.weight
		next.until, next.sure = max(next.until, first.until), max(next.sure, first.sure)
		o.charged = slices.Delete(o.charged, 0, 1)
	}
	o.charged = append(o.charged, charged{at, call, until, now + int64(answerTime), units, weight})
}

// keep remembers a charged group for as long as its units can be given back.
func (c *count) keep(g *debt, now int64) {
	o := c.owed
	o.paid = slices.DeleteFunc(o.paid, func(old *debt) bool { return now-old.at > int64(c.Window)+c.part })
	if len(o.paid) == maxPaid {
		o.paid = slices.Delete(o.paid, 0, 1)
	}
	o.paid = append(o.paid, g)
}
