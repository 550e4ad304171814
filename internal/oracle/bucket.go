package oracle

import (
	"math/big"
	"slices"

	"github.com/stint-limiter/stint"
)

// bucket is the state of a bucket. Weights are big: no product can overflow.
type bucket struct {
	weight *big.Int
	unit   int64
	last   int64
	booked []entry
	limit  stint.Limit // it was last opened with; see Idle
}

func newBucket() *bucket { return &bucket{weight: new(big.Int)} }

func (b *bucket) clone() state {
	return &bucket{weight: new(big.Int).Set(b.weight), unit: b.unit, last: b.last, booked: slices.Clone(b.booked), limit: b.limit}
}

// scale returns a limit's unit and rate: its window and Max, reduced.
func scale(l *stint.Limit) (unit, rate int64) {
	window := big.NewInt(l.Window.Microseconds())
	limit := big.NewInt(l.Max)
	gcd := new(big.Int).GCD(nil, nil, window, limit)
	return window.Div(window, gcd).Int64(), limit.Div(limit, gcd).Int64()
}

func times(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// ceil is ⌈a / b⌉ for a ≥ 0, b > 0.
func ceil(a *big.Int, b int64) int64 {
	q, r := new(big.Int).QuoRem(a, big.NewInt(b), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// leak lets the bucket refill until t.
func (b *bucket) leak(t, rate int64) {
	b.weight.Sub(b.weight, times(t-b.last, rate))
	if b.weight.Sign() < 0 {
		b.weight.SetInt64(0)
	}
	b.last = t
}

// pass leads the meter through its bookings up to and at t, and on to t.
func (b *bucket) pass(l *stint.Limit, t int64) {
	unit, rate := scale(l)
	for len(b.booked) > 0 && b.booked[0].at <= t {
		b.leak(b.booked[0].at, rate)
		b.weight.Add(b.weight, times(b.booked[0].n, unit))
		b.booked = b.booked[1:]
	}
	b.leak(t, rate)
}

// after is a copy of the bucket as it will be at t.
func (b *bucket) after(l *stint.Limit, t int64) *bucket {
	c := b.clone().(*bucket)
	c.pass(l, t)
	return c
}

func (b *bucket) stepBack(l *stint.Limit, now int64) bool {
	if l.Max == 0 || now >= b.last {
		return false
	}
	for i := range b.booked {
		b.booked[i].at -= b.last - now
	}
	b.last = now
	return true
}

func (b *bucket) open(l *stint.Limit, now int64) {
	if l.Max == 0 {
		return
	}
	if unit, _ := scale(l); unit != b.unit {
		if b.unit != 0 {
			b.weight = times(min(ceil(b.weight, b.unit), most/unit), unit)
		}
		b.unit = unit
	}
	b.pass(l, now)
	b.limit = *l
}

func (b *bucket) used(l *stint.Limit, _ int64) int64 {
	if l.Max == 0 {
		return 0
	}
	sum := ceil(b.weight, b.unit)
	for _, k := range b.booked {
		sum += k.n
	}
	return sum
}

func (b *bucket) reset(l *stint.Limit, now int64) int64 {
	if l.Max == 0 {
		return 0
	}
	end := b
	if k := len(b.booked); k > 0 {
		end = b.after(l, b.booked[k-1].at)
	}
	_, rate := scale(l)
	return end.last + ceil(end.weight, rate) - now
}

func (b *bucket) charge(_ *stint.Limit, _, cost int64, _ uint64) {
	b.weight.Add(b.weight, times(cost, b.unit))
}

func (b *bucket) book(at, cost int64) { b.booked = addBooking(b.booked, at, cost) }

func (b *bucket) bookings() []entry { return b.booked }

// fits reports whether cost more at t stays within the capacity, then and at
// every later booking.
func (b *bucket) fits(l *stint.Limit, t, cost int64) bool {
	unit, _ := scale(l)
	full := times(l.Capacity(), unit)
	c := b.after(l, t)
	c.weight.Add(c.weight, times(cost, unit))
	if c.weight.Cmp(full) > 0 {
		return false
	}
	for len(c.booked) > 0 {
		c.pass(l, c.booked[0].at)
		if c.weight.Cmp(full) > 0 {
			return false
		}
	}
	return true
}

// earliest looks between each two bookings for the first instant at which the
// bucket is low enough. Later ones in the same gap are no better: what later
// bookings find then is no less.
func (b *bucket) earliest(l *stint.Limit, from, cost int64) int64 {
	if l.Max == 0 || cost > l.Capacity() {
		return never
	}
	starts := []int64{from}
	for _, k := range b.booked {
		if k.at > from {
			starts = append(starts, k.at)
		}
	}
	unit, rate := scale(l)
	for i, t := range starts {
		excess := b.after(l, t).weight
		excess.Add(excess, times(cost, unit))
		excess.Sub(excess, times(l.Capacity(), unit))
		if excess.Sign() > 0 {
			t += ceil(excess, rate)
		}
		if i+1 < len(starts) && t >= starts[i+1] {
			continue
		}
		if b.fits(l, t, cost) {
			return t
		}
	}
	panic("oracle: no instant has room in a bucket that refills")
}

func (b *bucket) settle(l *stint.Limit, now int64, c settlement) bool {
	if l.Max == 0 {
		return false
	}
	unit, rate := scale(l)
	more := c.trueCost - c.cost
	if c.at > now {
		total := new(big.Int).Set(b.weight)
		for _, k := range b.booked {
			total.Add(total, times(k.n, unit))
		}
		total.Add(total, times(more, unit))
		if more > 0 && total.Cmp(big.NewInt(most)) > 0 {
			return false
		}
		return settleIn(&b.booked, c.at, c)
	}
	refilled := times(now-c.at, rate)
	if refilled.Cmp(times(c.cost, unit)) >= 0 {
		return false
	}
	if more < 0 {
		back := times(-more, unit)
		back.Sub(back, refilled)
		if back.Sign() > 0 {
			b.weight.Sub(b.weight, back)
		}
		if b.weight.Sign() < 0 {
			b.weight.SetInt64(0)
		}
		return true
	}
	total := new(big.Int).Add(b.weight, times(more, unit))
	if total.Cmp(big.NewInt(most)) > 0 {
		return false
	}
	b.weight = total
	return true
}

func (b *bucket) giveBack(l *stint.Limit, _, units int64) bool {
	if l.Max == 0 || b.weight.Sign() == 0 {
		return false
	}
	unit, _ := scale(l)
	if b.weight.Sub(b.weight, times(units, unit)); b.weight.Sign() < 0 {
		b.weight.SetInt64(0)
	}
	return true
}
