package memorystore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// behind ignores the bookings that do not come before the one that the request is to move up. It
// returns when that one comes, 0 if there is none.
func (q *query) behind(r *stint.Request) (old int64) {
	if r.Terms().Booked == 0 {
		return 0
	}
	for i := range q.claims {
		for k := q.parts[i].first; k < q.parts[i].end && r.Claims[i].Cost > 0; k++ {
			if at := q.views[k].bookedAt(r.Terms().Booked); at > 0 && (old == 0 || at < old) {
				old = at
			}
		}
	}
	if old > 0 {
		q.only(old)
	}
	return old
}

// only ignores the bookings that do not come before an instant.
func (q *query) only(before int64) {
	for k := range q.views {
		if v := &q.views[k]; !v.holds() {
			v.count.Only(before)
		}
	}
}

// stay answers a request to move up a booking that stays where it is.
func (q *query) stay(r *stint.Request, d *stint.Decision, at int64) {
	q.only(algorithm.Never)
	d.Allowed, d.RetryAfter = true, wait(at, q.now)
	q.name(r, d, q.parts[0].shard.nextSerial(), r.Terms().Booked)
}
