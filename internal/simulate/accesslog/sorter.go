package accesslog

import (
	"container/heap"
	"time"
)

// maxHeld is the maximum number of lines of one input that are held for sorting: 10 seconds at
// 13,000 lines per second, about 80 MB.
const maxHeld = 1 << 17

// held is a record that waits for earlier ones.
type held struct {
	Record
	line int64 // the number of the line: records with the same time keep their order
}

func (h *held) before(other *held) bool {
	return h.At < other.At || h.At == other.At && h.line < other.line
}

// sorter sorts the records of one input, which are nearly in order. Records in order wait in a
// queue. A record that follows one with a later time waits in a heap.
type sorter struct {
	slack   int64
	max     int // maximum number of records held
	latest  int64
	removed int64 // time of the last record that was removed
	queue   []*held
	head    int // index of the first record in the queue
	strays  strays
	spare   []*held
}

func newSorter(slack time.Duration, max int) sorter { return sorter{slack: int64(slack), max: max} }

// empty returns a record to read into. The caller passes it to add or recycle.
func (s *sorter) empty() *held {
	if n := len(s.spare); n > 0 {
		h := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return h
	}
	return new(held)
}

// recycle takes back a record for later use.
func (s *sorter) recycle(h *held) { s.spare = append(s.spare, h) }

// add adds a record. If a record with a later time was already removed, h is late, and gets that
// time.
func (s *sorter) add(h *held) (late bool) {
	if h.At < s.removed {
		h.At, late = s.removed, true
	}
	s.latest = max(s.latest, h.At)
	if last := len(s.queue) - 1; last < s.head || s.queue[last].before(h) {
		s.queue = append(s.queue, h)
	} else {
		heap.Push(&s.strays, h)
	}
	return late
}

// first returns the earliest record, or nil if there is none.
func (s *sorter) first() *held {
	switch {
	case s.len() == 0:
		return nil
	case len(s.strays) == 0 || s.head < len(s.queue) && s.queue[s.head].before(s.strays[0]):
		return s.queue[s.head]
	}
	return s.strays[0]
}

// ready reports whether the first record can be removed: no earlier record is expected, or too many
// records are held.
func (s *sorter) ready() bool {
	first := s.first()
	return first != nil && (s.latest-first.At >= s.slack || s.len() >= s.max)
}

func (s *sorter) len() int { return len(s.queue) - s.head + len(s.strays) }

// remove removes and returns the first record.
func (s *sorter) remove() *held {
	h := s.first()
	s.removed = h.At
	if len(s.strays) > 0 && h == s.strays[0] {
		heap.Pop(&s.strays)
		return h
	}
	s.queue[s.head] = nil
	s.head++
	if s.head > len(s.queue)/2 {
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	return h
}

// strays is a heap of records by time.
type strays []*held

func (s strays) Len() int           { return len(s) }
func (s strays) Less(i, j int) bool { return s[i].before(s[j]) }
func (s strays) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// Push implements [heap.Interface].
func (s *strays) Push(h any) { *s = append(*s, h.(*held)) }

// Pop implements [heap.Interface].
func (s *strays) Pop() any {
	last := len(*s) - 1
	h := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return h
}
