package observe

import "time"

// sums adds up the counts of other processes. Their reports arrive every few seconds, so the counts
// are spread evenly over the seconds until the next reports.
type sums struct {
	names []seriesName
	index map[seriesName]int // indexes into names
	taken totals             // counts already in the sums
	owed  totals             // counts to add in the next seconds
	steps int64              // remaining number of seconds over which to spread owed
}

// at returns the index of a series, and adds the series if it is missing. If there are 2*maxSeries
// series already, at uses the series name.rest() instead.
func (s *sums) at(name seriesName) int {
	i, ok := s.index[name]
	if !ok && len(s.names) >= 2*maxSeries {
		name = name.rest()
		i, ok = s.index[name]
	}
	if !ok {
		i = len(s.names)
		s.index[name] = i
		s.names = append(s.names, name)
		series := Series{Tier: name.tier, Policy: name.policy}
		s.taken.series, s.owed.series = append(s.taken.series, series), append(s.owed.series, series)
	}
	return i
}

// add adds to the sums what p has counted since its last report; the new report is in counts. If
// timed is true, p counted this in the last few seconds, so it is spread evenly over the next
// seconds; steps is their number. Otherwise, it is added at once, and add returns it.
func (s *sums) add(p *peer, counts *countsRecord, timed bool, steps int64) (before *totals) {
	into := &s.owed
	if !timed {
		into = &totals{}
	}
	into.Point = into.Point.combine(counts.point.combine(p.counts.point, minus), plus)
	for i, c := range counts.series {
		if i < len(p.counts.series) {
			c = c.combine(p.counts.series[i], minus)
		}
		at := s.at(p.facts.series[i])
		for len(into.series) < len(s.names) {
			into.series = append(into.series, Series{})
		}
		into.series[at].Total = into.series[at].Total.combine(c, plus)
	}
	if timed {
		s.steps = max(steps, 1)
		return nil
	}
	s.move(into, func(all, _ int64) int64 { return all })
	return into
}

// move subtracts a part of each count from the totals in from, and adds it to s.taken. The function
// share returns the part of a count to move.
func (s *sums) move(from *totals, share func(all, _ int64) int64) {
	some := from.Point.combine(from.Point, share)
	s.taken.Point, from.Point = s.taken.Point.combine(some, plus), from.Point.combine(some, minus)
	for i := range from.series {
		c := from.series[i].Total
		c = c.combine(c, share)
		s.taken.series[i].Total = s.taken.series[i].Total.combine(c, plus)
		from.series[i].Total = from.series[i].Total.combine(c, minus)
	}
}

// tick is called once a second with the totals of this process. It returns the same as
// [history.add], but for all processes together.
func (f *fleet) tick(own *totals, now time.Time) (Point, []Series) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.whole
	s.move(&s.owed, part(0, max(s.steps, 1)))
	s.steps--
	w := totals{Point: own.Point.combine(s.taken.Point, plus), decisions: own.decisions, storeCalls: own.storeCalls}
	for _, name := range own.names {
		s.at(name)
	}
	w.series = append(w.series, s.taken.series...)
	for i, name := range own.names {
		t := &w.series[s.at(name)].Total
		*t = t.combine(own.series[i].Total, plus)
	}
	f.each(func(p *peer) { w.slowest.lengthen(&p.counts.point) })
	return f.history.add(now, &w)
}

// lengthen replaces each duration in p with the duration in q if that is longer.
func (p *Point) lengthen(q *Point) {
	p.P50, p.P99 = max(p.P50, q.P50), max(p.P99, q.P99)
	p.StoreP50, p.StoreP99 = max(p.StoreP50, q.StoreP50), max(p.StoreP99, q.StoreP99)
}
