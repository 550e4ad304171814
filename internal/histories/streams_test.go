package histories

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// draftStreams draws a plan in which all requests have holds: streams that report what they have
// used, and are settled when they end, once or several times, as a whole or quantity by quantity,
// or never. It has the same faults as others, and the server's clock may be set.
func draftStreams(seed uint64) *plan {
	rng := rand.New(rand.NewPCG(seed, 34))
	life := pick(rng, 3*time.Second, 5*time.Second, 8*time.Second)
	sub := subject{
		name: "s", ledger: true, hold: life, ids: rng.IntN(4) == 0,
		limits: []stint.Limit{stint.Per(pick[int64](rng, 5, 20, 60, 100), pick(rng, 2*life, time.Minute))},
		mode:   pick(rng, stint.FailLocal, stint.FailLocal, stint.FailLocal, stint.FailDeny, stint.FailAllow),
	}
	if rng.IntN(2) == 0 {
		sub.limits = append(sub.limits, stint.Per(pick[int64](rng, 5, 20, 60), pick(rng, life/4, life)))
	}
	p := &plan{seed: seed, instances: pick(rng, 1, 1, 2, 3), subjects: []subject{sub}, rest: 3*life + settling}
	last := warmUp
	for range rng.IntN(5) {
		f := someFault(rng, p.instances, warmUp+between(rng, 0, 2*life))
		if rng.IntN(3) == 0 {
			f.to += between(rng, 0, life) // so that holds expire, or outlive the outage
		}
		p.faults = append(p.faults, f)
		last = max(last, f.to)
	}
	slices.SortStableFunc(p.faults, func(a, b fault) int { return cmp.Compare(a.from, b.from) })
	for range 4 + rng.IntN(8) {
		p.streams(rng, between(rng, 0, last+life))
	}
	p.streams(rng, last+tail+life)
	p.sort()
	if rng.IntN(6) == 0 {
		p.resets = append(p.resets, step{at: between(rng, 0, last), slot: rng.IntN(p.instances),
			claims: []claim{{0, 0}}})
	}
	for range pick(rng, 0, 0, 1, 2) {
		c := clockStep{between(rng, 0, last+life), scaled(rng, time.Millisecond, life/4)}
		if rng.IntN(2) == 0 {
			c.by = -c.by
		}
		p.clock = append(p.clock, c)
		p.rest += c.by.Abs()
	}
	return p
}

// streams adds some that begin at about the same time.
func (p *plan) streams(rng *rand.Rand, at time.Duration) {
	sub := &p.subjects[0]
	for range 1 + rng.IntN(5) {
		estimate := 1 + rng.Int64N(max(1, sub.capacity()/2))
		s := step{at: at + between(rng, 0, sub.hold/4), slot: rng.IntN(p.instances), kind: stream,
			claims: []claim{{0, estimate}}, keep: scaled(rng, 10*time.Millisecond, 3*sub.hold),
			cost: 1 + rng.Int64N(estimate), settles: pick(rng, 0, 1, 1, 1, 2, 3), apart: rng.IntN(3) == 0}
		if rng.IntN(4) == 0 { // it uses more than was estimated
			s.cost += rng.Int64N(2 * estimate)
		}
		if sub.ids {
			s.id = fmt.Sprint(rng.IntN(6))
		}
		p.steps = append(p.steps, s)
	}
}

// beat is a heartbeat: what it reported, and what its caller was told.
type beat struct {
	call, ret time.Duration
	total     int64
	open      bool
	failed    bool
}

