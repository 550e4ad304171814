package accesslog

import (
	"container/heap"
	"time"
)

// maxHeld is how many lines of one input are held at most while earlier ones may follow. It is 10 seconds of 13,000
// lines each, and some 80 MB.
const maxHeld = 1 << 17

// held is a record that waits for earlier ones.
type held struct {
	Record
	line int64 // its number: records of one time stay in their order
}

func (h *held) before(other *held) bool {
	return h.At < other.At || h.At == other.At && h.line < other.line
}

// window sorts the records of one input. They come nearly in order: those that do wait in a queue, and only those that
// come after a later one in a heap.
type window struct {
	slack   int64
	most    int // records held
	latest  int64
	emitted int64 // time of the last one that left
	queue   []*held
	gone    int // of the queue's front
	stray   strays
	spare   []*held
}

func newWindow(slack time.Duration, most int) window {
	return window{slack: int64(slack), most: most}
}

// take returns a record to read into, which add or drop is to be called with.
func (w *window) take() *held {
	if n := len(w.spare); n > 0 {
		h := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return h
	}
	return new(held)
}

// drop gives a record back.
func (w *window) drop(h *held) { w.spare = append(w.spare, h) }

// add puts a record into its place. One that is older than what has left already is late: its time becomes that of
// the last one that left.
func (w *window) add(h *held) (late bool) {
	if h.At < w.emitted {
		h.At, late = w.emitted, true
	}
	w.latest = max(w.latest, h.At)
	if last := len(w.queue) - 1; last < w.gone || w.queue[last].before(h) {
		w.queue = append(w.queue, h)
	} else {
		heap.Push(&w.stray, h)
	}
	return late
}

// first returns the earliest record, or nil if there is none.
func (w *window) first() *held {
	switch {
	case w.gone == len(w.queue) && len(w.stray) == 0:
		return nil
	case w.gone == len(w.queue):
		return w.stray[0]
	case len(w.stray) == 0 || w.queue[w.gone].before(w.stray[0]):
		return w.queue[w.gone]
	}
	return w.stray[0]
}

// ready reports whether the first record can leave: nothing earlier is to be expected, or too much is held.
func (w *window) ready() bool {
	first := w.first()
	return first != nil && (w.latest-first.At >= w.slack || w.len() >= w.most)
}

func (w *window) len() int { return len(w.queue) - w.gone + len(w.stray) }

// remove takes the first record out.
func (w *window) remove() *held {
	h := w.first()
	w.emitted = h.At
	if len(w.stray) > 0 && h == w.stray[0] {
		heap.Pop(&w.stray)
		return h
	}
	w.queue[w.gone] = nil
	w.gone++
	if w.gone > len(w.queue)/2 {
		n := copy(w.queue, w.queue[w.gone:])
		clear(w.queue[n:])
		w.queue, w.gone = w.queue[:n], 0
	}
	return h
}

// strays is a heap by time.
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
