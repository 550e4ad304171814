package observe

import (
	"slices"
	"strings"
	"sync"
)

// maxSeries is how many pairs of tier and policy are counted apart, and how many names of other
// things. Names are from configurations, but those may be long, and be replaced many times.
const maxSeries = 1000

// other is the name under which the rest is counted. No policy may be named so.
const other = "other"

func anyOther(string) string { return other }

// clean makes a name fit for a label, which has to be text.
func clean(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// byName holds things that are made when their name is first seen, and kept. Their order is that in
// which they were made.
type byName[K comparable, T any] struct {
	make func(K) *T
	rest func(K) K // the name under which one goes that is too many

	mu   sync.RWMutex
	each map[K]*T
	list []*T
}

func newByName[K comparable, T any](rest func(K) K, made func(K) *T) *byName[K, T] {
	return &byName[K, T]{make: made, rest: rest, each: map[K]*T{}}
}

// get returns the thing of a name.
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
		t = n.make(name)
		n.each[name] = t
		n.list = append(n.list, t)
	}
	return t
}

// all returns all there are, in the order in which they were made.
func (n *byName[K, T]) all() []*T {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Clone(n.list)
}
