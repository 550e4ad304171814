package histories

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// The judge looks only at what callers were told and when: an admission happened at some instant
// from its call to its return, and the judge is lenient by exactly that. What it holds a history
// to:
//
//   - over: what the server admitted, in any window, is at most the limit; what others admitted
//     without it counts once they have had the time to charge it. So is what one process admitted,
//     with and without the server: with one process that is all there is. So is what the server
//     admits to a process together with what that process had admitted without it.
//   - share: without the server a process of several admits at most its share.
//   - mode: nobody is admitted without the server under deny and error.
//   - room: nobody is denied for whom there was room, beyond what is stated: an unknown outcome may
//     count once too much, and a denial is repeated for up to a second. What was admitted without
//     the server counts as of its admission, or a sixteenth of its window later; until that is
//     settled it may count twice, and without the server for another sixteenth.
//   - ledger: in the end the server has counted every admission, and nothing else but what it was
//     impossible to know about: no refund that was accepted, and no booking that was given up or
//     moved.
//   - places: no more hold a place under a concurrency limit than it has, and in the end nobody
//     does.
//   - calm: nobody is admitted or turned away without the server while that is well, however short
//     its own deadline is: it gets its answer late, or that error, and then nothing is charged. A
//     process may overrule the server, with a denial, as long as that does not count all that was
//     admitted without it.
//   - ban: nobody is admitted by the server that has banned it, nor by the only process that knows
//     of the ban. Nobody is banned without enough denials, and for longer than these can lead to.
//   - budget: nobody waits for longer than the time budget, also to settle a charge or to give a
//     place back, once the process has had a second to start. Who waits until a deadline may have
//     asked just before, and then gives back what it had.
//
// A loss of the server's state and a reset begin anew. What is owed by a process that died is never
// charged.

// Times that the stack is given.
const (
	// settling is how long a process that is well takes at most to charge what it owes and to give
	// back what nobody used: its outcome is followed up for a second, then it goes in the
	// background.
	settling = 4 * time.Second
	// sending is how long what a process owes may take to the server. Its age is that at its
	// sending, and the server subtracts it from the instant of its arrival: so it counts longer by
	// the time that it is under way, also if that is spent in a process that is starved just then.
	// The server does not charge it after its deadline, which is that long after the age was taken.
	sending = 250 * time.Millisecond
	// steady is how long a process that is well may take to notice.
	steady = 3 * time.Second
	// starting is for how long after its start a process may wait, beyond the budget, until the
	// server has counted it: it would else take itself to be alone, and admit whole limits.
	starting = time.Second
	// remembered is how long a denial is repeated.
	remembered = time.Second
	// resolution is that of the clocks of stores, which do not all begin at the same nanosecond.
	resolution = time.Microsecond
	// late is how much later than its budget a decision may come.
	late = 2 * time.Millisecond
)

type judge struct {
	*history
	found []string
}

// verdict returns everything that is wrong with a history.
func verdict(h *history) []string {
	j := &judge{history: h}
	for s := range h.subjects {
		switch {
		case h.subjects[s].places():
			j.places(s)
		case h.subjects[s].hold > 0:
			j.streams(s)
		default:
			j.rates(s)
		}
		if h.subjects[s].bans != nil {
			j.bans(s)
		}
	}
	j.denials()
	for _, o := range h.ops {
		j.times(o)
	}
	for _, r := range h.readings {
		j.reading(r)
	}
	return j.found
}

func (j *judge) object(what string, format string, args ...any) {
	j.found = append(j.found, what+": "+fmt.Sprintf(format, args...))
}

// settled is when everything that a process has begun by t is surely over, if it lives that long:
// the end of the first stretch in which it is well for long enough.
func (p *process) settled(t time.Duration) time.Duration {
	for _, trouble := range p.troubles { // in order
		if trouble.to >= t && trouble.from <= t+settling {
			t = max(t, trouble.to)
		}
	}
	return t + settling
}

// charged is when everything that a process owes at t is surely charged: never, if it dies before.
func (p *process) charged(t time.Duration) time.Duration {
	if t = p.settled(t); p.died < t {
		return never
	}
	return t
}

// well reports whether a process has been well throughout.
func (p *process) well(from, to time.Duration) bool {
	return !overlaps(p.troubles, span{from, to})
}

// item is an admission: n units, at some instant of a span.
type item struct {
	span
	n  int64
	op *op
	// given is units that were charged too, and given back, at last at an instant.
	given int64
	back  time.Duration
}

// admissions are those of a subject, by their end.
func (j *judge) admissions(s int) []item {
	var items []item
	for _, o := range j.ops {
		if o.told == allowed && !o.repeat && !o.flat && o.cost(s) > 0 {
			items = append(items, item{span: j.instant(o), n: o.cost(s), op: o})
		}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.to, b.to) })
	return items
}

