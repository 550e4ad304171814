package accesslog

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Logs whose lines are out of order by no more than the slack come out sorted, however many there are.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slack := rapid.IntRange(1, 20).Draw(rt, "slack")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		type line struct{ second, path, written int }
		var all []line
		var logs []string
		for log := range rapid.IntRange(1, 4).Draw(rt, "logs") {
			var lines []line
			for i := range rapid.IntRange(0, 60).Draw(rt, "lines") {
				second := 1000 + random.IntN(100)
				lines = append(lines, line{second, log*1000 + i, second + random.IntN(slack+1)})
			}
			// A line is written when its request is over.
			slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.written, b.written) })
			var text strings.Builder
			for _, l := range lines {
				text.WriteString(lineAt(l.second, fmt.Sprint(l.path)))
			}
			logs = append(logs, text.String())
			all = append(all, lines...)
		}
		slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.second, b.second) })
		var want []string
		for _, l := range all {
			want = append(want, fmt.Sprintf("%d/%d", l.second, l.path))
		}
		got, stats := readAll(t, logs, Options{Slack: time.Duration(slack) * time.Second})
		if !slices.Equal(got, want) || stats.Late != 0 {
			rt.Fatalf("got\n%v, %d late, want\n%v", got, stats.Late, want)
		}
	})
}

// However far lines are out of order, what comes out never goes back in time, and nothing is lost.
func TestWindowProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 10).Draw(rt, "most")
		w := newWindow(time.Duration(rapid.IntRange(0, 50).Draw(rt, "slack")), most)
		times := rapid.SliceOf(rapid.Int64Range(1, 200)).Draw(rt, "times")
		var last, out int64
		emit := func() {
			h := w.remove()
			if h.At < last {
				rt.Fatalf("got %d after %d", h.At, last)
			}
			last = h.At
			out++
			w.drop(h)
		}
		for i, at := range times {
			h := w.take()
			h.At, h.line = at, int64(i)
			if late := w.add(h); late != (at < last) || late && h.At != last {
				rt.Fatalf("%d after %d: got %v, %d", at, last, late, h.At)
			}
			for w.ready() {
				emit()
			}
			if w.len() >= most {
				rt.Fatalf("%d records are held, want fewer than %d", w.len(), most)
			}
		}
		for w.len() > 0 {
			emit()
		}
		if w.first() != nil || w.ready() || out != int64(len(times)) {
			rt.Fatalf("got %d of %d", out, len(times))
		}
	})
}

// A log without an end is read with no more memory than its lines within the slack need.
func TestMemoryIsUsedAgain(t *testing.T) {
	w := newWindow(10, maxHeld)
	for at := range int64(100_000) {
		h := w.take()
		h.At, h.line = at^1, at // every second one is out of order
		w.add(h)
		for w.ready() {
			w.drop(w.remove())
		}
	}
	if got := w.len() + len(w.spare); got > 20 || cap(w.queue) > 100 || cap(w.stray) > 100 {
		t.Errorf("got %d records, a queue of %d and a heap of %d", got, cap(w.queue), cap(w.stray))
	}
}
