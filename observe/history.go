package observe

import (
	"sync"
	"time"
)

const (
	// fine and coarse are the lengths of the steps of a history. fineSteps and coarseSteps are the
	// numbers of steps kept: a quarter of an hour of fine steps, and two hours of coarse steps.
	// seriesSteps is the number of coarse steps kept for each series: a quarter of an hour.
	fine        = time.Second
	coarse      = 10 * time.Second
	fineSteps   = 15 * 60
	coarseSteps = 2 * 60 * 6
	seriesSteps = 15 * 6

	finePerCoarse = int64(coarse / fine)
	// markSteps is the longest period, in coarse steps, that can be passed to [history.during]:
	// five minutes.
	markSteps = 5 * 6
)

// history records counts second by second. About once per second it receives the totals since the
// start, and keeps their difference from the previous totals.
//
// Seconds are counted by the monotonic clock. The wall clock only labels them: if it is set, the
// whole history moves with it, without gaps or duplicates. If the history receives no totals for a
// few seconds, for instance because the process was suspended, it divides the difference evenly
// among these seconds. So the totals are right, and no second shows a false peak.
//
// It is safe for concurrent use.
type history struct {
	start time.Time

	mu     sync.Mutex
	now    int64  // the newest second, counted from the start
	offset int64  // the Unix time of the start
	last   totals // the totals at the end of the newest second, without the series
	fine   ring[Point]
	coarse ring[Point]
	open   Point // counts collected so far for the next coarse step
	rows   []row
	marks  ring[mark]
}

type row struct {
	Series
	recent ring[Counts]
	open   Counts // counts collected so far for the next step
	since  Counts // counts since the last sample
}

// mark is a snapshot of the histograms at the end of a coarse step.
type mark struct {
	at                    int64
	decisions, storeCalls buckets
}

func newHistory() *history {
	h := &history{
		start:  time.Now(),
		fine:   newRing[Point](fineSteps),
		coarse: newRing[Point](coarseSteps),
		marks:  newRing[mark](markSteps + 1),
	}
	h.offset = h.start.Unix()
	h.marks.push(mark{})
	return h
}

// add records the totals at the given time, and returns the second that ends at that time. It also
// returns the series that have changed; their Recent has only the change. If less than half a
// second has passed since the previous second, add returns the previous second again, and the next
// call includes the counts since then.
func (h *history) add(at time.Time, t *totals) (Point, []Series) {
	return h.record(at.Sub(h.start), at.Unix(), t)
}

// record does the same as add. The argument since is the time since the start by the monotonic
// clock, and wall is the Unix time by the wall clock.
func (h *history) record(since time.Duration, wall int64, t *totals) (Point, []Series) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := int64((since + fine/2) / fine)
	steps := now - h.now
	if steps <= 0 {
		if len(h.fine.items) == 0 {
			return Point{At: h.offset + h.now}, nil
		}
		return h.dated(h.fine.last(1))[0], nil
	}
	// Samples are taken a little early or late, and the wall clock may run a little fast or slow. A
	// deviation of up to one second is ignored, so that there is no gap and no second appears
	// twice.
	if off := wall - now - h.offset; off < -1 || off > 1 {
		h.offset = wall - now
	}
	all := h.difference(t)
	series := h.follow(t.series)
	for i := max(0, steps-coarseSteps*finePerCoarse); i < steps; i++ {
		h.step(all, i, steps, t)
	}
	h.now = now
	h.last = *t
	h.last.series, h.last.names = nil, nil
	return h.dated(h.fine.last(1))[0], series
}

// difference returns the counts and durations since the last sample.
func (h *history) difference(t *totals) Point {
	decisions, calls := t.decisions.sub(&h.last.decisions), t.storeCalls.sub(&h.last.storeCalls)
	p := t.Point.combine(h.last.Point, minus)
	p.setDurations(&decisions, &calls)
	p.lengthen(&t.slowest)
	return p
}

// rebase adds counts to the totals but not to any second. It is used for counts of other processes
// if it is not known in which seconds they were counted.
func (h *history) rebase(all Point, series []Series) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last.Point = h.last.Point.combine(all, plus)
	for i, s := range series {
		r := h.row(i)
		r.Total = r.Total.combine(s.Total, plus)
	}
}

// row returns the row of series i. If there are only i rows, it adds that row.
func (h *history) row(i int) *row {
	if i == len(h.rows) {
		h.rows = append(h.rows, row{recent: newRing[Counts](seriesSteps)})
	}
	return &h.rows[i]
}

// follow updates the rows to new totals. The list all holds the totals of all series, in the order
// of the rows. follow returns the series that have changed; their Recent has only the change.
func (h *history) follow(all []Series) []Series {
	var happened []Series
	for i, s := range all {
		r := h.row(i)
		r.since, r.Series = s.Total.combine(r.Total, minus), s
		if r.since != (Counts{}) {
			s.Recent = []Counts{r.since}
			happened = append(happened, s)
		}
	}
	return happened
}

// step adds one of the seconds since the last sample to the history. steps is the number of these
// seconds, and i is the index of the one to add. That second gets an equal share of the counts
// since that sample, which are in all.
func (h *history) step(all Point, i, steps int64, t *totals) {
	share := part(i, steps)
	p := all.combine(all, share)
	p.At = h.now + i + 1
	h.fine.push(p)
	h.open = h.open.combine(p, plus)
	for j := range h.rows {
		r := &h.rows[j]
		r.open = r.open.combine(r.since.combine(r.since, share), plus)
	}
	if p.At%finePerCoarse != 0 {
		return
	}
	newest := h.marks.at(len(h.marks.items) - 1)
	decisions, calls := t.decisions.sub(&newest.decisions), t.storeCalls.sub(&newest.storeCalls)
	h.open.setDurations(&decisions, &calls)
	h.open.lengthen(&t.slowest)
	h.open.At = p.At
	h.coarse.push(h.open)
	h.open = Point{}
	for j := range h.rows {
		r := &h.rows[j]
		r.recent.push(r.open)
		r.open = Counts{}
	}
	if i+finePerCoarse >= steps { // if one sample spans several coarse steps, only the last gets a mark
		h.marks.push(mark{p.At, t.decisions, t.storeCalls})
	}
}

// dated converts the times of points to Unix time, in place, and returns the points.
func (h *history) dated(points []Point) []Point {
	for i := range points {
		points[i].At += h.offset
	}
	return points
}

// points returns the history, oldest first. It has fine steps, or coarse steps if step is longer
// than a second.
func (h *history) points(step time.Duration) []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	if step <= fine {
		return h.dated(h.fine.last(fineSteps))
	}
	return h.dated(h.coarse.last(coarseSteps))
}

// series returns every series. The last element of each Recent covers the newest complete coarse
// step.
func (h *history) series() []Series {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Series, len(h.rows))
	for i := range h.rows {
		all[i] = h.rows[i].Series
		all[i].Recent = h.rows[i].recent.last(seriesSteps)
	}
	return all
}