// stream uses what was granted, evenly, and says so from time to time.
func (w *world) stream(i *instance, o *op, d stint.Decision, s step) {
	o.truth = s.cost
	if d.Charge.IsZero() || d.Charge.Data().Hold == 0 {
		return
	}
	begin, end := w.now(), w.now()+s.keep
	for tick := w.plan.subjects[0].hold / 3; w.now() < end; {
		timer := time.NewTimer(min(tick, end-w.now()+resolution))
		select {
		case <-timer.C:
		case <-i.closing:
			end = 0
		case <-i.dead:
		}
		if timer.Stop(); i.isDead() {
			return
		}
		if w.now() < end {
			b := beat{call: w.now(), total: s.cost * int64(w.now()-begin) / int64(s.keep)}
			done, err := i.limiter.Extend(context.Background(), d, b.total)
			b.ret, b.open, b.failed = w.now(), done.Changed, err != nil || i.isDead()
			o.beats = append(o.beats, b)
		}
	}
	names := []string{""}
	if s.apart {
		names = []string{ledger.Name, ""}
	}
	for _, name := range names {
		for n := range s.settles {
			a := amend{call: w.now(), cost: s.cost, apart: s.apart, name: name}
			how := stint.Amendment{Kind: stint.AmendSettle, Cost: s.cost}
			if s.apart {
				how = stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{name: s.cost}}
			}
			done, err := i.limiter.Amend(context.Background(), d, how)
			a.ret, a.applied, a.failed = w.now(), done.Changed, err != nil || i.isDead()
			w.mu.Lock()
			o.amends = append(o.amends, a)
			w.mu.Unlock()
			if n+1 < s.settles {
				time.Sleep(w.plan.subjects[0].hold / 10)
			}
		}
	}
}

// streams holds what callers with holds were told to the rules, where times may be off by the steps
// of the server's clock:
//
//   - over: what the server admits fits beside all that is surely held, and all that was surely
//     charged in the window.
//   - room: nobody is denied for whom there was room, beside all that may be held or charged.
//   - once: of several settlements of one quantity one applies. The first does, if the hold is
//     surely known.
//   - beat: a hold is open until its life has passed since the last heartbeat.
//   - twice: a request is not admitted again under its id while its hold is open.
//   - ledger: in the end the server has counted the truth of what was settled, what was reported of
//     all else, and nothing else; and holds nothing.
func (j *judge) streams(s int) {
	sub := &j.subjects[s]
	for _, x := range j.ops {
		if x.told == allowed && !x.flat && x.degraded && x.mode != stint.FailLocal {
			j.object("mode", "under %v: %v", x.mode, x)
		}
		for i := range sub.limits {
			l := &sub.limits[i]
			n := x.cost(s)
			for _, a := range j.ops {
				if a.told == allowed && !a.flat && !a.repeat && !a.degraded && a.ret < x.call &&
					!j.forgotten(s, a.call, x.ret) {
					n += j.surely(s, l, a, x)
				}
			}
			if x.told == allowed && !x.degraded && !x.repeat && n > l.Max {
				j.object("over", "subject %d: the server admitted %d under %v: %v", s, n, l, x)
			}
		}
		if x.told == denied && !x.degraded && !x.flat && !sub.ids && j.wasWell(x.process, x.call, x.ret) &&
			!slices.ContainsFunc(sub.limits, func(l stint.Limit) bool { return j.mayBeFull(s, &l, x) }) {
			j.object("room", "subject %d, %v: %v", s, sub.limits, x)
		}
		j.once(s, x)
		j.open(s, x)
	}
	j.twice(s)
}

// wasWell reports whether a process was well for so long that it asked the server.
func (j *judge) wasWell(process int, from, to time.Duration) bool {
	p := &j.processes[process]
	return p.well(from-steady, to) && from-steady > p.born && to < p.died
}

// isSure reports whether a heartbeat surely has reached the server, and kept the hold.
func (j *judge) isSure(o *op, b *beat) bool {
	return b.open && !b.failed && j.wasWell(o.process, b.call, b.ret)
}

// renewed is the last instant by another at which the life of a hold surely began again.
func (j *judge) renewed(o *op, by time.Duration) time.Duration {
	last := o.call
	for i := range o.beats {
		if b := &o.beats[i]; b.ret <= by && j.isSure(o, b) {
			last = b.call
		}
	}
	return last
}

// settledAs returns the settlements of a quantity that were begun by an instant.
func (o *op) settledAs(name string, by time.Duration) (all []amend) {
	for _, a := range o.amends {
		if a.call <= by && (!a.apart || a.name == name) {
			all = append(all, a)
		}
	}
	return all
}

