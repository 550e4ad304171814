package memorystore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// view is one limit of one claim in the course of a call.
type view struct {
	limit *stint.Limit
	part  int    // of the query: whose record holds the limit's state
	tag   uint32 // of the limit, 0 if no state in the shard has it
	place int    // of the state in its record, -1 if there is none

	params *algorithm.Params
	count  algorithm.View
	hold   algorithm.ConcurrencyView

	noParams  algorithm.Params // of the limit, if it has no tag
	noCount   algorithm.Count
	noHolders algorithm.Concurrency
}

// holds reports whether the limit is one on holders; else it has a count.
func (v *view) holds() bool { return v.limit.Algorithm == stint.Concurrency }

// open finds the limit's state and opens it. It must not outlive the lock. Unless it
// only looks, it writes that the clock stepped back.
func (v *view) open(sh *shard, r *record, l *stint.Limit, now int64, look bool) {
	v.limit = l
	v.place = sh.locate(r, l, &v.tag)
	if v.tag == 0 {
		v.tag = sh.tagOf(l)
	}
	if v.tag != 0 {
		v.params = sh.params(v.tag)
	} else {
		v.noParams = algorithm.Of(l)
		v.params = &v.noParams
	}
	if v.holds() {
		c := &v.noHolders
		if v.place >= 0 {
			c = &r.rest.holders[v.place]
		}
		v.hold.Open(c, v.params, now, look)
		return
	}
	back := int64(0)
	if r != nil && now < r.last {
		if look {
			back = r.last - now
		} else {
			r.stepBack(now)
		}
	}
	c := &v.noCount
	if v.place >= 0 {
		c = r.countAt(v.place)
	}
	v.count.Open(c, v.params, now, back)
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

// locate returns the place of a limit's state in a record that may be nil, -1 if
// it has none. The tag is set to that of the limit if the state was last charged
// under just this limit, else to 0.
func (sh *shard) locate(r *record, l *stint.Limit, tag *uint32) int {
	*tag = 0
	if r == nil {
		return -1
	}
	if l.Algorithm != stint.Concurrency {
		if sh.has(r.count.Tag, l, tag) {
			return 0
		}
		if r.rest != nil {
			for i := range r.rest.counts {
				if sh.has(r.rest.counts[i].Tag, l, tag) {
					return i + 1
				}
			}
		}
	} else if r.rest != nil {
		for i := range r.rest.holders {
			if sh.has(r.rest.holders[i].Tag, l, tag) {
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
	if !m.SameID(l) {
		return false
	}
	if m.Max == l.Max && m.Burst == l.Burst {
		*tag = t
	}
	return true
}
