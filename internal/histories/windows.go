package histories

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// Windows counts the admissions of every subject in every window of its limits, as callers observe
// them. A caller knows only that an admission happened between the call and its return.
//
// It finds every excess over a limit. Let S be admissions of one subject that certainly fell into
// one window (t, t+W], because they were called after t and had returned by t+W, and let x be the
// last of S to return. Since x returned by t+W, the window that ends with the return of x begins at
// t or earlier, so it certainly contains all of S. Admit counts that window when x is added.
//
// It is exact: times are not rounded, and admissions that may be outside a window are not counted.
// An entry takes 16 bytes and is dropped when its window has passed, so memory is bounded by the
// admissions of the longest window.
type Windows struct {
	limits  []*stint.Limit
	tracks  map[track]*entries
	swept   time.Duration
	longest time.Duration
}

// track is one subject under one limit.
type track struct{ limit, subject int32 }

// entries holds the admissions of a track that a window may still contain, ordered by call time.
type entries struct {
	list          []entry
	all, degraded int64
	last          time.Duration // time at which the latest admission returned
}

type entry struct {
	from          time.Duration
	all, degraded int32
}

// NewWindows returns a Windows for sliding and fixed limits. The methods of Windows take the index
// of a limit in limits.
func NewWindows(limits ...*stint.Limit) *Windows {
	w := &Windows{limits: limits, tracks: map[track]*entries{}}
	for _, l := range limits {
		w.longest = max(w.longest, l.Window)
	}
	return w
}

// Admit adds an admission of n units under a limit, by a call that began at `from` and returned at
// `to`. Admissions must be added in the order of their returns. Admit returns the number of units
// that were certainly admitted in the window that ends at `to` or, for a fixed limit, contains it,
// and how many of them were admitted without the store. It returns zeros if the added units may be
// outside that window. All times are measured from the Unix epoch, or from any other instant at
// which a fixed window begins.
func (w *Windows) Admit(limit, subject int, from, to time.Duration, n int64, degraded bool) (all, without int64) {
	if to-w.swept > w.longest {
		w.sweep(to)
	}
	l, e := w.limits[limit], w.tracks[track{int32(limit), int32(subject)}]
	if e == nil {
		e = &entries{}
		w.tracks[track{int32(limit), int32(subject)}] = e
	}
	e.last = to
	begin := to - l.Window
	if l.Algorithm == stint.AlgorithmFixed {
		begin = to.Truncate(l.Window) - 1
	}
	e.drop(begin)
	if from <= begin {
		return 0, 0 // the admission may be outside the window
	}
	e.add(from, n, degraded)
	return e.all, e.degraded
}

// Withdraw removes n units of the admission whose call began at `from`. Call it when a refund may
// have made room for these units. Later results of Admit do not include them. If n is negative,
// Withdraw adds units.
func (w *Windows) Withdraw(limit, subject int, from time.Duration, n int64, degraded bool) {
	if e := w.tracks[track{int32(limit), int32(subject)}]; e != nil {
		if _, found := e.find(from); found {
			e.add(from, -n, degraded)
		}
	}
}

func (e *entries) find(from time.Duration) (int, bool) {
	return slices.BinarySearchFunc(e.list, from, func(x entry, from time.Duration) int { return int(x.from - from) })
}

func (e *entries) add(from time.Duration, n int64, degraded bool) {
	i, found := e.find(from)
	if !found {
		e.list = slices.Insert(e.list, i, entry{from: from})
	}
	e.list[i].all += int32(n)
	e.all += n
	if degraded {
		e.list[i].degraded += int32(n)
		e.degraded += n
	}
}

// drop removes the admissions whose calls began at the given time or earlier.
func (e *entries) drop(begin time.Duration) {
	n := 0
	for ; n < len(e.list) && e.list[n].from <= begin; n++ {
		e.all -= int64(e.list[n].all)
		e.degraded -= int64(e.list[n].degraded)
	}
	e.list = e.list[n:]
}

// sweep removes tracks whose last admission is older than the window of their limit.
func (w *Windows) sweep(now time.Duration) {
	w.swept = now
	for t, e := range w.tracks {
		if now-e.last > w.limits[t.limit].Window {
			delete(w.tracks, t)
		}
	}
}
