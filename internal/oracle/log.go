package oracle

import (
	"cmp"
	"slices"
	"sort"

	"github.com/stint-limiter/stint"
)

// entry is n units at an instant: an entry's stamp or a booking's time.
type entry struct{ at, n int64 }

// eventLog is the state of sliding and fixed limits, and of strikes.
type eventLog struct {
	entries []entry
	booked  []entry
	last    int64
	keep    int64
	kept    int64
}

const maxEntries = 250

// span and slice are those of the rules' table.
func span(l *stint.Limit) int64 {
	if l.Algorithm == stint.Fixed {
		return 0
	}
	return l.BurstTimes() * l.Window.Microseconds()
}

func slice(l *stint.Limit) int64 {
	switch {
	case l.Algorithm == stint.Fixed:
		return l.Window.Microseconds()
	case l.Capacity() > 125:
		return (span(l) + 124) / 125
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

func (g *eventLog) clone() state {
	c := *g
	c.entries = slices.Clone(g.entries)
	c.booked = slices.Clone(g.booked)
	return &c
}

func (g *eventLog) stepBack(_ *stint.Limit, now int64) bool {
	if now >= g.last {
		return false
	}
	d := g.last - now
	for i := range g.entries {
		g.entries[i].at -= d
	}
	for i := range g.booked {
		g.booked[i].at -= d
	}
	g.kept -= d
	g.last = now
	return true
}

func (g *eventLog) open(l *stint.Limit, now int64) {
	g.last = now
	times, window := l.BurstTimes(), l.Window.Microseconds()
	before := g.keep
	if times >= g.keep || now-g.kept > g.keep*window {
		g.keep, g.kept = times, now
	}
	for len(g.booked) > 0 && g.booked[0].at <= now {
		g.append(stamp(l, g.booked[0].at), g.booked[0].n)
		g.booked = g.booked[1:]
	}
	horizon := now - min(before, g.keep)*window
	if l.Algorithm == stint.Fixed {
		horizon = now
	}
	for len(g.entries) > 0 && g.entries[0].at <= horizon {
		g.entries = g.entries[1:]
	}
	if len(g.entries)+len(g.booked) == 0 {
		g.keep, g.kept = times, now
	}
}

func (g *eventLog) append(e, n int64) {
	if i := slices.IndexFunc(g.entries, func(x entry) bool { return x.at == e }); i >= 0 {
		g.entries[i].n += n
	} else {
		g.entries = append(g.entries, entry{e, n})
		slices.SortFunc(g.entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	}
	if len(g.entries) > maxEntries {
		g.entries[1].n += g.entries[0].n
		g.entries = g.entries[1:]
	}
}

func (g *eventLog) used(l *stint.Limit, now int64) int64 {
	var sum int64
	for _, e := range g.entries {
		if e.at > now-span(l) {
			sum += e.n
		}
	}
	for _, b := range g.booked {
		sum += b.n
	}
	return sum
}

func (g *eventLog) reset(l *stint.Limit, now int64) int64 {
	if g.used(l, now) == 0 {
		return 0
	}
	var latest int64
	for _, e := range g.entries {
		latest = max(latest, e.at)
	}
	for _, b := range g.booked {
		latest = max(latest, stamp(l, b.at))
	}
	return latest + span(l) - now
}

func (g *eventLog) charge(l *stint.Limit, now, cost int64, _ uint64) { g.append(stamp(l, now), cost) }

func (g *eventLog) lease(l *stint.Limit, until, cost int64) { g.append(stamp(l, until), cost) }

func (g *eventLog) book(at, cost int64) { g.booked = addBooking(g.booked, at, cost) }

func (g *eventLog) bookings() []entry { return g.booked }

// addBooking keeps the order of time: Reserve never books before the last one.
func addBooking(booked []entry, at, cost int64) []entry {
	if k := len(booked); k > 0 && booked[k-1].at == at {
		booked[k-1].n += cost
		return booked
	}
	return append(booked, entry{at, cost})
}

// amount is A(t): what counts at t.
func (g *eventLog) amount(l *stint.Limit, t int64) int64 {
	var sum int64
	start := t - span(l)
	for _, e := range g.entries {
		if e.at > start {
			sum += e.n
		}
	}
	due := sort.Search(len(g.booked), func(i int) bool { return g.booked[i].at > t })
	for due--; due >= 0 && stamp(l, g.booked[due].at) > start; due-- {
		sum += g.booked[due].n
	}
	return sum
}

// fits reports whether there is room in every window that contains t.
func (g *eventLog) fits(l *stint.Limit, t, cost int64) bool {
	if g.amount(l, t)+cost > l.Capacity() {
		return false
	}
	for _, b := range g.booked {
		if t < b.at && b.at-span(l) < stamp(l, t) && g.amount(l, b.at)+cost > l.Capacity() {
			return false
		}
	}
	return true
}

// earliest tries every instant at which something stops being in the way.
func (g *eventLog) earliest(l *stint.Limit, from, cost int64) int64 {
	if l.Capacity() == 0 || cost > l.Capacity() {
		return never
	}
	candidates := []int64{from}
	for _, e := range g.entries {
		candidates = append(candidates, e.at+span(l))
	}
	for _, b := range g.booked {
		candidates = append(candidates, b.at, stamp(l, b.at)+span(l))
	}
	slices.Sort(candidates)
	for _, t := range slices.Compact(candidates) {
		if t >= from && g.fits(l, t, cost) {
			return t
		}
	}
	panic("oracle: no instant has room in a log that has an end")
}

func (g *eventLog) settle(l *stint.Limit, now int64, c settlement) bool {
	list, at := &g.entries, stamp(l, c.at)
	isBooked := slices.ContainsFunc(g.booked, func(b entry) bool { return b.at == c.at })
	if c.at > now && isBooked {
		list, at = &g.booked, c.at
	} else if at <= now-span(l) {
		return false
	}
	total := c.trueCost - c.cost
	for _, e := range append(slices.Clone(g.entries), g.booked...) {
		total += e.n
	}
	if c.trueCost > c.cost && total > most {
		return false
	}
	return settleIn(list, at, c)
}

// settleIn corrects what stands at an instant. It reports whether anything does.
func settleIn(list *[]entry, at int64, c settlement) bool {
	for i := range *list {
		e := &(*list)[i]
		if e.at != at {
			continue
		}
		e.n = max(0, e.n+c.trueCost-c.cost)
		if e.n == 0 {
			*list = slices.Delete(*list, i, i+1)
		}
		return true
	}
	return false
}

func (g *eventLog) giveBack(l *stint.Limit, now, units int64) bool {
	var kept []entry
	given := false
	for _, e := range g.entries {
		if e.at > now-span(l) && e.at <= stamp(l, now) {
			n := min(e.n, units)
			units, e.n, given = units-n, e.n-n, given || n > 0
		}
		if e.n > 0 {
			kept = append(kept, e)
		}
	}
	g.entries = kept
	return given
}
