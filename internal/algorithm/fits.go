package algorithm

// Fits reports whether a cost fits now and still leaves room for every booking. Under a concurrency
// limit, the cost is 1, or 0 if the claim costs nothing.
func (v *View) Fits(cost int64) bool {
	return v.inWindow+v.held.total+cost <= v.most && (v.p.unit == 0 && v.booked == 0 || v.moreFits(cost))
}

// moreFits reports whether a cost fits in the meter and leaves room for every booking.
func (v *View) moreFits(cost int64) bool {
	p := v.p
	if p.unit > 0 && v.meter.level+p.weight(cost) > p.full {
		return false
	}
	return len(v.ahead) == 0 || (!p.log || v.logFits(cost)) && (p.unit == 0 || v.meterFits(cost))
}

// logFits reports whether a cost charged now leaves room in the log for every booking that becomes
// due while the cost counts.
func (v *View) logFits(cost int64) bool {
	p, used, k, leaving, held := v.p, v.inWindow+v.held.total, v.expired, v.ahead, v.held.units
	stamp := v.stamp(v.now)
	for _, b := range v.ahead {
		cut := b.at - p.Span
		if cut >= stamp {
			break
		}
		used += b.n
		for ; k < int(v.count.n); k++ {
			stamp, n := v.count.entry(k)
			if stamp > cut {
				break
			}
			used -= n
		}
		for v.stamp(leaving[0].end) <= cut {
			used -= leaving[0].n
			leaving = leaving[1:]
		}
		for len(held) > 0 && v.stamp(held[0].until) <= cut {
			used -= held[0].n
			held = held[1:]
		}
		if used+cost > p.Cap {
			return false
		}
	}
	return true
}

// meterFits reports whether a cost charged now leaves room in the meter for every booking.
func (v *View) meterFits(cost int64) bool {
	p, m := v.p, v.meter
	m.level += p.weight(cost)
	for i := range v.ahead {
		b := &v.ahead[i]
		if m.leak(p, b.at); m.level == 0 {
			break
		}
		if m.level += p.weight(b.n); m.level > p.full {
			return false
		}
	}
	return true
}

// Earliest returns the first instant at which there is room for cost, but no earlier than `from`.
// It returns Never if there is no such instant. No booking may be later than `from`.
func (v *View) Earliest(from, cost int64) int64 {
	p := v.p
	if p.Cap == 0 || cost > p.Cap {
		return Never
	}
	t := from
	if p.log {
		t = max(t, v.logRoom(cost))
	}
	if p.unit > 0 {
		m := v.meterAfter(len(v.ahead))
		t = max(t, m.fallsTo(p, p.full-p.weight(cost)))
	}
	if p.Places {
		t = max(t, v.placeRoom(cost))
	}
	return instant(t)
}

// logRoom returns the instant at which enough units have left the window to make room for cost, or
// 0 if there is room now.
func (v *View) logRoom(cost int64) (t int64) {
	over, k := v.inWindow+v.booked+v.held.total+cost-v.p.Cap, v.expired
	if over <= 0 {
		return 0
	}
	leaving, held := v.ahead, v.held.units
	for over > 0 && (k < int(v.count.n) || len(leaving)+len(held) > 0) {
		// The times at which the next entry, booking and held units leave.
		entry, booked, expires := Never, Never, Never
		if k < int(v.count.n) {
			stamp, _ := v.count.entry(k)
			entry = stamp + v.p.Span
		}
		if len(leaving) > 0 {
			booked = v.stamp(leaving[0].end) + v.p.Span
		}
		if len(held) > 0 {
			expires = v.goes(&held[0], v.books)
		}
		switch t = min(entry, booked, expires); t {
		case entry:
			_, n := v.count.entry(k)
			over -= n
			k++
		case booked:
			over -= leaving[0].n
			leaving = leaving[1:]
		default:
			over -= held[0].n
			held = held[1:]
		}
	}
	return t
}

// Only makes later queries of the view ignore the bookings at the given instant or later. If the
// instant is Never, they include all bookings.
func (v *View) Only(before int64) {
	v.ahead, v.booked = nil, 0
	if v.count.more == nil || v.p.void() {
		return
	}
	list := v.count.more.list
	v.ahead = list[:due(list, before-1)]
	for i := range v.ahead {
		v.booked += v.ahead[i].n
	}
}

// Firm makes later queries of the view ignore tentative bookings, which are those without a grace.
// Their owners ask again before they use them.
func (v *View) Firm() {
	list := v.ahead
	v.ahead, v.booked = nil, 0
	for _, b := range list {
		if b.end > b.at {
			v.ahead = append(v.ahead, b)
			v.booked += b.n
		}
	}
}

// HasCome reports whether a booking that ends at end has come due and still counts: the log then
// has units with its stamp.
func (v *View) HasCome(end int64) bool {
	stamp := v.stamp(end)
	return v.p.log && stamp > v.now-v.p.Span && v.count.find(stamp) >= v.expired
}

// BookedAt returns the time of the booking that ends at end, or 0 if there is none.
func (v *View) BookedAt(end int64) int64 {
	if i := find(v.ahead, end); i >= 0 {
		return v.ahead[i].at
	}
	return 0
}
