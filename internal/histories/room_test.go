package histories

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// stay is units that may have been counted: from an instant on, and as if they had been charged no
// later than until.
type stay struct {
	from, until time.Duration
	n           func(at time.Duration) int64
	op          *op
	here        bool // a process may count it, the server does not
	share       bool // it was granted without the server, out of the process's share
}

// stays are what may ever have been counted of a subject. An answer that was lost may have been
// charged all the same, until that is settled. A process may count an admission without the server
// twice until then, for it does not know of the server's charge, and the server only what no
// process can account for. What an admission really cost more may be charged when that is known.
func (j *judge) stays(s int, l *stint.Limit) []stay {
	var all []stay
	for _, o := range j.ops {
		cost := o.cost(s)
		if cost == 0 {
			continue
		}
		p := &j.processes[o.process]
		settled := p.settled(o.ret)
		most := func(at time.Duration) int64 { return j.most(o, s, at) }
		if contract.HasMeter(l) { // it gives nothing back that has been refilled since
			most = func(at time.Duration) int64 { return max(cost, j.most(o, s, at)) }
		}
		switch {
		case o.told == denied && !o.degraded && o.kind != wait, o.repeat && !o.degraded:
		case o.told == allowed && !o.degraded && o.kind != wait:
			all = append(all, stay{from: o.call, until: o.ret, n: most, op: o})
		case o.kind == wait && o.told == allowed && !o.degraded:
			all = append(all, stay{from: o.call, until: max(j.decided(o), o.ret+j.grace(o)), n: most, op: o},
				j.unbooked(o, cost))
		case o.told == allowed:
			twice := unsettled(o, j.decided(o), cost, settled)
			twice.here = true
			until := j.decided(o) + l.Window/16 // what was granted in that time is charged as of its end
			if contract.HasMeter(l) && (j.present(p, settled) > 1 || j.blind(o, s, l) ||
				j.doubts(o.process, s, span{o.ret, settled}) > 1) {
				// Others may have used all that was refilled. Or of several charges that were sent
				// and not answered, each is taken to have: which of them were made is not known.
				until = max(until, settled)
			}
			if p.isDelayed(span{o.ret, settled}) { // it may have been under way
				until += sending
			}
			if all = append(all, stay{from: o.call, until: until, n: most, op: o}, twice); o.kind == wait {
				all = append(all, j.unbooked(o, cost))
			}
		case o.kind == wait:
			all = append(all, j.unbooked(o, cost))
			if o.told == nothing && !p.well(o.call, o.ret) { // and one whose move no reply told
				all = append(all, j.unbooked(o, cost))
			}
		case o.id != "": // what was repeated is not refunded
			all = append(all, unsettled(o, j.decided(o), cost, never))
		default:
			back := p.charged(o.ret)
			given := unsettled(o, j.decided(o), cost, back)
			if l.Algorithm == stint.AlgorithmBucket {
				// It gives back less what it refilled since: docs/rules.md, settle. So a charge
				// that is refunded uses up that part of the refill for good.
				stays := min(cost, int64(math.Ceil(leaked(l, back-o.call))))
				until := given.n
				given.n = func(at time.Duration) int64 { return max(until(at), stays) }
			}
			all = append(all, given)
		}
		for _, a := range o.amends {
			if more := a.cost - cost; more > 0 && (a.applied || a.failed) {
				raise := func(time.Duration) int64 { return more }
				applied := j.applied(o, a)
				all = append(all, stay{from: a.call, until: applied, n: raise, op: o, share: applied > a.ret})
			}
		}
	}
	for _, u := range j.unknowns {
		if u.subject == s {
			all = append(all, stay{from: u.from, until: u.to, n: func(time.Duration) int64 { return u.n },
				op: &op{process: -1}})
		}
	}
	for _, lost := range j.losses {
		restored(all, lost, l.Window/16)
	}
	return all
}

