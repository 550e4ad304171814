package observe

import (
	"cmp"
	"slices"
	"strings"
)

// sketch finds the most frequent names in a stream, in bounded memory. It implements Space-Saving,
// by Metwally, Agrawal and El Abbadi (2005). It has a fixed number of counters. If all are taken, a
// new name takes over the counter with the smallest count and increases its count: the name has
// occurred at most that often before. So a count is never too low, and it is too high by at most
// the count that was taken over.
//
// After N additions to k counters, the smallest count is at most N/k. So every name that was added
// more than N/k times has a counter, and no count is too high by more than N/k.
//
// stint does not use a library for this: libraries (for Count-Min or HeavyKeeper) return a single
// estimate of a count, while the list of offenders shows an upper and a lower bound. An addition
// takes about 70 ns, and reset keeps the memory.
//
// The counters form a heap with the smallest at its root. The zero value cannot be used; call
// newSketch.
type sketch struct {
	counters []counter
	byName   map[string]int32 // indexes into counters
	heap     []int32          // indexes into counters
	size     int
}

type counter struct {
	name     string
	note     string // note of the last addition
	count    int64  // upper bound on the sum of the name's weights
	seen     int64  // number of additions since the name got the counter
	position int32  // index in the heap
}

func newSketch(size int) *sketch {
	return &sketch{byName: map[string]int32{}, size: size}
}

// add adds weight to the count of a name, and stores a note about the name.
func (s *sketch) add(name, note string, weight int64) {
	i, known := s.byName[name]
	switch {
	case known:
	case len(s.counters) < s.size:
		i = int32(len(s.counters))
		s.counters = append(s.counters, counter{name: name, position: i})
		s.heap = append(s.heap, i)
		s.byName[name] = i
		s.rise(i)
	default:
		i = s.heap[0]
		delete(s.byName, s.counters[i].name)
		s.counters[i].name, s.counters[i].seen = name, 0
		s.byName[name] = i
	}
	c := &s.counters[i]
	c.note = note
	c.count += weight
	c.seen++
	s.sink(c.position)
}

// topCounters sorts counters, the highest count first, and returns the first n, or all if there are
// fewer.
func topCounters(all []counter, n int) []counter {
	slices.SortFunc(all, func(a, b counter) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(b.seen, a.seen), strings.Compare(a.name, b.name))
	})
	return all[:min(max(n, 0), len(all))]
}

// least returns the highest count that a name without a counter can have.
func (s *sketch) least() int64 {
	if len(s.counters) < s.size {
		return 0
	}
	return s.counters[s.heap[0]].count
}

// reset removes all names. It keeps the memory for the next names.
func (s *sketch) reset() {
	clear(s.counters)
	clear(s.byName)
	s.counters, s.heap = s.counters[:0], s.heap[:0]
}

// rise moves the new counter at the end of the heap to the root, because its count is still zero.
func (s *sketch) rise(at int32) {
	for at > 0 {
		above := (at - 1) / 2
		s.swap(at, above)
		at = above
	}
}

// sink restores the order of the heap after the count at a position has grown.
func (s *sketch) sink(at int32) {
	for {
		least, last := at, int32(len(s.heap))
		for below := 2*at + 1; below <= 2*at+2 && below < last; below++ {
			if s.count(below) < s.count(least) {
				least = below
			}
		}
		if least == at {
			return
		}
		s.swap(at, least)
		at = least
	}
}

func (s *sketch) count(at int32) int64 { return s.counters[s.heap[at]].count }

func (s *sketch) swap(a, b int32) {
	s.heap[a], s.heap[b] = s.heap[b], s.heap[a]
	s.counters[s.heap[a]].position, s.counters[s.heap[b]].position = a, b
}
