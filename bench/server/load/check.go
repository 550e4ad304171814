package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// A decision is made at an unknown moment between the sending of a request and its answer. So the
// checker reports only what is wrong at every possible moment: a request that was denied although
// there was room during all of that time, or a window that certainly has more admissions than its
// limit allows.
//
// A request that was decided without Redis is charged to Redis later. If Redis had already charged
// it and the answer was lost, it is charged twice; that is the documented worst case. If it was
// denied, it may have been charged and refunded soon after.

// clocks is the maximum difference between the times that k6 and Redis read from the machine's
// clock.
const clocks = 2 * time.Millisecond

// ledger holds all certain and possible charges to one count.
type ledger struct {
	rule
	events []event // in ascending order of from
}

// event is a certain or possible charge. cost is the number of units that were certainly charged,
// and most is the number that may have been charged.
type event struct {
	from, to   time.Time
	cost, most int64
}

type findings struct {
	denied      int      // number of denied requests
	unjustified []string // denied requests that no limit justifies
	counts      int      // number of limits with charges, counted per user
	exceeded    []string // limits that were exceeded
}

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

// most returns the largest number of units that were certainly charged in one window.
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

// full reports whether the count may have lacked room for a denied request at some moment between
// its sending and its answer.
func (l *ledger) full(r rule, q *request) bool {
	if l == nil {
		return r.cost > r.max
	}
	since := q.from.Add(-l.window - clocks)
	if l.max > stint.Resolution { // units expire with the end of their slice
		since = since.Add(-l.window / stint.Resolution)
	}
	var used int64
	if q.degraded {
		used -= r.cost // exclude the request's own event
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