// surely is the least that an earlier admission counts in a limit when another one is decided.
func (j *judge) surely(s int, l *stint.Limit, a, x *op) int64 {
	sub, cost := &j.subjects[s], a.cost(s)
	if a.id != "" && slices.ContainsFunc(j.ops, func(o *op) bool { return o != a && o.id == a.id && o.call <= x.ret }) {
		return 0 // a repeat may have settled it to another cost
	}
	begun := a.settledAs("", x.ret)
	if l.Window <= sub.hold { // it was charged at once
		if a.call <= x.ret-l.Window+j.skew {
			return 0
		}
		if len(begun) > 0 {
			cost = min(cost, a.truth)
		}
		return cost
	}
	recent := a.call > x.ret-l.Window+j.skew
	switch open := j.renewed(a, x.call)+sub.hold > x.ret+j.skew; {
	case len(begun) > 0 && begun[0].applied && begun[0].ret < x.call && recent &&
		j.wasWell(a.process, begun[0].call, begun[0].ret):
		return a.truth
	case len(begun) > 0 && open && recent:
		return min(cost, a.truth)
	case len(begun) == 0 && open && recent:
		return cost
	case len(begun) == 0 && open: // what it reported first may have left the window
		for _, b := range a.beats {
			if b.call <= x.ret {
				cost = min(cost, a.cost(s)-b.total)
			}
		}
		return max(cost, 0)
	case len(begun) == 0 && recent:
		return j.reported(a, x.call)
	}
	return 0
}

// reported is what surely was reported by an instant.
func (j *judge) reported(o *op, by time.Duration) (total int64) {
	for i := range o.beats {
		if b := &o.beats[i]; b.ret < by && j.isSure(o, b) {
			total = max(total, b.total)
		}
	}
	return total
}

// arrived is when something that a process sent has surely reached the server, if it ever does.
func (j *judge) arrived(o *op, call, ret time.Duration) time.Duration {
	if !o.degraded && j.wasWell(o.process, call, ret) {
		return ret
	}
	return j.processes[o.process].settled(min(ret, j.processes[o.process].died))
}

// mayBeFull reports whether there may have been no room in a limit at an instant at which an op may
// have been decided.
func (j *judge) mayBeFull(s int, l *stint.Limit, x *op) bool {
	if x.cost(s) > l.Max || len(j.losses) > 0 { // what is charged again after a loss is not for this judge
		return true
	}
	from := x.call - remembered
	at := []time.Duration{from, x.ret}
	for _, a := range j.ops {
		if from < a.call && a.call < x.ret {
			at = append(at, a.call)
		}
	}
	for _, t := range at {
		n := x.cost(s)
		for _, a := range j.ops {
			if a != x && a.call <= t && !(a.told == denied && !a.degraded) {
				n += j.atMost(s, l, a, t)
			}
		}
		if n > l.Max {
			return true
		}
	}
	return false
}

// atMost is the most that an op counts in a limit at an instant.
func (j *judge) atMost(s int, l *stint.Limit, a *op, t time.Duration) int64 {
	sub, cost, ret := &j.subjects[s], a.cost(s), a.ret
	if ret == never {
		ret = j.processes[a.process].died
	}
	begun := j.arrived(a, a.call, ret)
	last, settled := begun, false
	for _, b := range a.beats {
		last = max(last, j.arrived(a, b.call, b.ret))
	}
	for _, m := range a.settledAs("", never) {
		at := j.arrived(a, m.call, m.ret)
		settled = settled || m.applied && at < t
		last = max(last, at)
	}
	n := max(cost, a.truth)
	if settled {
		n = a.truth
	}
	if a.degraded || a.told != allowed {
		n *= 2 // here and there
	}
	if l.Window <= sub.hold && t >= begun+l.Window+j.skew && t < last+l.Window+j.skew {
		return max(0, a.truth-cost) * (n/max(cost, a.truth, 1) + 1)
	}
	if until := last + l.Window + j.skew; t < until && t >= 0 {
		return n
	}
	return 0
}

// once holds settlements to being applied once.
func (j *judge) once(s int, o *op) {
	for _, name := range []string{"", ledger.Name} {
		applied := 0
		for i, a := range o.settledAs(name, never) {
			if a.applied {
				applied++
			}
			known := o.told == allowed && !o.degraded && !o.repeat && !j.subjects[s].ids &&
				j.wasWell(o.process, a.call, a.ret) && a.ret < j.renewed(o, a.call)+2*j.subjects[s].hold-j.skew &&
				!j.forgotten(-1, o.call, a.ret)
			if i == 0 && known && !a.applied {
				j.object("once", "the settlement of %q does not apply: %v", name, o)
			}
		}
		if applied > 1 {
			j.object("once", "%q is settled %d times: %v", name, applied, o)
		}
	}
}

