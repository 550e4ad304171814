package algorithm

// Each calls f with every entry in the window and every booking: when it was charged or is booked for, when it leaves
// the window, and how many units it has. An entry of a fixed window was charged at its start.
func (v *LogView) Each(f func(at, until, n int64)) {
	for k := v.first; k < int(v.log.n); k++ {
		stamp, n := v.log.entry(k)
		at := stamp
		if v.p.Span == 0 {
			at -= v.p.Slice
		}
		f(at, stamp+v.p.Span, n)
	}
	if b := v.log.booked(); b.len() > 0 {
		for _, b := range b.list {
			f(b.at, v.p.stamp(b.at)+v.p.Span, b.n)
		}
	}
}

// EachLast calls f with the expiry of each of the last so many holders to expire, the first of them first. It returns
// how many others there are.
func (v *ConcurrencyView) EachLast(most int, f func(expiry int64)) (others int64) {
	from := max(v.first, len(v.state.holders)-most)
	for i := from; i < len(v.state.holders); i++ {
		f(v.expiry(i))
	}
	return int64(from - v.first)
}
