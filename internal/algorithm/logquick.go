package algorithm

// Quick is what LogView does, for a log in the usual state: nothing is booked,
// the clock runs forward and the burst is the one of the last write. It decides
// on charging a cost above 0 now.
type Quick struct {
	log  *Log
	p    *Params
	now  int64
	gone int64 // the sum of
	drop int   // the entries that are no longer in the window
	used int64
	room int64 // what is left of the capacity
}

// Open reports whether the log is in the usual state. It writes nothing.
func (q *Quick) Open(l *Log, p *Params, now int64) bool {
	if l.more != nil || now < l.last || int64(l.keep) != p.Times {
		return false
	}
	q.log, q.p, q.now, q.drop, q.gone = l, p, now, 0, 0
	if l.n > 0 && l.oldest() <= now-p.Span {
		q.leave()
	}
	q.used = l.sum - q.gone
	q.room = p.Cap - q.used
	return true
}

// leave counts the entries that are no longer in the window.
func (q *Quick) leave() {
	for line := q.now - q.p.Span; q.drop < int(q.log.n); q.drop++ {
		stamp, n := q.log.entry(q.drop)
		if stamp > line {
			return
		}
		q.gone += n
	}
}

// Fits reports whether a cost has room now.
func (q *Quick) Fits(cost int64) bool { return cost <= q.room }

// Used is the sum of the entries in the window.
func (q *Quick) Used() int64 { return q.used }

// Earliest is the first instant at which a cost that does not fit does, or Never.
func (q *Quick) Earliest(cost int64) int64 {
	if cost > q.p.Cap {
		return Never
	}
	t, room := q.now, q.room
	for k := q.drop; room < cost; k++ {
		stamp, n := q.log.entry(k)
		t = stamp + q.p.Span
		room += n
	}
	return t
}

// Reset is the time until nothing is used.
func (q *Quick) Reset() int64 {
	if q.used == 0 {
		return 0
	}
	return q.log.newest() + q.p.Span - q.now
}

// Charge adds a cost that fits. It returns the time until nothing is used, and by
// how many bytes the log grew.
func (q *Quick) Charge(cost int64) (reset int64, grown int) {
	l := q.log
	if q.drop > 0 {
		l.dropOldest(q.drop, q.gone)
		q.drop, q.gone = 0, 0
	}
	l.last = q.now
	q.used += cost
	before, stamp := len(l.slots), q.p.stamp(q.now)
	newest := l.Append(q.p, stamp, cost)
	return newest + q.p.Span - q.now, 8 * (len(l.slots) - before)
}
