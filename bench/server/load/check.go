package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// A decision is made between the sending of a request and its answer; nobody outside knows when
// exactly. So the checker finds what cannot be explained whenever it was made: a denial though
// there was room at every moment of that time, or more admissions than a limit has, all of them
// certainly in one window.
//
// An answer that was given without Redis is charged to it afterwards. If Redis has charged it
// before and its answer was lost, it is charged twice: that is promised to be the worst. One that
// is denied may have been charged, and given back a little later.

// clocks is how far readings of the machine's clock by k6 and by Redis may lie apart.
const clocks = 2 * time.Millisecond

// ledger is all that happened to one count.
type ledger struct {
	rule
	events []event // in the order of from
}

// event is a charge, or one that may have been made: of cost for sure, and of most if it comes to
// the worst.
type event struct {
	from, to   time.Time
	cost, most int64
}

// findings are what the checker has found.
type findings struct {
	denied      int      // requests that were
	unjustified []string // of those
	counts      int      // how many limits of how many users were used
	exceeded    []string // of those
}

// check judges all answers.
func check(log []request) findings {
	ledgers := map[string]*ledger{}
	for i := range log {
		r := &log[i]
		if r.denied() && !r.degraded {
			continue
		}
		for _, rule := range rulesFor(r.user, r.route) {
			l := ledgers[rule.key]
			if l == nil {
				l = &ledger{rule: rule}
				ledgers[rule.key] = l
			}
			e := event{from: r.from.Add(-clocks), to: r.to.Add(clocks), most: rule.cost}
			if r.admitted() {
				e.cost = rule.cost
				if r.degraded {
					e.most *= 2
				}
			}
			l.events = append(l.events, e)
		}
	}
	found := findings{counts: len(ledgers)}
	for _, l := range ledgers {
		slices.SortFunc(l.events, func(a, b event) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
		if most := l.most(); most > l.max {
			found.exceeded = append(found.exceeded,
				fmt.Sprintf("%s: %d in %v; the limit is %d", l.key, most, l.window, l.max))
		}
	}
	for i := range log {
		r := &log[i]
		if !r.denied() {
			continue
		}
		found.denied++
		rules := rulesFor(r.user, r.route)
		if !slices.ContainsFunc(rules, func(rule rule) bool { return ledgers[rule.key].full(rule, r) }) {
			found.unjustified = append(found.unjustified,
				fmt.Sprintf("%s, %s at %s: no limit was used up", r.user, r.route, r.to.Format(time.StampMicro)))
		}
	}
	slices.Sort(found.exceeded)
	slices.Sort(found.unjustified)
	return found
}

// most is the largest number of units that were certainly charged in one window.
func (l *ledger) most() int64 {
	var most int64
	for i, first := range l.events {
		end := first.from.Add(l.window)
		var sum int64
		for _, e := range l.events[i:] {
			if !e.from.Before(end) {
				break
			}
			if e.to.Before(end) {
				sum += e.cost
			}
		}
		most = max(most, sum)
	}
	return most
}

// full reports whether there may have been no room for a request that was denied at some moment
// from its sending to its answer.
func (l *ledger) full(r rule, q *request) bool {
	if l == nil {
		return r.cost > r.max
	}
	since := q.from.Add(-l.window - clocks)
	if l.max > stint.Resolution { // units leave with the end of their slice
		since = since.Add(-l.window / stint.Resolution)
	}
	var used int64
	if q.degraded {
		used -= r.cost // its own event
	}
	for _, e := range l.events {
		if e.from.After(q.to) {
			break
		}
		if e.to.After(since) {
			used += e.most
		}
	}
	return used+r.cost > l.max
}
