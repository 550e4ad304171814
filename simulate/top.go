package simulate

import "slices"

// top keeps the first few of many, in an order.
type top[T any] struct {
	most    int
	compare func(a, b T) int
	list    []T
}

func newTop[T any](most int, compare func(a, b T) int) *top[T] {
	return &top[T]{most: most, compare: compare}
}

// add considers one more.
func (t *top[T]) add(v T) {
	if len(t.list) == t.most {
		if t.compare(v, t.list[t.most-1]) >= 0 {
			return
		}
		t.list = t.list[:t.most-1]
	}
	i, _ := slices.BinarySearchFunc(t.list, v, t.compare)
	t.list = slices.Insert(t.list, i, v)
}
