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
	index int    // of the state in its record, -1 if there is none

	booked bool // it has the booking that the request replaces

	params *algorithm.Params
	count  algorithm.View
	hold   algorithm.ConcurrencyView

	noParams  algorithm.Params // of the limit, if it has no tag
	noCount   algorithm.Count
	noHolders algorithm.Concurrency
}

// holds reports whether the limit is one on holders; else it has a count.
func (v *view) holds() bool { return v.limit.Algorithm == stint.AlgorithmConcurrency }

// open finds the limit's state and opens it, for as long as the lock is held. Unless it only looks,
// it writes that the clock stepped back.
func (v *view) open(sh *shard, r *record, l *stint.Limit, now int64, look bool) {
	v.limit, v.booked = l, false
	v.index = sh.locate(r, l, &v.tag)
	if v.tag == 0 {
		v.tag = sh.tagOf(l)
	}
	if v.tag != 0 {
		v.params = sh.params(v.tag)
	} else {
		v.noParams = algorithm.Of(l)
		v.params = &v.noParams
	}
	switch {
	case v.holds() && v.index < 0:
		v.hold.Open(&v.noHolders, v.params, now, look)
	case v.holds():
		v.hold.Open(&r.rest.holders[v.index].Concurrency, v.params, now, look)
	default:
		if r != nil && now < r.last && !look {
			r.stepBack(now)
		}
		if v.index >= 0 {
			v.openAt(r, now)
		} else {
			v.count.Open(&v.noCount, v.params, now, 0)
		}
	}
}

// openAt opens the state at the view's index, without writing it.
func (v *view) openAt(r *record, now int64) {
	if v.holds() {
		v.hold.Open(&r.rest.holders[v.index].Concurrency, v.params, now, true)
	} else {
		v.count.Open(r.countAt(v.index), v.params, now, max(r.last-now, 0))
	}
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