// instant is when an admission happened. A waiter uses its booking at the end. It has none if it
// was admitted without the server: then it was admitted at some instant before its process was
// starved, and told so after that; or while its process was starting, and told so once that had
// started. Of requests with one id that are under way together, the server charges the one that
// arrives first, which is not always the one that the process takes for the first. What is admitted
// without the server may repeat a request that the server charged before and whose answer was lost.
func (j *judge) instant(o *op) span {
	from, p := o.call, &j.processes[o.process]
	for _, q := range j.ops {
		if o.id == "" || q.id != o.id || q.call > o.ret {
			continue
		}
		if q.told == allowed && q.ret >= o.call || q.turnedAway() && o.degraded {
			from = min(from, q.call)
		}
	}
	if o.kind == wait && !(o.degraded && p.isStarved(span{o.call, o.ret})) && o.ret > p.born+starting {
		from = max(from, o.ret-j.grace(o)-j.budget)
	}
	return span{from - resolution, o.ret}
}

func (j *judge) grace(o *op) time.Duration {
	var r stint.Request
	for _, c := range o.claims {
		r.Claims = append(r.Claims, stint.Claim{Limits: j.subjects[c.subject].limits})
	}
	return contract.Grace(&r)
}

// forgotten reports whether what was charged, or booked, from an instant on may have been forgotten
// by another, because the server's state was lost or the subject was reset.
func (j *judge) forgotten(s int, from, by time.Duration) bool {
	anew := func(r span) bool { return r.from <= by && from <= r.to }
	return slices.ContainsFunc(j.losses, anew) ||
		slices.ContainsFunc(j.resets, func(r reset) bool { return r.subject == s && anew(r.span) })
}

// rates holds the admissions of a subject to each of its limits.
func (j *judge) rates(s int) {
	all := j.admissions(s)
	for _, x := range all {
		if x.op.mode != stint.FailLocal && x.op.degraded {
			j.object("mode", "under %v: %v", x.op.mode, x.op)
		}
	}
	for i := range j.subjects[s].limits {
		j.rate(s, &j.subjects[s].limits[i], all)
	}
}

// rate holds the admissions of a subject to one of its limits.
func (j *judge) rate(s int, l *stint.Limit, all []item) {
	ids := map[string]*op{}
	for i, x := range all {
		if first := ids[x.op.id]; x.op.id != "" && first != nil {
			continue // it may have been charged once for both
		}
		ids[x.op.id] = x.op
		if x.op.kind == wait && j.forgotten(s, x.op.call, x.to) {
			continue // its place may have been
		}
		// what the server counted, what x's process admitted, and what it and the server knew
		// together
		server := j.returned(s, l, x.to)
		own, known := slices.Clone(server), slices.Clone(server)
		for _, a := range all[:i] { // a ended before x did
			if a.op.id != "" && ids[a.op.id] != a.op || j.forgotten(s, a.op.call, x.to) {
				continue
			}
			a.n = a.op.least(s, x.to)
			if back := a.op.cost(s) - a.n; back > 0 && l.Algorithm == stint.AlgorithmSliding {
				given := item{span: a.span, op: a.op, given: back, back: j.applied(a.op, a.op.amends[0])}
				server, own, known = append(server, given), append(own, given), append(known, given)
			}
			before := a.to < x.op.call // when its place was given, if it waited
			mine := a.op.process == x.op.process
			if mine {
				own = append(own, a)
			}
			charged := !a.op.degraded || j.processes[a.op.process].charged(a.to) < x.op.call
			if charged {
				server = append(server, a)
			}
			if before && (charged || mine) {
				known = append(known, a)
			}
		}
		if n, over := exceeds(l, x, own); over {
			j.object("over", "subject %d: process %d admitted %d under %v: %v", s, x.op.process, n, l, x.op)
		} else if n, over := exceeds(l, x, server); over && !x.op.degraded {
			j.object("over", "subject %d: the server admitted %d under %v: %v", s, n, l, x.op)
		} else if n, over := exceeds(l, x, known); over && !x.op.degraded {
			j.object("over", "subject %d: the server and process %d admitted %d under %v: %v", s, x.op.process, n, l, x.op)
		}
		if p := &j.processes[x.op.process]; x.op.degraded && p.instances > 1 && !j.uncounted(p, x.to) {
			j.share(s, l, x, own)
		}
	}
}

