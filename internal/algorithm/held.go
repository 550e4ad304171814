package algorithm

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// holdSlices is the number of slices in the life of a hold. Units whose holds expire in the same
// slice are all held until its end.
const holdSlices = 64

// Stock reports whether l holds the estimate of a request with a hold of the given length, instead
// of charging it at once.
func Stock(l *stint.Limit, hold int64) bool {
	switch l.Algorithm {
	case stint.AlgorithmBucket, stint.AlgorithmConcurrency:
		return false
	}
	_, rate, _ := l.Meter()
	return rate == 0 && (l.HoldThrough || l.Window.Microseconds() > hold)
}

// Expiry returns the time at which a hold of the given length expires if it begins or is extended
// at the instant `at`.
func Expiry(at, hold int64) int64 {
	slice := ceil(hold, holdSlices)
	return ceil(at+hold, slice) * slice
}

type heldUnits struct{ until, n int64 }

// held lists held units in the order in which they expire.
type held struct {
	units []heldUnits
	total int64
	// charges reports whether units are charged when they expire. The most recent Hold set it.
	charges bool
}

// add holds n units until the given instant. If there are more than MaxEntries entries, it merges
// the two that expire first: they then expire together, at the later time.
func (h *held) add(until, n int64) {
	if n <= 0 {
		return
	}
	h.total += n
	i, found := slices.BinarySearchFunc(h.units, until, compareUntil)
	if found {
		h.units[i].n += n
		return
	}
	h.units = slices.Insert(h.units, i, heldUnits{until, n})
	if len(h.units) > MaxEntries {
		h.units[1].n += h.units[0].n
		h.units = slices.Delete(h.units, 0, 1)
	}
}

// remove removes n held units. It takes them from the entries that expire at the instant `until` or
// later, the earliest first. It takes the remainder from the other entries, the latest first.
func (h *held) remove(until, n int64) {
	n = min(n, h.total)
	h.total -= n
	from, _ := slices.BinarySearchFunc(h.units, until, compareUntil)
	for i := from; i < len(h.units) && n > 0; i++ {
		n -= h.units[i].take(n)
	}
	for i := from - 1; i >= 0 && n > 0; i-- {
		n -= h.units[i].take(n)
	}
	h.units = slices.DeleteFunc(h.units, func(u heldUnits) bool { return u.n == 0 })
}

func (u *heldUnits) take(n int64) int64 {
	n = min(n, u.n)
	u.n -= n
	return n
}

func compareUntil(u heldUnits, until int64) int { return cmp.Compare(u.until, until) }

// openHeld drops expired units from a copy of the count, and charges them if held.charges is set.
// It shortens holds that last longer than driver.LongestHold.
func (v *View) openHeld() {
	h := &v.count.more.held
	n, far := 0, v.now+driver.LongestHold.Microseconds()
	for n < len(h.units) && h.units[n].until <= v.now {
		n++
	}
	if n > 0 || h.units[len(h.units)-1].until > far {
		if v.count == v.stored {
			v.count = v.stored.Clone()
			h = &v.count.more.held
		}
		if v.count.n > 0 {
			v.countExpired()
			v.dropExpired()
		}
		for _, u := range h.units[:n] {
			h.total -= u.n
			if stamp := v.stamp(u.until); h.charges && stamp > v.now-v.p.Span {
				v.count.append(v.p, stamp, u.n)
			}
		}
		h.units = slices.Delete(h.units, 0, n)
		// Units that are held for longer were held while the clock was ahead.
		for k := len(h.units) - 1; k >= 0 && h.units[k].until > far; k-- {
			u := h.units[k]
			h.units, h.total = h.units[:k], h.total-u.n
			h.add(far, u.n)
		}
	}
	v.showHeld()
}

// showHeld copies the held units of the count to the view, so that its usage includes them.
func (v *View) showHeld() {
	v.held = held{}
	if m := v.count.more; m != nil {
		v.held = m.held
	}
}

// Held returns the number of held units.
func (v *View) Held() int64 { return v.held.total }

// Hold holds n units until the given instant. If that instant is not in the future, the units have
// already expired. charges determines whether units are charged when they expire.
func (v *View) Hold(until, n int64, charges bool) {
	m := v.write().extra()
	if n > 0 {
		m.held.charges = charges
	}
	if until <= v.now {
		if stamp := v.stamp(until); charges && stamp > v.now-v.p.Span && n > 0 {
			v.stored.append(v.p, stamp, n)
			v.inWindow += n
		}
	} else {
		m.held.add(until, n)
	}
	v.stored.tidy()
	v.showHeld()
}

// Release releases n units that are held until the given instant.
func (v *View) Release(until, n int64) {
	if c := v.write(); c.more != nil {
		c.more.held.remove(until, n)
	}
	v.stored.tidy()
	v.showHeld()
}

// ChargeMore charges up to n units now, and returns the number of units that it did not charge.
// debt is as in [View.Settle]. ChargeMore writes the opened count even if n is 0.
func (v *View) ChargeMore(n, debt int64) (dropped int64) {
	if n <= 0 || v.p.void() {
		v.write()
		return 0
	}
	charged := min(n, v.raise(debt))
	v.Charge(charged)
	return n - charged
}

// goes returns the instant at which held units stop counting if they are not settled: when they
// expire or, if they are charged on expiry, a span later. If books is set, the result is always a
// span later, because the units may be charged at any time until they expire.
func (v *View) goes(u *heldUnits, books bool) int64 {
	if v.held.charges || books {
		return v.stamp(u.until) + v.p.Span
	}
	return u.until
}
