package memorystore

import (
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// view is one limit of one claim in a call: a copy of the limit's state, opened at the time of the
// call. query.write writes a changed copy to the record.
type view struct {
	claim  *claim
	limit  *stint.Limit
	cost   int64  // cost of the claim under the limit; at most one for a concurrency limit
	part   int    // index of the part whose record has the limit's state
	index  int    // index of the state in that record; -1 if there is none
	tag    uint32 // tag of the limit; 0 if no state in the shard has it
	leads  bool   // whether it is the claim's first limit with its name; false for concurrency limits
	booked bool   // whether the limit has the booking that the request replaces

	algorithm.View
	state    algorithm.Count
	untagged algorithm.Params // parameters of the limit, if it has no tag
}

// holds reports whether the limit is a concurrency limit.
func (v *view) holds() bool { return v.limit.Algorithm == stint.AlgorithmConcurrency }

// open opens a view of every limit of every claim. If the clock stepped back, open also moves the
// times in the records back, unless look is true or the claim costs nothing under the limit.
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
			v.cost = c.CostOf(v.limit)
			if v.holds() {
				v.cost = min(v.cost, 1)
			} else {
				if v.limit.Name != "" {
					v.part = q.part(c, c.Scope, v.limit.Name)
				}
				v.leads = q.leads(n)
			}
			v.open(&q.parts[v.part], q.now, look || v.cost == 0)
		}
	}
}

// leads reports whether q.views[n] is the first view with its claim and record. Views of
// concurrency limits do not count.
func (q *query) leads(n int) bool {
	v := &q.views[n]
	for k := range n {
		if w := &q.views[k]; w.claim == v.claim && w.part == v.part && !w.holds() {
			return false
		}
	}
	return true
}

// open finds the limit's state in the record of p and opens a copy of it.
func (v *view) open(p *part, now int64, look bool) {
	sh, r := p.claim.shard, p.rec
	v.index, v.tag = sh.locate(r, v.limit)
	if v.tag == 0 {
		v.tag = sh.tagOf(v.limit)
	}
	params := &v.untagged
	if v.tag != 0 {
		params = sh.params(v.tag)
	} else {
		v.untagged = algorithm.Of(v.limit)
	}
	if r != nil && now < r.last && !look && !v.holds() {
		r.stepBack(now)
	}
	back := int64(0)
	if v.state = (algorithm.Count{}); v.index >= 0 {
		v.state = *r.state(v.index)
		back = max(r.last-now, 0)
	}
	v.Open(&v.state, params, now, back)
	if v.holds() && !look {
		v.ShortenPlaces()
	}
}

// write writes the view's changed state to its record. It creates the state and the record if they
// do not exist.
func (q *query) write(v *view) {
	p := &q.parts[v.part]
	r := p.record()
	if v.index < 0 {
		v.index = q.newState(p)
	}
	if !v.holds() {
		p.touch(q.now)
	}
	if v.state.Owner != v.tag || v.tag == 0 { // the state is new, or was last written under another limit
		sh := p.claim.shard
		v.tag = sh.tag(v.limit)
		sh.untag(v.state.Owner)
		v.state.Owner = v.tag
	}
	*r.state(v.index) = v.state
}

// tooManyStates is the number of states above which a record is searched for expired states before
// it gets another state. Most requests have fewer limits.
const tooManyStates = 8

// newState returns the index of a free state in the part's record. It adds a state if none is free.
func (q *query) newState(p *part) int {
	r := p.rec
	if r.states() > tooManyStates {
		q.dropDead(p)
	}
	for i := range r.states() {
		if r.state(i).Owner == 0 {
			return i
		}
	}
	x := r.more()
	x.counts = append(x.counts, algorithm.Count{})
	return r.states() - 1
}

// dropDead frees the expired states of the part's record, except those of limits in the query.
func (q *query) dropDead(p *part) {
	sh, r := p.claim.shard, p.rec
	for i := range r.states() {
		tag := r.state(i).Owner
		if tag != 0 && !sh.alive(r, i, q.now-grace) && !q.uses(&sh.variants[tag].limit) {
			sh.free(r, i)
		}
	}
}

func (q *query) uses(l *stint.Limit) bool {
	for k := range q.views {
		if contract.SameID(q.views[k].limit, l) {
			return true
		}
	}
	return false
}

// locate returns the index of the state of limit l in record r, or -1 if there is none. It also
// returns the state's tag if the state was last written with the Max, Burst, Start and Zone of l,
// and 0 otherwise. r may be nil.
func (sh *shard) locate(r *record, l *stint.Limit) (index int, tag uint32) {
	for i := range r.states() {
		t := r.state(i).Owner
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