// returned are requests that nobody was admitted with by an instant, and that the server may have
// charged and given back. The log has what they were charged, so the meter beside it takes all of
// that off its level, also what it has refilled since: docs/rules.md, settle. So much more is
// admitted than the meter alone would have.
func (j *judge) returned(s int, l *stint.Limit, at time.Duration) (items []item) {
	if l.Algorithm != stint.AlgorithmSliding || !contract.HasMeter(l) {
		return nil
	}
	for _, o := range j.ops {
		if cost := o.cost(s); cost > 0 && o.call <= at && o.turnedAway() {
			items = append(items, item{span: span{o.call, o.ret}, op: o, given: cost,
				back: j.processes[o.process].settled(o.ret)})
		}
	}
	return items
}

// uncounted reports whether a process may not know how many there are: it began when the server had
// just lost its state and had not heard of the others again; or the server has not yet heard of all
// that began with it.
func (j *judge) uncounted(p *process, at time.Duration) bool {
	if slices.ContainsFunc(j.losses, func(l span) bool { return l.from <= p.born && p.born <= l.to+2*time.Second }) {
		return true
	}
	complete := warmUp
	for i := range j.processes {
		for _, t := range j.processes[i].troubles { // in order
			if t.from < complete {
				complete = max(complete, t.to+settling)
			}
		}
	}
	died := func(q process) bool { return q.died < complete }
	return p.heard < at && (at < complete || slices.ContainsFunc(j.processes, died))
}

// share holds what a process of several admitted since it lost the server to its share.
func (j *judge) share(s int, l *stint.Limit, x item, own []item) {
	lost := time.Duration(-1) // the last answer of the server's
	for _, o := range j.ops {
		if o.process == x.op.process && o.ret <= x.to && !o.degraded && (o.told == allowed || o.told == denied) {
			lost = max(lost, o.ret)
		}
	}
	// Unless no answer of the server's could reach the process between two admissions, one may
	// have, late or to what was charged in the background. Then what is left is divided anew.
	p := &j.processes[x.op.process]
	heard := func(a item) bool {
		return !slices.ContainsFunc(p.dark, func(d span) bool { return d.from <= a.op.call && x.op.call <= d.to })
	}
	own = slices.DeleteFunc(slices.Clone(own),
		func(a item) bool { return !a.op.degraded || a.from <= lost || heard(a) })
	part := *l
	n := int64(p.instances)
	burst := part.Capacity()
	part.Max, part.Burst = (part.Max+n-1)/n, (burst+n-1)/n
	if n, over := exceeds(&part, x, own); over {
		j.object("share", "subject %d: process %d admitted %d by itself, its share is %d: %v", s, x.op.process, n, part.Burst, x.op)
	}
}

// epoch is the start of every history, which is that of bubbles, before and after which fixed
// windows are counted.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func windowOf(l *stint.Limit, t time.Duration) int64 {
	return epoch.Add(t).UnixMicro() / l.Window.Microseconds()
}

// exceeds reports whether more units than a limit allows were surely admitted in a window that ends
// with x, and how many there were.
func exceeds(l *stint.Limit, x item, before []item) (n int64, over bool) {
	capacity := l.Capacity()
	if l.Burst > 0 {
		capacity = l.Burst
	}
	n = x.n
	if l.Algorithm == stint.AlgorithmFixed {
		w := windowOf(l, x.to)
		if windowOf(l, x.from) != w {
			return n, n > capacity
		}
		for _, a := range before {
			if windowOf(l, a.from) == w && windowOf(l, a.to) == w {
				n += a.n
			}
		}
		return n, n > capacity
	}
	items := append(slices.Clone(before), x)
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(b.from, a.from) })
	if l.Algorithm == stint.AlgorithmSliding {
		sum := int64(0)
		for _, a := range items {
			if a.from > x.to-l.Window {
				sum += a.n
			}
		}
		if sum > capacity || !contract.HasMeter(l) {
			return sum, sum > capacity
		}
	}
	_, _, tick := l.Meter() // it gives back whole ticks
	sum := int64(0)
	for _, a := range items {
		sum += a.n
		refilled := leaked(l, x.to-a.from+time.Duration(tick)*time.Microsecond)
		if float64(sum)-credit(l, a.span, items) > float64(capacity)+refilled+1e-6 {
			return sum, true
		}
	}
	return sum, false
}

// credit is by how much the level of a meter may be below the units that have been charged by an
// instant and are given back after it: the meter has refilled them, and gives them back all the
// same. It has not refilled more than in the time since the first of them was charged, or the first
// of others that were yet to be given back when that was.
func credit(l *stint.Limit, at span, items []item) float64 {
	given, begin := int64(0), at.from
	for _, b := range items { // the last that began first
		if b.given > 0 && b.from <= at.to && b.back >= at.from {
			given += b.given
		}
		if b.given > 0 && b.from < begin && b.back >= begin {
			begin = b.from
		}
	}
	return min(float64(given), leaked(l, at.to-begin))
}

// leaked is what a meter gives back in some time.
func leaked(l *stint.Limit, t time.Duration) float64 {
	return float64(l.Max) * float64(t) / float64(l.Window)
}

