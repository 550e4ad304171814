package report_test

import (
	"flag"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/report"
	"github.com/stint-limiter/stint/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

func TestText(t *testing.T) {
	for _, test := range []struct {
		golden string
		result *simulate.Result
		names  report.Names
		to     report.Terminal
	}{
		{"nothing.txt", &simulate.Result{}, report.Names{}, report.Terminal{}},
		{"small.txt", small(), report.Names{Config: "-", Logs: []string{"-"}}, report.Terminal{}},
		{"full.txt", full(), report.Names{Config: "conf/new.yaml", Against: "old.yaml", Logs: []string{"log/a.log"}},
			report.Terminal{}},
		{"full_color_80.txt", full(),
			report.Names{Config: "new.yaml", Against: "old.yaml", Logs: []string{"a.log", "b.log"}},
			report.Terminal{Width: 80, Color: true}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			got := string(report.New(test.result, test.names).Text(test.to))
			testkit.Golden(t, *update, test.golden, strings.ReplaceAll(got, "\x1b", "ESC"))
		})
	}
}

// TestWidth: no line is wider than the terminal.
func TestWidth(t *testing.T) {
	for _, r := range []*simulate.Result{small(), full()} {
		for _, width := range []int{60, 72, 80, 100, 133, 200} {
			text := string(report.New(r, report.Names{Config: "new.yaml",
				Against: "old.yaml"}).Text(report.Terminal{Width: width}))
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%d characters at a width of %d: %s", n, width, line)
				}
			}
		}
	}
}
