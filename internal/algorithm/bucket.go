package algorithm

import (
	"math/bits"
	"slices"
)

// Bucket is the state of a bucket limit: a meter that leaks. The zero Bucket is
// empty.
type Bucket struct {
	used   int64 // weight
	last   int64 // the clock at the last write
	unit   int64 // the weight of one unit of cost
	booked *bookings
	// Tag belongs to the owner of the bucket.
	Tag uint32
}

// Bytes is what the bucket holds beside itself.
func (b *Bucket) Bytes() int { return b.booked.bytes() }

// Dead reports that forgetting the bucket changes no later answer under p.
func (b *Bucket) Dead(p *Params, now int64) bool {
	if now < b.last || b.booked.latest() >= now {
		return false
	}
	var v BucketView
	v.Open(b, p, now, true)
	return v.used == 0
}

// meter is a level at an instant.
type meter struct{ used, at int64 }

// leak leads the meter to t.
func (m *meter) leak(p *Params, t int64) {
	hi, lo := bits.Mul64(uint64(max(t-m.at, 0)), uint64(p.Rate))
	if hi != 0 || lo >= uint64(m.used) {
		m.used = 0
	} else {
		m.used -= int64(lo)
	}
	m.at = t
}

// pass leads the meter to a booking and adds it.
func (m *meter) pass(p *Params, b booking) {
	m.leak(p, b.at)
	m.used = plus(m.used, weight(p, b.n))
}

// wait is how long the meter takes to fall to a level of room or less.
func (m *meter) wait(p *Params, room int64) int64 {
	if m.used <= room {
		return 0
	}
	return ceil(m.used-room, p.Rate)
}

// BucketView is a bucket opened at one instant.
type BucketView struct {
	bucket *Bucket
	p      *Params
	meter
	ahead []booking // those that have not come
	due   int       // how many have
	sum   int64     // units ahead
}

// Open leads the bucket to now, without writing it; but unless it only looks, it
// writes that the clock stepped back.
func (v *BucketView) Open(b *Bucket, p *Params, now int64, look bool) {
	v.bucket, v.p, v.ahead, v.due, v.sum = b, p, nil, 0, 0
	v.meter = meter{b.used, min(b.last, now)}
	if p.Rate == 0 {
		v.meter = meter{0, now}
		return
	}
	if now < b.last && !look {
		b.booked.shift(b.last - now)
		b.last = now
	}
	if b.unit != p.Unit && b.used > 0 {
		v.used = min(ceil(b.used, b.unit), MaxUnits/p.Unit) * p.Unit
	}
	if b.booked.len() > 0 {
		v.openBooked(now)
	}
	v.leak(p, now)
}

func (v *BucketView) openBooked(now int64) {
	booked := v.bucket.booked
	if now < v.bucket.last {
		booked = booked.clone()
		booked.shift(v.bucket.last - now)
	}
	v.due = booked.due(now)
	v.ahead, v.sum = booked.list[v.due:], booked.sum
	for _, b := range booked.list[:v.due] {
		v.pass(v.p, b)
		v.sum -= b.n
	}
}

// Rehome says where the bucket is stored now.
func (v *BucketView) Rehome(b *Bucket) { v.bucket = b }

// Used is the level in units, rounded up, and all bookings.
func (v *BucketView) Used() int64 {
	if v.used == 0 {
		return v.sum
	}
	return ceil(v.used, v.p.Unit) + v.sum
}

// Bookings returns how many there are, and when the last one comes.
func (v *BucketView) Bookings() (n int, latest int64) {
	if n = len(v.ahead); n == 0 {
		return 0, 0
	}
	return n, v.ahead[n-1].at
}

// Reset is the time until the meter, led through all bookings, is empty.
func (v *BucketView) Reset() int64 {
	if v.p.Rate == 0 {
		return 0
	}
	m := v.meter
	for _, b := range v.ahead {
		m.pass(v.p, b)
	}
	return m.at + m.wait(v.p, 0) - v.at
}

