package observe

// ring keeps the newest items, at most size of them. It allocates memory as it grows.
type ring[T any] struct {
	items []T
	next  int // index of the oldest item once the ring is full
	size  int
}

func newRing[T any](size int) ring[T] { return ring[T]{size: size} }

// push adds an item. If the ring is full, the item replaces the oldest one.
func (r *ring[T]) push(item T) {
	if len(r.items) < r.size {
		r.items = append(r.items, item)
		return
	}
	r.items[r.next] = item
	r.next = (r.next + 1) % r.size
}

// last returns a copy of the newest n items, or of all items if there are fewer, oldest first.
func (r *ring[T]) last(n int) []T {
	n = min(max(n, 0), len(r.items))
	items := make([]T, 0, n)
	for i := len(r.items) - n; i < len(r.items); i++ {
		items = append(items, *r.at(i))
	}
	return items
}

// at returns item i, counted from the oldest.
func (r *ring[T]) at(i int) *T { return &r.items[(r.next+i)%len(r.items)] }
