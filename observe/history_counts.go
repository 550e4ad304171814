package observe

// decisions returns the number of decisions, including those that failed.
func (c Counts) decisions() int64 { return c.Allowed + c.Denied + c.Failed }

// combine applies f to each pair of counts.
func (c Counts) combine(d Counts, f func(a, b int64) int64) Counts {
	return Counts{
		Allowed: f(c.Allowed, d.Allowed), Denied: f(c.Denied, d.Denied), Degraded: f(c.Degraded, d.Degraded),
		Failed: f(c.Failed, d.Failed), Shadowed: f(c.Shadowed, d.Shadowed),
	}
}

// combine applies f to each pair of counts of the two points. Times are unchanged.
func (p Point) combine(q Point, f func(a, b int64) int64) Point {
	p.Counts = p.Counts.combine(q.Counts, f)
	p.Saved, p.Carried = f(p.Saved, q.Saved), f(p.Carried, q.Carried)
	p.Calls, p.CallsFailed = f(p.Calls, q.Calls), f(p.CallsFailed, q.CallsFailed)
	return p
}

// add adds the counts of another point. It does the same as [Point.combine] with plus, but is fast
// enough for the sums that are computed every second.
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

func plus(a, b int64) int64  { return a + b }
func minus(a, b int64) int64 { return a - b }

// part returns a function that returns the ith of n parts of a number, counted from 0. The parts
// differ by at most one and add up to the number.
func part(i, n int64) func(all, _ int64) int64 {
	return func(all, _ int64) int64 {
		rest := all % n
		return all/n + rest*(i+1)/n - rest*i/n
	}
}