// open holds heartbeats to saying that a hold is open while it is.
func (j *judge) open(s int, o *op) {
	if o.told != allowed || o.degraded || o.repeat || j.subjects[s].ids {
		return
	}
	for _, b := range o.beats {
		if !b.open && !b.failed && j.wasWell(o.process, b.call, b.ret) &&
			b.ret < j.renewed(o, b.call)+j.subjects[s].hold-j.skew && !j.forgotten(-1, o.call, b.ret) {
			j.object("beat", "a hold is not open at %v: %v", b.call, o)
		}
	}
}

// twice holds ids to being admitted once while a hold is open.
func (j *judge) twice(s int) {
	first, asked := map[string]*op{}, map[string]int{}
	for _, o := range j.ops {
		asked[o.id]++
	}
	for _, o := range j.ops {
		if asked[o.id] > 8 { // it may have been repeated too often to be known
			continue
		}
		if o.id == "" || o.told != allowed || o.degraded || o.repeat || o.flat {
			continue
		}
		a := first[o.id]
		if a != nil && a.ret < o.call && o.ret < j.renewed(a, o.call)+j.subjects[s].hold-j.skew &&
			!j.forgotten(s, a.call, o.ret) {
			j.object("twice", "%v\nis admitted again: %v", a, o)
		}
		first[o.id] = o
	}
}

// streamed holds what the server counts in the end to what callers were told.
func (j *judge) streamed(r reading) {
	if r.held != 0 {
		j.object("ledger", "subject %d: %d units are held in the end", r.subject, r.held)
	}
	least, most := int64(0), int64(0)
	low, high := map[string]int64{}, map[string]int64{} // of ids
	for _, o := range j.ops {
		from, to := j.costs(r.subject, o)
		if o.id == "" {
			least, most = least+from, most+to
			continue
		}
		high[o.id] += to
		if !o.repeat {
			low[o.id] += from
		}
	}
	for id, n := range high {
		least, most = least+low[id], most+n
	}
	if r.ledger < least || r.ledger > most && len(j.losses) == 0 { // what is restored may have been given back
		j.object("ledger", "subject %d: the server counts %d units; callers were told of %d to %d", r.subject,
			r.ledger, least, most)
	}
}

// costs are the bounds of what an op has cost in the end: the truth if it was settled in time, else
// what it has reported.
func (j *judge) costs(s int, o *op) (least, most int64) {
	if o.told != allowed || o.flat {
		return 0, 0 // it is given back, or expires
	}
	p, life := &j.processes[o.process], j.subjects[s].hold
	for _, b := range o.beats {
		most = max(most, b.total)
	}
	forgotten := j.forgotten(-1, o.call, j.length)
	if !o.degraded && !forgotten && !o.repeat {
		least = j.reported(o, never)
	}
	for _, b := range o.beats { // what was reported without the server is charged once it is back
		if o.degraded && !forgotten && !j.subjects[s].ids && b.open && !b.failed &&
			p.charged(b.ret) < b.call+life-j.skew {
			least = max(least, b.total)
		}
	}
	settled := o.settledAs(ledger.Name, never)
	if len(settled) == 0 {
		return least, most
	}
	a := settled[0]
	most = max(most, a.cost)
	// It reaches the server while that knows the hold: of one that was granted without it, what the
	// process owes has to be charged first.
	by := a.ret
	if o.degraded || !j.wasWell(o.process, a.call, a.ret) {
		by = p.charged(a.ret)
	}
	alive := o.call
	for i := range o.beats {
		if b := &o.beats[i]; b.open && !b.failed && (o.degraded || j.isSure(o, b)) {
			alive = b.call // what is granted without the server lasts as its process says
		}
	}
	if a.applied && !a.failed && by != never && by < alive+2*life-j.skew && !forgotten && !o.repeat &&
		!j.subjects[s].ids {
		least = a.cost
	}
	return least, most
}
