package algorithm

import "slices"

// Concurrency is the state of a concurrency limit: who holds a place. The zero Concurrency has no
// holders.
type Concurrency struct {
	holders []holder // in order of expiry: all are kept for the same time
	// reset is a window after the last reset, 0 if there was none: until then no place from before
	// is taken back.
	reset int64
}

type holder struct {
	id     uint64
	expiry int64
}

// Bytes is what the state holds beside itself.
func (c *Concurrency) Bytes() int { return 16 * cap(c.holders) }

// Dead reports that no holder is left, and no reset counts.
func (c *Concurrency) Dead(now int64) bool { return c.Empty(now) && c.reset < now }

// Empty reports that no holder is left, though a reset may count.
func (c *Concurrency) Empty(now int64) bool {
	n := len(c.holders)
	return n == 0 || c.holders[n-1].expiry < now
}

// ConcurrencyView is a concurrency limit's state opened at one instant.
type ConcurrencyView struct {
	state *Concurrency
	p     *Params
	now   int64
	first int // the first living holder
}

// Open drops the holders that have expired and shortens what outlasts a window, which happens when
// the clock steps back. If it only looks it writes nothing.
func (v *ConcurrencyView) Open(c *Concurrency, p *Params, now int64, look bool) {
	v.state, v.p, v.now, v.first = c, p, now, 0
	for v.first < len(c.holders) && c.holders[v.first].expiry <= now {
		v.first++
	}
	if !look {
		v.shorten()
	}
}

func (v *ConcurrencyView) shorten() {
	h, latest := v.state.holders, v.now+v.p.Window
	for i := len(h) - 1; i >= 0 && h[i].expiry > latest; i-- {
		h[i].expiry = latest
	}
}

// Used is the number of holders.
func (v *ConcurrencyView) Used() int64 { return int64(len(v.state.holders) - v.first) }

// expiry is the i-th holder's.
func (v *ConcurrencyView) expiry(i int) int64 {
	return min(v.state.holders[i].expiry, v.now+v.p.Window)
}

// Reset is the time until the last holder expires.
func (v *ConcurrencyView) Reset() int64 {
	if v.Used() == 0 {
		return 0
	}
	return v.expiry(len(v.state.holders)-1) - v.now
}

// Fits reports whether there is a place.
func (v *ConcurrencyView) Fits(cost int64) bool { return v.Earliest(v.now, cost) == v.now }

// Earliest is the first instant, not before from, at which there is a place; at cost 0, at which
// there are no more holders than places.
func (v *ConcurrencyView) Earliest(from, cost int64) int64 {
	if v.p.Cap == 0 {
		return Never
	}
	over := v.Used() - v.p.Cap
	if cost > 0 {
		over++
	}
	if over <= 0 {
		return from
	}
	return max(from, v.expiry(v.first+int(over)-1))
}

// Charge gives a place to the holder named by a charge.
func (v *ConcurrencyView) Charge(id uint64) {
	c := v.write()
	c.holders = append(c.holders, holder{id, v.now + v.p.Window})
}

// Extend lets a living holder keep its place for another window from now.
func (v *ConcurrencyView) Extend(id uint64) bool {
	if !v.Release(id) {
		return false
	}
	v.Charge(id)
	return true
}

// Retake gives a holder its place back that it was charged at an instant, unless that was before a
// reset. That it does not live is known.
func (v *ConcurrencyView) Retake(id uint64, at int64) bool {
	if reset := v.state.reset - v.p.Window; v.state.reset > 0 && reset <= v.now &&
		v.now < v.state.reset && at <= reset {
		return false
	}
	v.Charge(id)
	return true
}

// Clear takes all places away, in a reset.
func (v *ConcurrencyView) Clear() {
	v.state.holders, v.first, v.state.reset = nil, 0, v.now+v.p.Window
}

// Release takes a living holder's place away.
func (v *ConcurrencyView) Release(id uint64) bool {
	i := slices.IndexFunc(v.state.holders[v.first:], func(h holder) bool { return h.id == id })
	if i < 0 {
		return false
	}
	c := v.write()
	c.holders = slices.Delete(c.holders, i, i+1)
	return true
}

// write makes the opened state the stored one.
func (v *ConcurrencyView) write() *Concurrency {
	v.shorten()
	v.state.holders = slices.Delete(v.state.holders, 0, v.first)
	v.first = 0
	return v.state
}

// EachLast calls f with the expiry of each of the last so many holders to expire, the first of them
// first. It returns how many others there are.
func (v *ConcurrencyView) EachLast(most int, f func(expiry int64)) (others int64) {
	from := max(v.first, len(v.state.holders)-most)
	for i := from; i < len(v.state.holders); i++ {
		f(v.expiry(i))
	}
	return int64(from - v.first)
}
