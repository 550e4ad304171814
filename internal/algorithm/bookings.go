package algorithm

import "slices"

// booking is a future charge of n units. Its owner may use them between the instants `at` and
// `end`. Once the booking is due, they count as if they were charged at end.
type booking struct{ at, end, n int64 }

// bookings lists bookings in the order of their times, which is also the order of their ends. sum
// is the total of their units.
type bookings struct {
	list []booking
	sum  int64
}

// due returns the number of bookings in list whose time is not after now.
func due(list []booking, now int64) int {
	i := 0
	for i < len(list) && list[i].at <= now {
		i++
	}
	return i
}

func (b *bookings) drop(n int) {
	for _, x := range b.list[:n] {
		b.sum -= x.n
	}
	b.list = slices.Delete(b.list, 0, n)
}

// add inserts x after all bookings that are not later. If the last of these has the same times as
// x, add adds the units of x to it instead.
func (b *bookings) add(x booking) {
	b.sum += x.n
	i := len(b.list)
	for i > 0 && b.list[i-1].at > x.at {
		i--
	}
	if i > 0 && b.list[i-1].at == x.at && b.list[i-1].end == x.end {
		b.list[i-1].n += x.n
		return
	}
	b.list = slices.Insert(b.list, i, x)
}

// find returns the index of the booking that ends at end, or -1 if there is none.
func find(list []booking, end int64) int {
	return slices.IndexFunc(list, func(b booking) bool { return b.end == end })
}

// change adds delta to the units of booking i. It removes the booking if no units are left.
func (b *bookings) change(i int, delta int64) {
	delta = max(delta, -b.list[i].n)
	b.sum += delta
	if b.list[i].n += delta; b.list[i].n == 0 {
		b.list = slices.Delete(b.list, i, i+1)
	}
}

func (b *bookings) shift(back int64) {
	for i := range b.list {
		b.list[i].at -= back
		b.list[i].end -= back
	}
}

// lastEnd returns the end of the last booking in list, or 0 if list is empty.
func lastEnd(list []booking) int64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].end
}