// Earliest is the first instant, not before from, at which a cost has room and
// leaves room for every later booking, or Never.
func (v *BucketView) Earliest(from, cost int64) int64 {
	p := v.p
	if p.Rate == 0 || cost > p.Cap {
		return Never
	}
	add := weight(p, cost)
	room := weight(p, p.Cap) - add
	m := v.meter
	for i := 0; ; i++ {
		t := max(from, m.at+m.wait(p, room))
		if i == len(v.ahead) {
			return instant(t)
		}
		if t < v.ahead[i].at && v.fits(m, t, add, i) {
			return t
		}
		m.pass(p, v.ahead[i])
	}
}

// fits reports whether the meter with a weight added at t has room for every
// booking from the i-th on. The later t is before a booking, the less room it has.
func (v *BucketView) fits(m meter, t, add int64, i int) bool {
	full := weight(v.p, v.p.Cap)
	m.leak(v.p, t)
	m.used += add
	for _, b := range v.ahead[i:] {
		if m.pass(v.p, b); m.used > full {
			return false
		}
	}
	return true
}

// Charge adds a cost at now. There has to be room.
func (v *BucketView) Charge(cost int64) {
	v.used = plus(v.used, weight(v.p, cost))
	v.write()
}

// Book adds a cost at an instant to come, not before the last booking.
func (v *BucketView) Book(at, cost int64) {
	b := v.write()
	if b.booked == nil {
		b.booked = new(bookings)
	}
	b.booked.add(at, cost)
	v.reread()
}

// Settle replaces the cost that was charged at an instant by the true one. It
// reports whether it did: not if the charge has been refilled wholly since.
func (v *BucketView) Settle(at, cost, truth int64) bool {
	p := v.p
	if p.Rate == 0 {
		return false
	}
	more := weight(p, max(truth-cost, 0))
	if at > v.at {
		return v.settleBooked(at, truth-cost, more)
	}
	if more > 0 && plus(v.used, more) > MaxUnits {
		return false
	}
	hi, refilled := bits.Mul64(uint64(v.at-at), uint64(p.Rate))
	if hi != 0 || refilled >= uint64(weight(p, cost)) {
		return false
	}
	if back := weight(p, max(cost-truth, 0)) - int64(refilled); back > 0 {
		v.used -= min(v.used, back)
	}
	v.used += more
	v.write()
	return true
}

func (v *BucketView) settleBooked(at, delta, more int64) bool {
	if more > 0 && plus(v.used, plus(weight(v.p, v.sum), more)) > MaxUnits {
		return false
	}
	i := slices.IndexFunc(v.ahead, func(b booking) bool { return b.at == at })
	if i < 0 {
		return false
	}
	v.write().booked.change(i, delta)
	v.reread()
	return true
}

// GiveBack lets the meter fall by up to so many units. It reports whether it was not
// empty.
func (v *BucketView) GiveBack(units int64) bool {
	if v.used == 0 {
		return false
	}
	v.used -= min(v.used, weight(v.p, units))
	v.write()
	return true
}

// write makes the opened state the stored one.
func (v *BucketView) write() *Bucket {
	b := v.bucket
	if v.at < b.last {
		b.booked.shift(b.last - v.at)
	}
	b.used, b.last, b.unit = v.used, v.at, v.p.Unit
	if v.due > 0 {
		b.booked.drop(v.due)
		v.due = 0
		v.reread()
	}
	return b
}

// reread follows a change of the stored bookings.
func (v *BucketView) reread() {
	if v.bucket.booked.len() == 0 {
		v.bucket.booked = nil
		v.ahead, v.sum = nil, 0
		return
	}
	v.ahead, v.sum = v.bucket.booked.list, v.bucket.booked.sum
}

// The arithmetic of weights. Those of valid states stay within MaxUnits; what
// only an odd amendment or a limit that changed could make larger saturates.

const heaviest = int64(1) << 61

func weight(p *Params, n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(p.Unit))
	if hi != 0 || lo > uint64(heaviest) {
		return heaviest
	}
	return int64(lo)
}

func plus(a, b int64) int64 { return min(a+b, heaviest) }

func ceil(a, b int64) int64 { return (a + b - 1) / b }
