package accesslog

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The same cases in every run: a test that fails was broken by a change. -rapid.seed=0 draws others.
var _ = flag.Set("rapid.seed", "1")

// TestOrderProperty: logs whose lines are out of order by at most the slack are merged and sorted.
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
			// A server writes a line when the request ends.
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

// TestMemoryIsUsedAgain: an endless log needs only memory for the lines within the slack.
func TestMemoryIsUsedAgain(t *testing.T) {
	s := newSorter(10, maxHeld)
	for at := range int64(100_000) {
		h := s.empty()
		h.At, h.line = at^1, at // every second one is out of order
		s.add(h)
		for s.ready() {
			s.recycle(s.remove())
		}
	}
	if got := s.len() + len(s.spare); got > 20 || cap(s.queue) > 100 {
		t.Errorf("got %d records and a queue of %d", got, cap(s.queue))
	}
}
