package observe

import "time"

// decisions returns the number of decisions, including those that failed.
func (c Counts) decisions() int64 { return c.Allowed + c.Denied + c.Failed }

// counts returns the number of decisions with each outcome. The counters of t must be indexed by
// reason.
func (t *tally) counts() (c Counts) {
	for r := range reasonCount {
		n := t.sum(int(r))
		switch r.outcome() {
		case allowedOutcome:
			c.Allowed += n
		case deniedOutcome:
			c.Denied += n
		default:
			c.Failed += n
		}
		switch r {
		case allowedDegraded, deniedDegraded, unavailable:
			c.Degraded += n
		case shadowed:
			c.Shadowed += n
		}
	}
	return c
}

// combine applies f to each field of c and the corresponding field of d.
func (c Counts) combine(d Counts, f func(a, b int64) int64) Counts {
	return Counts{
		Allowed: f(c.Allowed, d.Allowed), Denied: f(c.Denied, d.Denied), Degraded: f(c.Degraded, d.Degraded),
		Failed: f(c.Failed, d.Failed), Shadowed: f(c.Shadowed, d.Shadowed),
	}
}

// combine applies f to each count of p and the corresponding count of q. The result keeps p's time
// and percentiles.
func (p Point) combine(q Point, f func(a, b int64) int64) Point {
	p.Counts = p.Counts.combine(q.Counts, f)
	p.Saved, p.Carried = f(p.Saved, q.Saved), f(p.Carried, q.Carried)
	p.Calls, p.CallsFailed = f(p.Calls, q.Calls), f(p.CallsFailed, q.CallsFailed)
	return p
}

// add adds the counts of another point. It has the same effect as [Point.combine] with the function
// plus, but is fast enough for sums that are computed every second.
func (p *Point) add(q *Point) {
	p.Allowed += q.Allowed
	p.Denied += q.Denied
	p.Degraded += q.Degraded
	p.Failed += q.Failed
	p.Shadowed += q.Shadowed
	p.Saved += q.Saved
	p.Carried += q.Carried
	p.Calls += q.Calls
	p.CallsFailed += q.CallsFailed
}

func plus(a, b int64) int64 { return a + b }

func minus(a, b int64) int64 { return a - b }

// part returns a function that divides a number into n parts and returns part i, counted from 0.
// The parts differ by at most one and add up to the number.
func part(i, n int64) func(all, _ int64) int64 {
	return func(all, _ int64) int64 {
		rest := all % n
		return all/n + rest*(i+1)/n - rest*i/n
	}
}

// sum returns the total of the counts in the last d, or in all fine steps if they cover less. It
// also returns the number of seconds that the total covers. The total has no percentiles; see
// [history.during].
func (h *history) sum(d time.Duration) (sum Point, seconds int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(int(d/fine), len(h.fine.items))
	for i := len(h.fine.items) - n; i < len(h.fine.items); i++ {
		sum.add(h.fine.at(i))
	}
	return sum, int64(n)
}

// sumBefore returns the total of the coarse steps that ended at least skip and less than d ago, and
// the number of seconds that these steps cover.
func (h *history) sumBefore(skip, d time.Duration) (sum Point, seconds int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.coarse.items {
		p := h.coarse.at(i)
		if ago := h.now - p.At; ago >= int64(skip/time.Second) && ago < int64(d/time.Second) {
			sum.add(p)
			seconds += finePerCoarse
		}
	}
	return sum, seconds
}

// during returns the durations of decisions and store calls in the last d, or since the oldest mark
// if that is more recent. The period may be up to one coarse step longer than d.
func (h *history) during(d time.Duration) (decisions, storeCalls buckets) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := h.marks.at(0)
	for i := range h.marks.items {
		if m := h.marks.at(i); m.at <= h.now-int64(d/time.Second) {
			from = m
		}
	}
	return h.last.decisions.sub(&from.decisions), h.last.storeCalls.sub(&from.storeCalls)
}

func (p *Point) setDurations(decisions, storeCalls *buckets) {
	p.P50, p.P99 = decisions.quantile(0.5).Seconds(), decisions.quantile(0.99).Seconds()
	p.StoreP50, p.StoreP99 = storeCalls.quantile(0.5).Seconds(), storeCalls.quantile(0.99).Seconds()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
