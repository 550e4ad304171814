package memorystore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// charge charges, books or leases every claim that costs something.
func (q *query) charge(r *stint.Request, d *stint.Decision, at int64) {
	if r.Lease > 0 {
		at = q.now + r.Lease.Microseconds()
	}
	id := uint64(0)
	for i := range q.parts {
		p, c := &q.parts[i], claimAt(&r.Claim, r.And, i)
		if c.Cost == 0 {
			continue
		}
		if id == 0 {
			id = p.shard.nextSerial()
		}
		q.record(p, c)
		for k := p.first; k < p.end; k++ {
			q.chargeState(p, &q.views[k], at, c.Cost, id, r.Lease > 0)
		}
	}
	if id == 0 {
		return
	}
	if r.ID != "" && r.Cost > 0 {
		q.remember(r, at)
	}
	c := &d.Charge
	c.ID, c.At, c.Claim.Cost = id, at, r.Cost
}

// chargeState charges, books or leases one limit, and stores its state if it is
// new.
func (q *query) chargeState(p *part, v *view, at, cost int64, id uint64, lease bool) {
	q.house(p, v)
	switch v.limit.Algorithm {
	case stint.Bucket:
		b := &p.rec.rest.buckets[v.place]
		before := b.Bytes()
		if at > q.now {
			v.bucket.Book(at, cost)
		} else {
			v.bucket.Charge(cost)
		}
		q.grown += int64(b.Bytes() - before)
	case stint.Concurrency:
		h := &p.rec.rest.holders[v.place]
		before := h.Bytes()
		v.hold.Charge(id)
		q.grown += int64(h.Bytes() - before)
	default:
		g := p.rec.logAt(v.place)
		before := g.Bytes()
		switch {
		case lease:
			v.log.Lease(at, cost)
		case at > q.now:
			v.log.Book(at, cost)
		default:
			v.log.Charge(cost)
		}
		q.grown += int64(g.Bytes() - before)
	}
}

// house gives the view's state a place in the record, if it has none, and the
// tag of the limit that it is about to be written under.
func (q *query) house(p *part, v *view) {
	if v.place < 0 {
		q.add(p, v)
	}
	p.retag(v)
	p.rehome(v)
}

// retag gives the view's state the tag of the limit that it is written under: of that
// limit it is known when the state has expired.
func (p *part) retag(v *view) {
	t := p.tagAt(v)
	if *t != v.tag || v.tag == 0 {
		v.tag = p.shard.tag(v.limit)
		p.shard.untag(*t)
		*t = v.tag
	}
}

// rehome tells the view where its state is: places in rest move when others are added.
func (p *part) rehome(v *view) {
	switch v.limit.Algorithm {
	case stint.Bucket:
		v.bucket.Rehome(&p.rec.rest.buckets[v.place])
	case stint.Concurrency:
		v.hold.Rehome(&p.rec.rest.holders[v.place])
	default:
		v.log.Rehome(p.rec.logAt(v.place))
	}
}

func (p *part) tagAt(v *view) *uint32 {
	switch v.limit.Algorithm {
	case stint.Bucket:
		return &p.rec.rest.buckets[v.place].Tag
	case stint.Concurrency:
		return &p.rec.rest.holders[v.place].Tag
	}
	return &p.rec.logAt(v.place).Tag
}

// add finds a free place for the view's state, or makes one.
func (q *query) add(p *part, v *view) {
	r := p.rec
	log := v.limit.Algorithm == stint.Sliding || v.limit.Algorithm == stint.Fixed
	if log && r.log.Tag == 0 {
		v.place = 0
		return
	}
	before := r.rest.bytes()
	rest := r.more()
	if len(rest.logs)+len(rest.buckets)+len(rest.holders) >= tooManyStates {
		q.dropDead(p)
	}
	switch {
	case log:
		i := freePlace(rest.logs, func(g *algorithm.Log) bool { return g.Tag == 0 })
		if i == len(rest.logs) {
			rest.logs = append(rest.logs, algorithm.Log{})
		}
		v.place = i + 1
	case v.limit.Algorithm == stint.Bucket:
		v.place = freePlace(rest.buckets, func(b *algorithm.Bucket) bool { return b.Tag == 0 })
		if v.place == len(rest.buckets) {
			rest.buckets = append(rest.buckets, algorithm.Bucket{})
		}
	default:
		v.place = freePlace(rest.holders, func(h *algorithm.Concurrency) bool { return h.Tag == 0 })
		if v.place == len(rest.holders) {
			rest.holders = append(rest.holders, algorithm.Concurrency{})
		}
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
	p.shard.dropDead(p.rec.rest, q.now, inUse)
}

// remember records the request's id, unless it is in force: then it has been
// repeated too often.
func (q *query) remember(r *stint.Request, at int64) {
	rec := q.parts[0].rec
	before := rec.rest.bytes()
	ids, life := &rec.more().ids, r.Life().Microseconds()
	if ids.find(q.store.seed, r.ID, q.now, life) == nil {
		ids.add(q.store.seed, r.ID, at, q.now, life)
	}
	q.grown += int64(rec.rest.bytes() - before)
}

// repeated answers a request whose id was charged before.
func (q *query) repeated(r *stint.Request, d *stint.Decision) bool {
	rec := q.parts[0].rec
	if rec == nil || rec.rest == nil {
		return false
	}
	seen := rec.rest.ids.find(q.store.seed, r.ID, q.now, r.Life().Microseconds())
	if seen == nil || seen.repeats >= stint.MaxRepeats {
		return false
	}
	d.Repeat = true
	if seen.at-q.now >= 16 { // times of ids are rounded up to 16 microseconds
		d.RetryAfter = duration(seen.at - q.now)
	}
	if r.Mode == stint.Take && d.RetryAfter > 0 {
		return true
	}
	d.Allowed = true
	if r.Mode != stint.Peek {
		seen.repeats++
		q.stepBans(r)
	}
	return true
}
