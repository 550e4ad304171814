package observe

import (
	"iter"
	"strings"
	"sync"
)

// maxSeries is the maximum number of items, such as pairs of tier and policy, that a byName creates
// under their own names. It bounds memory: names come from the configuration, which may be large
// and may be replaced many times.
const maxSeries = 1000

// other is the name under which all items after the first maxSeries are counted. No policy may have
// this name.
const other = "other"

func anyOther(string) string { return other }

// clean returns a name as valid UTF-8, which labels require.
func clean(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// byName holds items by name, in the order of creation. It creates an item when its name is first
// used, and never removes it.
type byName[K comparable, T any] struct {
	rest func(K) K  // returns the name to use if there are maxSeries items already
	make func(K) *T // creates an item; if nil, items are zero values

	mu   sync.RWMutex
	each map[K]*T
	list []named[K, T]
}

type named[K comparable, T any] struct {
	name K
	item *T
}

func newByName[K comparable, T any](rest func(K) K, made func(K) *T) *byName[K, T] {
	return &byName[K, T]{rest: rest, make: made, each: map[K]*T{}}
}

func (n *byName[K, T]) get(name K) *T {
	n.mu.RLock()
	t := n.each[name]
	n.mu.RUnlock()
	if t != nil {
		return t
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.each[name] == nil && len(n.list) >= maxSeries {
		name = n.rest(name)
	}
	if t = n.each[name]; t == nil {
		t = new(T)
		if n.make != nil {
			t = n.make(name)
		}
		n.each[name] = t
		n.list = append(n.list, named[K, T]{name, t})
	}
	return t
}

func (n *byName[K, T]) all() iter.Seq2[K, *T] {
	n.mu.RLock()
	defer n.mu.RUnlock()
	list := n.list // valid without the lock: get only appends
	return func(yield func(K, *T) bool) {
		for _, i := range list {
			if !yield(i.name, i.item) {
				return
			}
		}
	}
}
