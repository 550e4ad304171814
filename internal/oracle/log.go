package oracle

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint"
)

const maxEntries = 250

// span and slice are those of the rules' table.
func span(l *stint.Limit) int64 {
	if l.Algorithm == stint.AlgorithmFixed {
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

func stamp(l *stint.Limit, at int64) int64 {
	if slice(l) == 0 {
		return at
	}
	return at - at%slice(l) + slice(l)
}

func sum(entries []entry) (n int64) {
	for _, e := range entries {
		n += e.n
	}
	return n
}

func (k *counts) append(e, n int64) {
	if i := slices.IndexFunc(k.entries, func(x entry) bool { return x.at == e }); i >= 0 {
		k.entries[i].n += n
	} else {
		k.entries = append(k.entries, entry{e, n})
		slices.SortFunc(k.entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	}
	if len(k.entries) > maxEntries {
		k.entries[1].n += k.entries[0].n
		k.entries = k.entries[1:]
	}
}

// logEnd is when the last of a log's entries and bookings leaves; 0 if there is none.
func (k *counts) logEnd(l *stint.Limit, entries []entry, booked []booking) (end int64) {
	for _, e := range entries {
		end = max(end, e.at+span(l))
	}
	for _, b := range booked {
		end = max(end, stamp(l, b.until)+span(l))
	}
	return end
}

// amount is A(t): what counts at t.
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
		if stamp(l, b.until) > t-span(l) {
			n += b.n
		}
	}
	return n
}

// logFits reports whether there is room in every window that contains now.
func (k *counts) logFits(l *stint.Limit, now, cost int64) bool {
	if sum(k.entries)+cost > l.Capacity() {
		return false
	}
	for _, b := range k.booked {
		if b.from-span(l) < stamp(l, now) && k.amount(l, b.from)+cost > l.Capacity() {
			return false
		}
	}
	return true
}

// logEarliest tries every instant at which something leaves.
func (k *counts) logEarliest(l *stint.Limit, from, cost int64) int64 {
	all := slices.Clone(k.entries)
	for _, b := range k.booked {
		all = append(all, entry{stamp(l, b.until), b.n})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	left := sum(all)
	for _, e := range all {
		if e.at <= from-span(l) {
			left -= e.n
		}
	}
	if left+cost <= l.Capacity() {
		return from
	}
	for _, e := range all {
		if e.at <= from-span(l) {
			continue
		}
		if left -= e.n; left+cost <= l.Capacity() {
			return e.at + span(l)
		}
	}
	panic("oracle: no instant has room in a log that has an end")
}