// times holds an op to what it may take, and to the server while that is well.
func (j *judge) times(o *op) {
	p := &j.processes[o.process]
	if o.told == nothing {
		return
	}
	if o.degraded && (o.told == allowed || o.flat) && p.well(o.call-steady, o.ret) && o.call-steady > p.born {
		j.object("calm", "decided without the server, which has been well for %v: %v", steady, o)
	}
	if hurried := o.deadline > 0 && o.ret+resolution >= o.call+o.deadline; o.told == failed && !hurried &&
		p.well(o.call-steady, o.ret) && o.call-steady > p.born {
		j.object("calm", "failed without the server, which has been well for %v: %v", steady, o)
	}
	longest := j.budget
	if o.kind == wait {
		longest += o.deadline + j.budget
	}
	if begun := p.born + starting; o.call < begun {
		longest += begun - o.call
	}
	j.inTime("took", o, span{o.call, o.ret}, longest)
	for _, a := range o.amends {
		j.inTime("settling took", o, span{a.call, a.ret}, j.budget)
	}
	j.inTime("giving back took", o, o.giving, j.budget)
}

// inTime holds something that a caller waits for to how long that may take.
func (j *judge) inTime(what string, o *op, took span, longest time.Duration) {
	p := &j.processes[o.process]
	if took.to-took.from > longest+late && !p.isStarved(took) && took.to < p.died {
		j.object("budget", "%s %v: %v", what, took.to-took.from, o)
	}
}

// isStarved reports whether something that took so long may have waited for its own process.
func (p *process) isStarved(took span) bool { return overlaps(p.starved, took) }

// isDelayed reports whether what a process sent in a span may have been under way for long.
func (p *process) isDelayed(in span) bool { return overlaps(p.delayed, in) }

func overlaps(spans []span, with span) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.from <= with.to && s.to >= with.from })
}

// reading holds what the server counts in the end to what callers were told.
func (j *judge) reading(r reading) {
	s := r.subject
	if j.subjects[s].hold > 0 {
		j.streamed(r)
		return
	}
	if j.subjects[s].places() && r.places != 0 {
		j.object("places", "subject %d: %d places are taken in the end", s, r.places)
	}
	if !j.subjects[s].ledger {
		return
	}
	least, most := int64(0), int64(0)
	for _, u := range j.unknowns {
		if u.subject == s {
			most += u.n
		}
	}
	ids, repeats, asked, turned := map[string]int64{}, map[string]int64{}, map[string]int{}, map[string]bool{}
	for _, o := range j.ops {
		asked[o.id]++
		turned[o.id] = turned[o.id] || o.id != "" && o.turnedAway()
	}
	for _, o := range j.ops {
		cost := o.cost(s)
		if cost == 0 {
			continue
		}
		p := &j.processes[o.process]
		dies := p.charged(o.ret) == never
		// An answer that is lost takes the whole budget, unless its connection is cut: a waiter that
		// did not wait for that long moved no booking, and used the one that it was told of.
		moved := o.ret > o.call+j.budget && !p.well(o.call, o.ret) || overlaps(p.cuts, span{o.call, o.ret})
		if o.kind == wait && (dies || moved || j.forgotten(s, o.call, o.ret)) {
			// Bookings that it gave back, or moved to a place that no reply told; or that stay, on
			// limits that were not reset, since charges from before a reset cannot be amended.
			most += 2 * cost
		}
		switch {
		case o.told == allowed && o.flat && o.kind == wait && !dies: // what it was charged is given back
		case o.told == allowed && o.flat, o.told == nothing, o.turnedAway() && dies:
			most += cost // whether it was charged, and not given back, nobody can tell
		case o.turnedAway() && o.id != "" && asked[o.id] > 1:
			most += cost // what was repeated is not refunded
		case o.told == allowed && o.repeat && !o.degraded:
			repeats[o.id] = cost
		case o.told == allowed:
			n, all := j.final(o, s)
			most += all
			switch {
			case j.forgotten(-1, o.call, j.length),
				turned[o.id] && j.forgotten(s, o.call, j.length), // a reset forgets that the id was repeated
				o.degraded && dies, o.repeat:
				n = 0
			}
			if o.id != "" {
				ids[o.id] = max(ids[o.id], n)
			} else {
				least += n
			}
		}
	}
	for _, n := range ids {
		least += n
	}
	for id, n := range repeats {
		if _, charged := ids[id]; !charged {
			most += n // of a request whose caller was not told that it was allowed
		}
	}
	if r.ledger < least || r.ledger > most && len(j.losses) == 0 { // what is restored may have been given back
		j.object("ledger", "subject %d: the server counts %d units; callers were told of %d to %d", s, r.ledger, least, most)
	}
}
