package simulate

import "container/heap"

// alive finds the largest number of subjects that Redis would store at the same time.
type alive struct {
	expiries expiries // one for each subject that had not expired at the last call to advance
	advanced int64    // time of the last call to advance; all times are in Unix microseconds
	most     int64
	mostAt   int64
}

// charge counts a subject as stored until the given time, unless it is already stored for longer.
func (a *alive) charge(s *subject, until, now int64) {
	if until <= max(s.until, now) {
		return
	}
	if s.until <= a.advanced {
		heap.Push(&a.expiries, expiry{until, s})
	}
	s.until = until
	if n := int64(len(a.expiries)); n > a.most {
		a.most, a.mostAt = n, now
	}
}

// advance removes the subjects that have expired.
func (a *alive) advance(now int64) {
	a.advanced = now
	for len(a.expiries) > 0 && a.expiries[0].at <= now {
		if first := &a.expiries[0]; first.subject.until > now {
			first.at = first.subject.until
			heap.Fix(&a.expiries, 0)
		} else {
			heap.Pop(&a.expiries)
		}
	}
}

// expiry is the time at which a subject expires, unless it is charged again before then.
type expiry struct {
	at      int64
	subject *subject
}

// expiries is a heap in which the earliest expiry comes first.
type expiries []expiry

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].at < e[j].at }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push implements [heap.Interface].
func (e *expiries) Push(x any) { *e = append(*e, x.(expiry)) }

// Pop implements [heap.Interface].
func (e *expiries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
