package memorystore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// charge charges, books or leases every claim that costs something. If it moves a
// booking, that is given up.
func (q *query) charge(r *stint.Request, d *stint.Decision, at int64, moves bool) {
	counted, end := at, at
	switch {
	case r.Lease > 0:
		counted = q.now + r.Lease.Microseconds()
		end = counted
	case at > q.now && r.Mode == stint.Force:
		end = q.endAmong(at, at+r.Grace().Microseconds())
	case at > q.now:
		end = at + r.Grace().Microseconds()
		for k := range q.views {
			if v := &q.views[k]; !v.holds() {
				end = max(end, v.count.LastEnd())
			}
		}
	}
	id := uint64(0)
	for i := range q.claims {
		c := claimAt(&r.Claim, r.And, i)
		if c.Cost == 0 {
			continue
		}
		if id == 0 {
			id = q.parts[i].shard.nextSerial()
		}
		for k := q.parts[i].first; k < q.parts[i].end; k++ {
			v := &q.views[k]
			q.house(v, c)
			before := q.bytesOf(v)
			if moves && !v.holds() {
				v.count.Unbook(r.Booked, c.Cost)
			}
			switch {
			case v.holds():
				v.hold.Charge(id)
			case r.Mode == stint.Force:
				v.force(at, end, c.Cost)
			case at > q.now:
				v.count.Book(at, end, c.Cost)
			default:
				v.count.Lease(end, c.Cost)
			}
			q.grown += int64(q.bytesOf(v) - before)
		}
	}
	if id == 0 {
		return
	}
	if r.ID != "" && r.Cost > 0 && r.Booked == 0 {
		q.remember(r, counted)
	}
	q.name(r, d, id, end)
}

// endAmong is when a booking for an instant ends that others may come after: not before those
// that come earlier do, and else not after the others.
func (q *query) endAmong(at, end int64) int64 {
	last := int64(0)
	for k := range q.views {
		if v := &q.views[k]; !v.holds() {
			before, after := v.count.EndsAround(at)
			last, end = max(last, before), min(end, after)
		}
	}
	return max(last, end)
}

// force charges as many units as the count can hold, or books them if they end later than they come.
func (v *view) force(at, end, units int64) {
	if units = min(units, v.count.Spare()); at < end && units > 0 {
		v.count.Insert(at, end, units)
	} else {
		v.count.Charge(units)
	}
}

// name fills in what names a charge.
func (q *query) name(r *stint.Request, d *stint.Decision, id uint64, at int64) {
	c := &d.Charge
	c.ID, c.At, c.Claim.Cost = id, at, r.Cost
	q.eachState(&r.Claim, r.And, func(i int, p *part) {
		if p.rec != nil {
			c.SetGeneration(i, p.rec.generation)
		} else {
			c.SetGeneration(i, 0)
		}
	})
}

// eachState calls f with every state of some claims, numbered as in a [stint.Charge].
func (q *query) eachState(first *stint.Claim, and []stint.Claim, f func(i int, p *part)) {
	var buf [stint.MaxLimits]string
	n := 0
	for i := range q.claims {
		c := claimAt(first, and, i)
		for _, name := range c.StateNames(buf[:0]) {
			f(n, &q.parts[q.partOf(i, c, name)])
			n++
		}
	}
}

// house gives the view's state a place in its record, if it has none, and the tag of
// the limit that it is about to be written under, and notes that it is written now.
func (q *query) house(v *view, c *stint.Claim) {
	p := &q.parts[v.part]
	r := q.record(p, c)
	if v.place < 0 {
		q.add(p, v)
	}
	p.retag(v)
	if v.holds() {
		v.hold.Rehome(&r.rest.holders[v.place])
		return
	}
	if r.generation == 0 {
		p.shard.draw(r)
	}
	r.last = q.now
	v.count.Rehome(r.countAt(v.place))
}

// retag gives the view's state the tag of the limit that it is written under: of that
// limit it is known when the state has expired.
func (p *part) retag(v *view) {
	t := &p.rec.count.Tag
	if v.holds() {
		t = &p.rec.rest.holders[v.place].Tag
	} else if v.place > 0 {
		t = &p.rec.countAt(v.place).Tag
	}
	if *t != v.tag || v.tag == 0 {
		v.tag = p.shard.tag(v.limit)
		p.shard.untag(*t)
		*t = v.tag
	}
}

// bytesOf is what the view's state, which has a place, holds beside itself.
func (q *query) bytesOf(v *view) int {
	r := q.parts[v.part].rec
	if v.holds() {
		return r.rest.holders[v.place].Bytes()
	}
	return r.countAt(v.place).Bytes()
}

// add finds a free place for the view's state, or makes one.
func (q *query) add(p *part, v *view) {
	r := p.rec
	if !v.holds() && r.count.Tag == 0 {
		v.place = 0
		return
	}
	before := r.rest.bytes()
	rest := r.more()
	if len(rest.counts)+len(rest.holders) >= tooManyStates {
		q.dropDead(p)
	}
	if v.holds() {
		v.place = freePlace(rest.holders, func(h *algorithm.Concurrency) bool { return h.Tag == 0 })
		if v.place == len(rest.holders) {
			rest.holders = append(rest.holders, algorithm.Concurrency{})
		}
	} else {
		i := freePlace(rest.counts, func(c *algorithm.Count) bool { return c.Tag == 0 })
		if i == len(rest.counts) {
			rest.counts = append(rest.counts, algorithm.Count{})
		}
		v.place = i + 1
	}
	q.grown += int64(rest.bytes() - before)
}

func freePlace[T any](list []T, free func(*T) bool) int {
	for i := range list {
		if free(&list[i]) {
			return i
		}
	}
	return len(list)
}

// tooManyStates is how many a record may have before those that have expired
// are looked for: more limits on one subject than a request names.
const tooManyStates = 8

// dropDead frees the states that have expired, but for those that the query uses.
func (q *query) dropDead(p *part) {
	inUse := func(tag uint32) bool {
		for k := range q.views {
			if l := q.views[k].limit; l.SameID(&p.shard.variants[tag].limit) {
				return true
			}
		}
		return false
	}
	p.shard.dropDead(p.rec, q.now, inUse)
}
