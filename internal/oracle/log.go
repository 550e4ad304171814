package oracle

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/calendar"
)

const maxEntries = 250

// span and slice follow the table in docs/rules.md.
func span(l *stint.Limit) int64 {
	if l.Algorithm == stint.AlgorithmFixed || l.Algorithm == stint.AlgorithmCalendar {
		return 0
	}
	return l.Window.Microseconds()
}

func slice(l *stint.Limit) int64 {
	switch {
	case l.Algorithm == stint.AlgorithmFixed:
		return l.Window.Microseconds()
	case l.Capacity() > 125:
		return (l.Window.Microseconds() + 124) / 125
	default:
		return 0
	}
}

func (k *counts) stamp(l *stint.Limit, at int64) int64 {
	switch {
	case l.Algorithm == stint.AlgorithmCalendar:
		ends := append(slices.Clone(k.ends), k.ends[2]+l.Window.Microseconds())
		return ends[slices.IndexFunc(ends, func(end int64) bool { return at < end || end > k.ends[2] })]
	case slice(l) == 0:
		return at
	}
	return at - at%slice(l) + slice(l)
}

// openCalendar sets k.ends to the ends of the previous, the current and the next period. Ends that
// are stored in entries take precedence; the limit's own calendar provides the others.
func (k *counts) openCalendar(l *stint.Limit, now int64) {
	own := calendar.Calendar{Period: l.Window, Start: l.Start, Zone: l.Zone}.Around(now)
	far := now + 2*l.Window.Microseconds()
	k.booked = slices.DeleteFunc(k.booked, func(b booking) bool { return b.from > far })
	before := k.entries
	k.entries = nil
	for _, e := range before {
		if e.at > far {
			e.at = own.This
		}
		k.append(e.at, e.n)
	}
	last, ahead := own.Last, []int64(nil)
	for _, e := range k.entries {
		if e.at <= now {
			last = max(last, e.at)
		} else {
			ahead = append(ahead, e.at)
		}
	}
	for _, end := range []int64{own.This, own.Next} {
		if len(ahead) == 0 || end > ahead[len(ahead)-1] {
			ahead = append(ahead, end)
		}
	}
	ahead = append(ahead, ahead[len(ahead)-1]+l.Window.Microseconds())
	k.ends = []int64{last, ahead[0], ahead[1]}
	// Drop the entries of periods that have ended. If the last end is later than the calendar's,
	// keep it as an entry without units.
	k.entries = slices.DeleteFunc(k.entries, func(e entry) bool { return e.at <= now })
	if last > own.Last {
		k.append(last, 0)
	}
}

func sum(entries []entry) (n int64) {
	for _, e := range entries {
		n += e.n
	}
	return n
}

func (k *counts) append(e, n int64) { k.entries = appendEntry(k.entries, e, n) }

// appendEntry adds n units to the entry at the given instant, or inserts one. If that makes too
// many entries, it merges the two oldest.
func appendEntry(list []entry, at, n int64) []entry {
	if i := slices.IndexFunc(list, func(x entry) bool { return x.at == at }); i >= 0 {
		list[i].n += n
	} else {
		list = append(list, entry{at, n})
		slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	}
	if len(list) > maxEntries {
		list[1].n += list[0].n
		list = list[1:]
	}
	return list
}

// logEnd returns the instant at which the last of a log's entries, bookings and held units leaves
// the window, or 0 if there are none.
func (k *counts) logEnd(l *stint.Limit, entries []entry, booked []booking) (end int64) {
	for _, e := range entries {
		if e.n > 0 {
			end = max(end, e.at+span(l))
		}
	}
	for _, b := range booked {
		end = max(end, k.stamp(l, b.until)+span(l))
	}
	for _, h := range k.held {
		end = max(end, k.goes(l, h, false))
	}
	return end
}

// goes returns the instant from which the held units h no longer count if they are not settled. If
// they are charged when they expire, or if `books` is set, it is the instant at which they then
// leave the window. Otherwise, it is their expiry.
func (k *counts) goes(l *stint.Limit, h entry, books bool) int64 {
	if k.charges || books {
		return k.stamp(l, h.at) + span(l)
	}
	return h.at
}

// amount returns the units that count at t, which docs/rules.md calls A(t).
func (k *counts) amount(l *stint.Limit, t int64) (n int64) {
	for _, e := range k.entries {
		if e.at > t-span(l) {
			n += e.n
		}
	}
	for _, b := range k.booked {
		if b.from > t {
			break
		}
		if k.stamp(l, b.until) > t-span(l) {
			n += b.n
		}
	}
	for _, h := range k.held {
		if k.stamp(l, h.at) > t-span(l) {
			n += h.n
		}
	}
	return n
}

// logFits reports whether there is room for a cost in every window that contains now.
func (k *counts) logFits(l *stint.Limit, now, cost int64) bool {
	if sum(k.entries)+sum(k.held)+cost > l.Capacity() {
		return false
	}
	for _, b := range k.booked {
		if b.from-span(l) < k.stamp(l, now) && k.amount(l, b.from)+cost > l.Capacity() {
			return false
		}
	}
	return true
}

// logEarliest returns the first instant at or after `from` with room for a cost. It tries every
// instant at which units leave the window.
func (k *counts) logEarliest(l *stint.Limit, from, cost int64) int64 {
	var all []entry // at is the instant at which the units leave
	for _, e := range k.entries {
		all = append(all, entry{e.at + span(l), e.n})
	}
	for _, b := range k.booked {
		all = append(all, entry{k.stamp(l, b.until) + span(l), b.n})
	}
	for _, h := range k.held {
		all = append(all, entry{k.goes(l, h, k.books), h.n})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	left := sum(all)
	for _, e := range all {
		if e.at <= from {
			left -= e.n
		}
	}
	if left+cost <= l.Capacity() {
		return from
	}
	for _, e := range all {
		if e.at <= from {
			continue
		}
		if left -= e.n; left+cost <= l.Capacity() {
			return e.at
		}
	}
	panic("oracle: no instant has room in a log that has an end")
}
