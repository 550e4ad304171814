package memorystore

import (
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// view is one limit of one claim in the course of a call: a copy of its state, opened at the call's
// instant. What changes it is written to the record by query.write.
type view struct {
	claim  *claim
	limit  *stint.Limit
	part   int    // of the call: whose record has the limit's state
	index  int    // of the state in that record, -1 if there is none
	tag    uint32 // of the limit, 0 if no state in the shard has it
	leads  bool   // it is the first of the claim's limits with its name that has a count
	booked bool   // it has the booking that the request replaces

	params *algorithm.Params
	state  algorithm.Count
	count  algorithm.View // of the state
	places algorithm.Concurrency
	hold   algorithm.ConcurrencyView // of the places

	noParams algorithm.Params // of the limit, if it has no tag
}

// holds reports whether the limit is one on holders; else it has a count.
func (v *view) holds() bool { return v.limit.Algorithm == stint.AlgorithmConcurrency }

// open opens every limit of every claim. It writes that the clock stepped back, but not if it only
// looks, nor for a claim that costs nothing.
func (q *query) open(look bool) {
	n := 0
	for i := range q.claims {
		n += len(q.claims[i].Limits)
	}
	q.views = slices.Grow(q.views[:0], n)[:0]
	for i := range q.claims {
		c := &q.claims[i]
		for k := range c.Limits {
			n := len(q.views)
			q.views = q.views[:n+1]
			v := &q.views[n]
			v.claim, v.limit, v.part, v.leads, v.booked = c, &c.Limits[k], c.part, false, false
			if !v.holds() {
				if v.limit.Name != "" {
					v.part = q.part(c, c.Scope, v.limit.Name)
				}
				v.leads = q.leads(n)
			}
			v.open(&q.parts[v.part], q.now, look || c.Cost == 0)
		}
	}
}

// leads reports whether none before the nth view is of the same claim and has a count in the same
// record.
func (q *query) leads(n int) bool {
	v := &q.views[n]
	for k := range n {
		if w := &q.views[k]; w.claim == v.claim && w.part == v.part && !w.holds() {
			return false
		}
	}
	return true
}

// open finds the limit's state and opens a copy of it.
func (v *view) open(p *part, now int64, look bool) {
	sh, r := p.claim.shard, p.rec
	v.index, v.tag = sh.locate(r, v.limit)
	if v.tag == 0 {
		v.tag = sh.tagOf(v.limit)
	}
	if v.tag != 0 {
		v.params = sh.params(v.tag)
	} else {
		v.noParams = algorithm.Of(v.limit)
		v.params = &v.noParams
	}
	if v.holds() {
		v.places = algorithm.Concurrency{}
		if v.index >= 0 {
			v.places = r.rest.holders[v.index].Concurrency
		}
		v.hold.Open(&v.places, v.params, now, look)
		return
	}
	if r != nil && now < r.last && !look {
		r.stepBack(now)
	}
	if v.index < 0 {
		v.state = algorithm.Count{}
		v.count.Open(&v.state, v.params, now, 0)
		return
	}
	v.state = *r.countAt(v.index)
	v.count.Open(&v.state, v.params, now, max(r.last-now, 0))
}

// write writes the view's state, which has changed. The record and the state are made if they do
// not exist.
func (q *query) write(v *view) {
	p := &q.parts[v.part]
	r := p.record()
	if v.index < 0 {
		v.index = q.newState(p, v)
	}
	if v.holds() {
		h := &r.rest.holders[v.index]
		h.Concurrency = v.places
		p.claim.shard.retag(&h.tag, v)
		return
	}
	if r.generation == 0 {
		p.claim.shard.draw(r)
	}
	if r.last > q.now {
		r.stepBack(q.now)
	}
	r.last = q.now
	c := r.countAt(v.index)
	*c = v.state
	p.claim.shard.retag(&c.Owner, v)
	v.state.Owner = c.Owner // it may be written again
}

// retag gives the view's state the tag of the limit that it was written under.
func (sh *shard) retag(tag *uint32, v *view) {
	if *tag != v.tag || v.tag == 0 {
		v.tag = sh.tag(v.limit)
		sh.untag(*tag)
		*tag = v.tag
	}
}

// tooManyStates is how many a record may have before those that have expired are looked for: more
// limits on one subject than a request names.
const tooManyStates = 8

// newState returns the index of a state for the view that is free, a new one if none is.
func (q *query) newState(p *part, v *view) int {
	r, holds := p.rec, v.holds()
	if r.rest != nil && len(r.rest.counts)+len(r.rest.holders) >= tooManyStates {
		q.dropDead(p)
	}
	for i := range r.states(holds) {
		if *r.tagAt(i, holds) == 0 {
			return i
		}
	}
	if x := r.more(); holds {
		x.holders = append(x.holders, held{})
	} else {
		x.counts = append(x.counts, algorithm.Count{})
	}
	return r.states(holds) - 1
}

// dropDead frees the states of a record that have expired, but for those that the query uses.
func (q *query) dropDead(p *part) {
	sh, r := p.claim.shard, p.rec
	for _, holds := range [...]bool{false, true} {
		for i := range r.states(holds) {
			tag := *r.tagAt(i, holds)
			if tag != 0 && !sh.alive(r, i, holds, q.now-grace) && !q.uses(&sh.variants[tag].limit) {
				sh.free(r, i, holds)
			}
		}
	}
}

// uses reports whether the query is about a limit.
func (q *query) uses(l *stint.Limit) bool {
	for k := range q.views {
		if contract.SameID(q.views[k].limit, l) {
			return true
		}
	}
	return false
}

// locate returns the index of a limit's state in a record that may be nil, -1 if it has none, and
// the tag of the limit if the state was last written under exactly this limit, else 0.
func (sh *shard) locate(r *record, l *stint.Limit) (index int, tag uint32) {
	holds := l.Algorithm == stint.AlgorithmConcurrency
	for i := range r.states(holds) {
		t := *r.tagAt(i, holds)
		if t == 0 {
			continue
		}
		m := &sh.variants[t].limit
		if !contract.SameID(m, l) {
			continue
		}
		if m.Max != l.Max || m.Burst != l.Burst || m.Start != l.Start || m.Zone != l.Zone {
			return i, 0
		}
		return i, t
	}
	return -1, 0
}

func (v *view) used() int64 {
	if v.holds() {
		return v.hold.Used()
	}
	return v.count.Used()
}

func (v *view) reset() int64 {
	if v.holds() {
		return v.hold.Reset()
	}
	return v.count.Reset()
}

// fits reports whether a cost has room now.
func (v *view) fits(cost int64) bool {
	if v.holds() {
		return v.hold.Fits(cost)
	}
	return v.count.Fits(cost)
}

// earliest is the first instant, from one on that no booking comes after, at which a cost has room.
func (v *view) earliest(from, cost int64) int64 {
	if v.holds() {
		return v.hold.Earliest(from, cost)
	}
	return v.count.Earliest(from, cost)
}

func (v *view) bookings() (n int, latest int64) {
	if v.holds() {
		return 0, 0
	}
	return v.count.Bookings()
}

// bookedAt returns when the booking that ends at an instant comes, 0 if there is none.
func (v *view) bookedAt(end int64) int64 {
	if v.holds() {
		return 0
	}
	return v.count.BookedAt(end)
}