// restored has what was counted before a loss of the server's state count as if it had been charged
// with the newest that was granted until processes told the server, a booking among it: they tell
// what was used, and not since when. It is not given back any more. What a process was granted
// itself, until it has told the server, may count longer by a part of its window.
func restored(all []stay, lost span, part time.Duration) {
	newest, before := lost.to, func(a *stay) bool { return a.from <= lost.to+steady }
	for i := range all {
		if a := &all[i]; before(a) && a.until != never {
			newest = max(newest, a.until)
		}
	}
	for i := range all {
		if a := &all[i]; before(a) {
			n, first := a.n, a.n(a.from)
			if a.until != never {
				a.until = max(a.until, newest) + part
			}
			a.n = func(at time.Duration) int64 { return max(n(at), first) }
		}
	}
}

// doubts is how many charges of a process were not answered in some time: of what it owes of a
// subject, and of requests with an id, which it sends again under that. It took their time to ask
// the server.
func (j *judge) doubts(process, s int, in span) (n int) {
	p := &j.processes[process]
	for _, d := range p.unsure {
		if d.subject == s && in.from <= d.at && d.at <= in.to {
			n++
		}
	}
	for _, o := range j.ops {
		if o.process == process && o.cost(s) > 0 && o.id != "" && !o.repeat && o.told == allowed && o.degraded &&
			o.ret > o.call && o.ret <= in.to && p.settled(o.ret) >= in.from {
			n++
		}
	}
	return n
}

// blind reports whether a process cannot know how full a limit that refills was when it began. The
// server has not answered it about the subject, and not all that a process before it may have used
// has been refilled since. What was refilled may have been of that: so the process charges the
// server with all that it granted, and not only with what its own count says is left of that. A
// denial of several subjects may be because of another one: what is not used is not remembered.
func (j *judge) blind(o *op, s int, l *stint.Limit) bool {
	if leaked(l, o.ret-j.processes[o.process].born) > float64(l.Capacity()) {
		return false
	}
	return !slices.ContainsFunc(j.ops, func(a *op) bool {
		return a.process == o.process && a.cost(s) > 0 && a.ret <= o.ret && !a.degraded && a.kind != wait &&
			(a.told == allowed || a.told == denied && len(a.claims) == 1)
	})
}

// unbooked is the bookings that a waiter made and did not use. They count as of their end, which is
// not after the waiter's deadline, until they are given back: never, if the answer to a move was
// lost, for then nobody knows where they are.
func (j *judge) unbooked(o *op, cost int64) stay {
	p := &j.processes[o.process]
	gone := p.charged(o.ret)
	if !p.well(o.call, o.ret) {
		gone = never
	}
	asked := o.call + j.budget
	if p.heard > o.call { // it may run when its time is up
		asked = p.settled(o.call)
	}
	return unsettled(o, max(asked+o.ahead, min(o.ret, j.length))+j.grace(o), cost, gone)
}

// unsettled is what an op may have been charged by the server until an instant, without its caller
// or its process knowing, until that is settled.
func unsettled(o *op, until time.Duration, cost int64, settled time.Duration) stay {
	return stay{from: o.call, until: until, op: o, n: func(at time.Duration) int64 {
		if at < settled {
			return cost
		}
		return 0
	}}
}

// denials holds every denial by limits of rates to what was used.
func (j *judge) denials() {
	stays := map[*stint.Limit][]stay{}
	for s := range j.subjects {
		for i := range j.subjects[s].limits {
			l := &j.subjects[s].limits[i]
			stays[l] = j.stays(s, l)
		}
	}
	for _, o := range j.ops {
		if o.told != denied || o.flat || o.banned || o.kind != take {
			continue
		}
		full := slices.ContainsFunc(o.claims, func(c claim) bool {
			limits := j.subjects[c.subject].limits
			for i := range limits {
				if l := &limits[i]; j.full(c.subject, l, o, stays[l]) {
					return true
				}
			}
			return false
		})
		if !full {
			s := o.claims[0].subject
			j.object("room", "subject %d, %v: %v", s, j.subjects[s].limits, o)
		}
	}
}

