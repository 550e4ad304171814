package observe

// sketch finds the names that come most often in a stream, in bounded memory: it is Space-Saving, by Metwally,
// Agrawal and El Abbadi (2005). It counts a fixed number of names. One that it does not know takes over the
// smallest count, which it may have earned itself before, and no more than that: so a count is never too low, and too
// high by at most what it was taken over with.
//
// Of N additions into k counters no smallest count is above N/k. So every name that came more than N/k times is
// among those that are counted, and no count is more than N/k too high.
//
// The counters are a heap with the smallest at its root. The zero value has no room; see newSketch.
type sketch struct {
	slots  []slot
	places map[string]int32 // of names, in slots
	heap   []int32          // of slots
	size   int
}

// slot counts a name.
type slot struct {
	name  string
	note  string // of the last addition
	count int64  // at most so often, in weights
	seen  int64  // for sure so often, in additions
	place int32  // in the heap
}

func newSketch(size int) *sketch {
	return &sketch{places: map[string]int32{}, size: size}
}

// add counts a name, for as many as its weight says, and notes something of it.
func (s *sketch) add(name, note string, weight int64) {
	i, known := s.places[name]
	switch {
	case known:
	case len(s.slots) < s.size:
		i = int32(len(s.slots))
		s.slots = append(s.slots, slot{name: name, place: i})
		s.heap = append(s.heap, i)
		s.places[name] = i
		s.rise(i)
	default:
		i = s.heap[0]
		delete(s.places, s.slots[i].name)
		s.slots[i].name, s.slots[i].seen = name, 0
		s.places[name] = i
	}
	c := &s.slots[i]
	c.note = note
	c.count += weight
	c.seen++
	s.sink(c.place)
}

// least is what a name that is not counted may have come at most.
func (s *sketch) least() int64 {
	if len(s.slots) < s.size {
		return 0
	}
	return s.slots[s.heap[0]].count
}

// reset forgets everything. The memory is kept for the next names.
func (s *sketch) reset() {
	clear(s.slots)
	clear(s.places)
	s.slots, s.heap = s.slots[:0], s.heap[:0]
}

// rise moves a slot that was added at a place of the heap to the root: it has counted nothing yet.
func (s *sketch) rise(at int32) {
	for at > 0 {
		above := (at - 1) / 2
		s.swap(at, above)
		at = above
	}
}

// sink moves a slot that has grown down to where it belongs.
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

// count is that of the slot at a place of the heap.
func (s *sketch) count(at int32) int64 { return s.slots[s.heap[at]].count }

// swap exchanges two places of the heap.
func (s *sketch) swap(a, b int32) {
	s.heap[a], s.heap[b] = s.heap[b], s.heap[a]
	s.slots[s.heap[a]].place, s.slots[s.heap[b]].place = a, b
}
