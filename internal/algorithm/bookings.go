package algorithm

import "slices"

// booking is a charge that lies ahead.
type booking struct{ at, n int64 }

// bookings are in order of time. The nil pointer has none.
type bookings struct {
	list []booking
	sum  int64
}

func (b *bookings) len() int {
	if b == nil {
		return 0
	}
	return len(b.list)
}

// latest is the instant of the last booking, 0 if there is none.
func (b *bookings) latest() int64 {
	if b.len() == 0 {
		return 0
	}
	return b.list[len(b.list)-1].at
}

// due is how many bookings have come.
func (b *bookings) due(now int64) int {
	i := 0
	for i < b.len() && b.list[i].at <= now {
		i++
	}
	return i
}

// drop forgets the first n.
func (b *bookings) drop(n int) {
	for _, x := range b.list[:n] {
		b.sum -= x.n
	}
	b.list = slices.Delete(b.list, 0, n)
}

// add books at an instant that is not before the last booking.
func (b *bookings) add(at, n int64) {
	b.sum += n
	if last := len(b.list) - 1; last >= 0 && b.list[last].at >= at {
		b.list[last].n += n
		return
	}
	b.list = append(b.list, booking{at, n})
}

// find returns the index of the booking at an instant, -1 if there is none.
func (b *bookings) find(at int64) int {
	for i := range b.len() {
		if b.list[i].at == at {
			return i
		}
	}
	return -1
}

// change adds delta to a booking, which goes if nothing is left of it.
func (b *bookings) change(i int, delta int64) {
	delta = max(delta, -b.list[i].n)
	b.sum += delta
	if b.list[i].n += delta; b.list[i].n == 0 {
		b.list = slices.Delete(b.list, i, i+1)
	}
}

func (b *bookings) shift(back int64) {
	for i := range b.len() {
		b.list[i].at -= back
	}
}

func (b *bookings) clone() *bookings {
	if b == nil {
		return nil
	}
	return &bookings{slices.Clone(b.list), b.sum}
}

func (b *bookings) bytes() int {
	if b == nil {
		return 0
	}
	return 32 + 16*cap(b.list)
}
