package memorystore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// view is one limit of one claim in the course of a call.
type view struct {
	limit *stint.Limit
	tag   uint32 // of the limit, 0 if no state in the shard has it
	place int    // of the state in its record, -1 if there is none

	log    algorithm.LogView
	bucket algorithm.BucketView
	hold   algorithm.ConcurrencyView

	params    algorithm.Params // if the limit has no tag
	noLog     algorithm.Log
	noBucket  algorithm.Bucket
	noHolders algorithm.Concurrency
}

// open finds the limit's state and opens it. It must not outlive the lock.
func (v *view) open(sh *shard, r *record, l *stint.Limit, now int64, look bool) {
	v.limit = l
	v.place = sh.locate(r, l, &v.tag)
	var p *algorithm.Params
	if v.tag == 0 {
		v.tag = sh.tagOf(l)
	}
	if v.tag != 0 {
		p = &sh.variants[v.tag].params
	} else {
		v.params = algorithm.Of(l)
		p = &v.params
	}
	switch l.Algorithm {
	case stint.Bucket:
		b := &v.noBucket
		if v.place >= 0 {
			b = &r.rest.buckets[v.place]
		}
		v.bucket.Open(b, p, now, look)
	case stint.Concurrency:
		c := &v.noHolders
		if v.place >= 0 {
			c = &r.rest.holders[v.place]
		}
		v.hold.Open(c, p, now, look)
	default:
		g := &v.noLog
		if v.place >= 0 {
			g = r.logAt(v.place)
		}
		v.log.Open(g, p, now, look)
	}
}

func (v *view) used() int64 {
	switch v.limit.Algorithm {
	case stint.Bucket:
		return v.bucket.Used()
	case stint.Concurrency:
		return v.hold.Used()
	}
	return v.log.Used()
}

func (v *view) reset() int64 {
	switch v.limit.Algorithm {
	case stint.Bucket:
		return v.bucket.Reset()
	case stint.Concurrency:
		return v.hold.Reset()
	}
	return v.log.Reset()
}

func (v *view) earliest(from, cost int64) int64 {
	switch v.limit.Algorithm {
	case stint.Bucket:
		return v.bucket.Earliest(from, cost)
	case stint.Concurrency:
		return v.hold.Earliest(from, cost)
	}
	return v.log.Earliest(from, cost)
}

func (v *view) bookings() (n int, latest int64) {
	switch v.limit.Algorithm {
	case stint.Bucket:
		return v.bucket.Bookings()
	case stint.Concurrency:
		return 0, 0
	}
	return v.log.Bookings()
}

// locate returns the place of a limit's state in a record that may be nil, -1 if
// it has none. The tag is set to that of the limit if the state was last charged
// under just this limit, else to 0.
func (sh *shard) locate(r *record, l *stint.Limit, tag *uint32) int {
	*tag = 0
	if r == nil {
		return -1
	}
	switch l.Algorithm {
	case stint.Bucket:
		if r.rest != nil {
			for i := range r.rest.buckets {
				if sh.has(r.rest.buckets[i].Tag, l, tag) {
					return i
				}
			}
		}
	case stint.Concurrency:
		if r.rest != nil {
			for i := range r.rest.holders {
				if sh.has(r.rest.holders[i].Tag, l, tag) {
					return i
				}
			}
		}
	default:
		if sh.has(r.log.Tag, l, tag) {
			return 0
		}
		if r.rest != nil {
			for i := range r.rest.logs {
				if sh.has(r.rest.logs[i].Tag, l, tag) {
					return i + 1
				}
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
	if m.Window != l.Window || m.Algorithm != l.Algorithm || m.Name != l.Name {
		return false
	}
	if m.Max == l.Max && m.Burst == l.Burst {
		*tag = t
	}
	return true
}

// logAt returns the log at a place: the record's own, then those in rest.
func (r *record) logAt(place int) *algorithm.Log {
	if place == 0 {
		return &r.log
	}
	return &r.rest.logs[place-1]
}
