package algorithm

// Earliest is the first instant, not before from, at which a cost has room in
// every window that contains it, or Never.
func (v *LogView) Earliest(from, cost int64) int64 {
	if v.p.Cap == 0 || cost > v.p.Cap {
		return Never
	}
	if v.log.booked().len() > 0 {
		return v.earliestAmong(from, cost)
	}
	if from == v.now && v.used+cost <= v.p.Cap {
		return from
	}
	t, used := from, v.used
	for k := v.first; k < int(v.log.n); k++ {
		stamp, n := v.log.entry(k)
		if leaves := stamp + v.p.Span; leaves > t {
			if used+cost <= v.p.Cap {
				break
			}
			t = leaves
		}
		used -= n
	}
	return instant(t)
}

// earliestAmong is Earliest where bookings lie ahead.
func (v *LogView) earliestAmong(from, cost int64) int64 {
	// here is the window that ends at the instant considered, ahead the one that
	// ends at the next booking to be held against it. Both only move forward.
	here, ahead := cursor{v: v}, cursor{v: v}
	list := v.log.more.list
	next := 0
	t := from
search:
	for {
		for here.move(t)+cost > v.p.Cap {
			t = here.nextLeave()
		}
		for ; next < len(list); next++ {
			b := list[next].at
			if b <= t {
				continue
			}
			if b-v.p.Span >= v.p.stamp(t) {
				break
			}
			if ahead.move(b)+cost > v.p.Cap {
				t = b
				continue search
			}
		}
		return instant(t)
	}
}

// cursor is a window that moves forward in time over entries and bookings.
type cursor struct {
	v                     *LogView
	entries, come, booked int // gone entries, bookings that have come, that have gone
	sum                   int64
	started               bool
}

// move returns A(t), what the window that ends at t holds.
func (c *cursor) move(t int64) int64 {
	l, p := c.v.log, c.v.p
	if !c.started { // with the entries that are kept
		c.sum, c.entries, c.started = l.sum-c.v.gone, c.v.dropped, true
	}
	for c.entries < int(l.n) {
		stamp, n := l.entry(c.entries)
		if stamp > t-p.Span {
			break
		}
		c.sum -= n
		c.entries++
	}
	list := l.more.list
	for c.come < len(list) && list[c.come].at <= t {
		c.sum += list[c.come].n
		c.come++
	}
	for c.booked < c.come && p.stamp(list[c.booked].at) <= t-p.Span {
		c.sum -= list[c.booked].n
		c.booked++
	}
	return c.sum
}

// nextLeave is when the window next loses something. It holds something.
func (c *cursor) nextLeave() int64 {
	l, p := c.v.log, c.v.p
	leaves := Never
	if c.entries < int(l.n) {
		stamp, _ := l.entry(c.entries)
		leaves = stamp + p.Span
	}
	if c.booked < c.come {
		leaves = min(leaves, p.stamp(l.more.list[c.booked].at)+p.Span)
	}
	return leaves
}

// instant is t, or Never if that is too far ahead to be counted exactly.
func instant(t int64) int64 {
	if t > MaxInstant {
		return Never
	}
	return t
}
