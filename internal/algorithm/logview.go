package algorithm

// LogView is a log opened at one instant. The zero LogView is not usable.
type LogView struct {
	log  *Log // the opened state: the stored one, or a copy that is ahead of it
	home *Log // the stored one
	p    *Params
	now  int64

	kept    int64
	keep    uint8
	dropped int   // entries that are no longer kept, still in the log
	gone    int64 // their sum
	first   int   // the oldest entry in the window
	used    int64
}

// Open brings the log up to date as p and now have it, without writing it; but
// unless it only looks, it writes that the clock stepped back.
func (v *LogView) Open(l *Log, p *Params, now int64, look bool) {
	v.log, v.home, v.p, v.now = l, l, p, now
	if now < l.last {
		if look {
			l = l.clone()
			v.log = l
		}
		l.stepBack(now)
	}
	v.keep, v.kept = l.keep, now
	if p.Times >= int64(l.keep) {
		v.keep = uint8(p.Times)
	} else if kept := l.kept(); now-kept > int64(l.keep)*p.Window {
		v.keep = uint8(p.Times)
	} else {
		v.kept = kept
	}
	if l.more != nil && l.more.len() > 0 && l.more.list[0].at <= now {
		l = v.moveDue()
	}

	// The entries that are no longer kept, then those out of the window.
	k, n, used := 0, int(l.n), l.sum
	for line := now - int64(min(l.keep, v.keep))*p.hold; k < n; k++ {
		stamp, m := l.entry(k)
		if stamp > line {
			break
		}
		used -= m
	}
	v.dropped, v.gone = k, l.sum-used
	if k == n && l.booked().len() == 0 {
		v.keep, v.kept = uint8(p.Times), now // an empty log remembers nothing
	}
	if int64(v.keep) > p.Times {
		for line := now - p.Span; k < n; k++ {
			stamp, m := l.entry(k)
			if stamp > line {
				break
			}
			used -= m
		}
	}
	v.first, v.used = k, used
	if l.more != nil {
		v.used += l.more.sum
	}
}

// moveDue makes the bookings that have come entries, in a copy.
func (v *LogView) moveDue() *Log {
	if v.log == v.home {
		v.log = v.home.clone()
	}
	l := v.log
	due := l.more.due(v.now)
	for _, b := range l.more.list[:due] {
		l.Append(v.p, v.p.stamp(b.at), b.n)
	}
	l.more.drop(due)
	return l
}

// Rehome says where the log is stored now.
func (v *LogView) Rehome(l *Log) {
	if v.log == v.home {
		v.log = l
	}
	v.home = l
}

// Used is the sum of the entries in the window and of all bookings.
func (v *LogView) Used() int64 { return v.used }

// Bookings returns how many there are, and when the last one comes.
func (v *LogView) Bookings() (n int, latest int64) {
	b := v.log.booked()
	return b.len(), b.latest()
}

// Reset is the time until nothing is used.
func (v *LogView) Reset() int64 {
	if v.used == 0 {
		return 0
	}
	var newest int64
	if v.log.n > 0 {
		newest = v.log.newest()
	}
	if b := v.log.booked(); b.len() > 0 {
		newest = max(newest, v.p.stamp(b.latest()))
	}
	return newest + v.p.Span - v.now
}

// Charge adds a cost at now. There has to be room.
func (v *LogView) Charge(cost int64) {
	l := v.write()
	l.Append(v.p, v.p.stamp(v.now), cost)
	v.used += cost
}

// Lease adds a cost that counts from now on, and as if it were charged at an
// instant that is not before now.
func (v *LogView) Lease(until, cost int64) {
	l := v.write()
	l.Append(v.p, v.p.stamp(until), cost)
	v.used += cost
}

// Book adds a cost at an instant to come, not before the last booking.
func (v *LogView) Book(at, cost int64) {
	l := v.write()
	if l.more == nil {
		l.more = new(logMore)
	}
	l.more.add(at, cost)
	v.used += cost
}

// Settle replaces the cost that was charged at an instant by the true one: that
// of a lease is its end. It reports whether that was still to be found.
func (v *LogView) Settle(at, cost, truth int64) bool {
	delta := truth - cost
	total := v.log.sum - v.gone + delta
	if v.log.more != nil {
		total += v.log.more.sum
	}
	if delta > 0 && total > MaxUnits {
		return false
	}
	if at > v.now {
		if i := v.log.booked().find(at); i >= 0 {
			l := v.write()
			before := l.more.sum
			l.more.change(i, delta)
			v.used += l.more.sum - before
			l.setKept(l.kept())
			return true
		}
	}
	k := v.find(v.p.stamp(at))
	if k < 0 {
		return false
	}
	k -= v.dropped
	l := v.write()
	stamp, n := l.entry(k)
	if n+delta <= 0 {
		l.remove(k)
		v.used -= n
		return true
	}
	l.set(k, stamp, n+delta)
	l.sum += delta
	v.used += delta
	return true
}

// GiveBack takes up to so many units off the entries in the window, the oldest
// first, but not off those that lie ahead. It reports whether there were any.
func (v *LogView) GiveBack(units int64) bool {
	ahead := v.p.stamp(v.now)
	if v.first == int(v.log.n) {
		return false
	}
	if oldest, _ := v.log.entry(v.first); oldest > ahead {
		return false
	}
	l := v.write()
	for units > 0 && v.first < int(l.n) {
		stamp, n := l.entry(v.first)
		if stamp > ahead {
			break
		}
		if n > units {
			l.set(v.first, stamp, n-units)
			l.sum -= units
			v.used -= units
			break
		}
		l.remove(v.first)
		units -= n
		v.used -= n
	}
	return true
}

// find returns the index of the entry in the window with a stamp, or -1.
func (v *LogView) find(stamp int64) int {
	for k := int(v.log.n) - 1; k >= v.first; k-- {
		if s, _ := v.log.entry(k); s == stamp {
			return k
		}
	}
	return -1
}

// write makes the opened state the stored one.
func (v *LogView) write() *Log {
	l := v.home
	if v.log != l {
		tag := l.Tag
		*l = *v.log
		l.Tag = tag
		v.log = l
	}
	if v.dropped > 0 {
		l.dropOldest(v.dropped, v.gone)
		v.first -= v.dropped
		v.dropped, v.gone = 0, 0
	}
	l.last, l.keep = v.now, v.keep
	if l.more != nil || v.kept != v.now {
		l.setKept(v.kept)
	}
	return l
}