// full reports whether there may have been no room under a limit for an op's part of a subject at
// some instant at which it may have been decided.
func (j *judge) full(s int, l *stint.Limit, o *op, stays []stay) bool {
	cost := o.cost(s)
	if cost > l.Capacity() {
		return true
	}
	from, p := o.call, &j.processes[o.process]
	// It may be from memory if it took no time, as the way to the server does.
	switch atOnce := o.ret == o.call || p.isStarved(span{o.call, o.ret}); {
	case o.id != "" || !atOnce:
	case o.degraded: // what was decided without the server is repeated for a tenth of the time
		from -= remembered / 10
	default:
		from -= remembered
	}
	window := l.Window
	shares := int64(1)
	// A process may have learned from other answers that the server has charged something, and not
	// that it was this op.
	told := o.degraded && !p.isDark(o)
	stays = slices.DeleteFunc(slices.Clone(stays),
		func(a stay) bool { return a.op == o && !told || a.here && !o.degraded })
	if o.degraded {
		shares = j.present(p, o.call)
		later, delayed := l.Window/16, p.isDelayed(span{o.call - sending, o.ret})
		if delayed { // what an answer says counts from its arrival on
			later += sending
		}
		for i := range stays {
			a := &stays[i]
			if a.until == never {
				continue
			}
			if a.until += later; a.op.kind == wait && a.op.told == allowed && a.op.process == o.process {
				a.until += l.Window // bookings count as used by others, until the reset in the last answer
			}
			if delayed && l.Algorithm == stint.AlgorithmFixed && windowOf(l, a.until) >= windowOf(l, o.call-sending) {
				a.until = max(a.until, o.ret) // and a window ends as much later
			}
		}
	}
	if o.degraded && (shares > 1 || p.born > 0) {
		// It goes by what the server last said that others had used. That decays, maybe too slowly,
		// and what they gave back since is not known.
		window *= 2
		for i := range stays {
			if a := &stays[i]; a.op.process != o.process {
				given := a.n
				a.n = func(at time.Duration) int64 { return max(given(at), given(a.op.ret)) }
			}
		}
	}
	at := []time.Duration{from, o.ret}
	for _, a := range stays {
		for _, t := range []time.Duration{a.from, a.until} {
			if from < t && t < o.ret {
				at = append(at, t)
			}
		}
	}
	for _, t := range at {
		u := used(l, window, t, stays)
		if u+float64(cost) > float64(l.Capacity()) {
			return true
		}
		if shares > 1 {
			mine := slices.DeleteFunc(slices.Clone(stays),
				func(a stay) bool { return a.op.process != o.process || !a.op.degraded && !a.share })
			left := max(0, l.Capacity()-int64(math.Ceil(u)))
			if used(l, window, t, mine)+float64(cost) > float64((left+shares-1)/shares) {
				return true
			}
		}
	}
	return false
}

// isDark reports whether no answer of the server's could reach a process during an op.
func (p *process) isDark(o *op) bool {
	return slices.ContainsFunc(p.dark, func(s span) bool { return s.from <= o.call && o.ret <= s.to })
}

// used is how much of a limit may have been used at an instant.
func used(l *stint.Limit, window, t time.Duration, stays []stay) float64 {
	log := 0.0
	var charges []stay
	for _, a := range stays {
		if a.from > t {
			continue
		}
		a.until = min(a.until, t)
		charges = append(charges, a)
		counts := a.until+window > t
		if l.Algorithm == stint.AlgorithmFixed {
			counts = windowOf(l, a.until+window-l.Window) >= windowOf(l, t)
		}
		if counts {
			log += float64(a.n(t))
		}
	}
	if !contract.HasMeter(l) {
		return log
	}
	slices.SortFunc(charges, func(a, b stay) int { return cmp.Compare(a.until, b.until) })
	level, at := 0.0, time.Duration(0)
	for _, a := range charges {
		level = max(0, level-leaked(l, a.until-at)) + float64(a.n(t))
		at = a.until
	}
	_, _, tick := l.Meter()
	level = max(0, level-leaked(l, t-at)) + 2*leaked(l, time.Duration(tick)*time.Microsecond)
	if l.Algorithm == stint.AlgorithmBucket {
		return level
	}
	return max(log, level)
}

// present is among how many processes one may divide a limit: those that have died are still
// counted for a while.
func (j *judge) present(p *process, at time.Duration) (n int64) {
	for i := range j.processes {
		if q := &j.processes[i]; q.born <= at && q.died > at-counted {
			n++
		}
	}
	return max(n, int64(p.instances))
}

// counted is for how long a process that has died may be counted among those that share the server.
const counted = 25 * time.Second
