package memorystore

import (
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// A record holds a state for each limit: a count, or holders. A state is in use while it names, by
// its tag, the limit that it was last written under. It is known of that limit when the state has
// expired.

// held is the state of a concurrency limit.
type held struct {
	algorithm.Concurrency
	tag uint32
}

// eachState calls f with every state of some claims, numbered as in a [stint.Charge].
func (q *query) eachState(claims []stint.Claim, f func(i int, p *part)) {
	var buf [stint.MaxLimits]string
	n := 0
	for i := range q.claims {
		c := &claims[i]
		for _, name := range contract.StateNames(c, buf[:0]) {
			f(n, &q.parts[q.partOf(i, c, name)])
			n++
		}
	}
}

// write lets f write the view's state. The record and the state are made if they do not exist.
func (q *query) write(v *view, c *stint.Claim, f func()) {
	p := &q.parts[v.part]
	r := q.record(p, c)
	if v.index < 0 {
		q.add(p, v)
	}
	if !v.holds() {
		if r.generation == 0 {
			p.shard.draw(r)
		}
		r.last = q.now
	}
	before := q.bytesOf(v)
	f()
	p.tagState(v)
	q.grown += int64(q.bytesOf(v) - before)
}

// tagState gives the view's state the tag of the limit that it was written under.
func (p *part) tagState(v *view) {
	tag := p.rec.tagAt(v)
	if *tag != v.tag || v.tag == 0 {
		v.tag = p.shard.tag(v.limit)
		p.shard.untag(*tag)
		*tag = v.tag
	}
}

// tagAt returns the tag of the view's state.
func (r *record) tagAt(v *view) *uint32 {
	if v.holds() {
		return &r.rest.holders[v.index].tag
	}
	return &r.countAt(v.index).Owner
}

// bytesOf is what the view's state holds beside itself.
func (q *query) bytesOf(v *view) int {
	r := q.parts[v.part].rec
	if v.holds() {
		return r.rest.holders[v.index].Bytes()
	}
	return r.countAt(v.index).Bytes()
}

// add makes a state for the view, in one that is free if there is one. All states of the record may
// move: they are opened again.
func (q *query) add(p *part, v *view) {
	r := p.rec
	if !v.holds() && r.count.Owner == 0 {
		v.index = 0
		v.openAt(r, q.now)
		return
	}
	before := r.rest.bytes()
	rest := r.more()
	if len(rest.counts)+len(rest.holders) >= tooManyStates {
		q.dropDead(p)
	}
	if v.holds() {
		if v.index = slices.IndexFunc(rest.holders, func(h held) bool { return h.tag == 0 }); v.index < 0 {
			v.index = len(rest.holders)
			rest.holders = append(rest.holders, held{})
		}
	} else {
		i := slices.IndexFunc(rest.counts, func(c algorithm.Count) bool { return c.Owner == 0 })
		if i < 0 {
			i = len(rest.counts)
			rest.counts = append(rest.counts, algorithm.Count{})
		}
		v.index = i + 1
	}
	q.grown += int64(rest.bytes() - before)
	for k := range q.views {
		if w := &q.views[k]; w.index >= 0 && q.parts[w.part].rec == r {
			w.openAt(r, q.now)
		}
	}
}

// tooManyStates is how many a record may have before those that have expired are looked for: more
// limits on one subject than a request names.
const tooManyStates = 8

// dropDead frees the states that have expired, but for those that the query uses.
func (q *query) dropDead(p *part) {
	p.shard.dropDead(p.rec, q.now, func(tag uint32) bool {
		for k := range q.views {
			if contract.SameID(q.views[k].limit, &p.shard.variants[tag].limit) {
				return true
			}
		}
		return false
	})
}

// locate returns the index of a limit's state in a record that may be nil, -1 if it has none. The
// tag is set to that of the limit if the state was last charged under exactly this limit, else to
// 0.
func (sh *shard) locate(r *record, l *stint.Limit, tag *uint32) int {
	*tag = 0
	if r == nil {
		return -1
	}
	if l.Algorithm != stint.AlgorithmConcurrency {
		if sh.has(r.count.Owner, l, tag) {
			return 0
		}
		if r.rest != nil {
			for i := range r.rest.counts {
				if sh.has(r.rest.counts[i].Owner, l, tag) {
					return i + 1
				}
			}
		}
	} else if r.rest != nil {
		for i := range r.rest.holders {
			if sh.has(r.rest.holders[i].tag, l, tag) {
				return i
			}
		}
	}
	return -1
}

// has reports whether a state's tag is of a limit with the identity of l.
func (sh *shard) has(t uint32, l *stint.Limit, tag *uint32) bool {
	if t == 0 {
		return false
	}
	m := &sh.variants[t].limit
	if !contract.SameID(m, l) {
		return false
	}
	if m.Max == l.Max && m.Burst == l.Burst {
		*tag = t
	}
	return true
}
