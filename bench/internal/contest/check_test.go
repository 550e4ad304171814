package contest_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

const recorded = `
### Bars

| what          |     bar |           measured |        |
| ------------- | ------: | -----------------: | -----: |
| one: speed    | ≥ 1.80× |      2× (peer) |     ok |
| one: size     |  ≤ 10 B |              100 B | MISSED |
| one: allocations |     ≤ 0 |                  0 |     ok |
| one: time     |  ≤ 1 ns |               1 ns |     ok |
| one: 2 goroutines, to theirs |    ≤ 1× |                 1× |     ok |
`

// TestCheck: a figure that is worse than recorded by more than a fifth fails the check, if it is so
// three times. Only its suite is measured again.
func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	if err := os.WriteFile(path, []byte(recorded), 0o600); err != nil {
		t.Fatal(err)
	}
	type figures struct{ speed, size, allocations float64 }
	tests := []struct {
		name                 string
		first, second, third figures
		want                 string
	}{
		{"as before", figures{2, 100, 0}, figures{}, figures{}, ""},
		{"a fifth worse", figures{1.6, 125, 0}, figures{}, figures{}, ""},
		{"better", figures{9, 1, 0}, figures{}, figures{}, ""},
		{"slow once", figures{1.5, 100, 0}, figures{2, 126, 0}, figures{}, ""},
		{"slow twice", figures{1.5, 100, 0}, figures{1.4, 200, 0}, figures{2, 200, 0}, ""},
		{"slow", figures{1.5, 100, 0}, figures{1.4, 200, 0}, figures{1.3, 200, 0}, "one: speed: 1.3×, recorded 2×"},
		{"large", figures{2, 126, 0}, figures{2, 127, 0}, figures{2, 128, 0}, "one: size: 128 B, recorded 100 B"},
		{"allocates", figures{2, 100, 1}, figures{2, 100, 1}, figures{2, 100, 1}, "one: allocations: 1, recorded 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			runs := []figures{test.first, test.second, test.third}
			others := 0
			suite := func(_ context.Context, _ contest.Settings, r *contest.Report) {
				r.AtLeast(1.8, "×", "one: speed").Judge(runs[0].speed)
				r.AtMost(10, " B", "one: size").Judge(runs[0].size)
				r.AtMost(0, "", "one: allocations").Judge(runs[0].allocations)
				r.AtMost(1, " ns", "one: time").Judge(1000)
				r.AtMost(1, "×", "one: 2 goroutines, to theirs").Judge(1000)
				r.AtMost(1, "×", "new").Judge(1000)
				runs = runs[1:]
			}
			other := func(_ context.Context, _ contest.Settings, r *contest.Report) {
				others++
				r.AtMost(10, " B", "two: size").Judge(1)
			}
			command := contest.Command{Name: "test", Suites: []contest.Suite{
				{Name: "one", Run: suite}, {Name: "two", Run: other}}}
			err := command.Run(t.Context(), []string{"-check", path}, io.Discard)
			if others != 1 {
				t.Errorf("the other suite was measured %d times", others)
			}
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.HasSuffix(err.Error(), "3 times:\n  "+test.want) {
				t.Errorf("got %v, want %q alone", err, test.want)
			}
		})
	}
}
