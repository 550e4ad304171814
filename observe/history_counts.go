package observe

// decisions is how many there were, those that could not be made included.
func (c Counts) decisions() int64 { return c.Allowed + c.Denied + c.Failed }

func (c Counts) plus(d Counts) Counts {
	return Counts{c.Allowed + d.Allowed, c.Denied + d.Denied, c.Degraded + d.Degraded, c.Failed + d.Failed,
		c.Shadowed + d.Shadowed}
}

func (c Counts) minus(d Counts) Counts {
	return Counts{c.Allowed - d.Allowed, c.Denied - d.Denied, c.Degraded - d.Degraded, c.Failed - d.Failed,
		c.Shadowed - d.Shadowed}
}

// share returns the ith of n parts that are as equal as whole numbers can be, and add up to all.
func (c Counts) share(i, n int64) Counts {
	return Counts{
		share(c.Allowed, i, n), share(c.Denied, i, n), share(c.Degraded, i, n), share(c.Failed, i, n),
		share(c.Shadowed, i, n),
	}
}

// share returns the ith of n parts of a number, counted from 0.
func share(all, i, n int64) int64 {
	rest := all % n
	return all/n + rest*(i+1)/n - rest*i/n
}

// gather adds what another point counts. Times are left alone.
func (p *Point) gather(q *Point) {
	p.Counts = p.plus(q.Counts)
	p.Saved += q.Saved
	p.Calls += q.Calls
	p.CallsFailed += q.CallsFailed
	p.Carried += q.Carried
}

// part is a point with the ith of n parts of what it counts.
func (p *Point) part(i, n int64) Point {
	q := *p
	q.Counts = p.share(i, n)
	q.Saved = share(p.Saved, i, n)
	q.Calls = share(p.Calls, i, n)
	q.CallsFailed = share(p.CallsFailed, i, n)
	q.Carried = share(p.Carried, i, n)
	return q
}
