package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// report prints tables as they come and keeps them, with the bars, for a file.
type report struct {
	out   io.Writer
	text  bytes.Buffer
	bars  []bar
	start time.Time
}

// bar is a promise about a measured value.
type bar struct {
	what     string
	measured float64
	limit    float64
	unit     string
}

// holds compares to three decimals, as printed.
func (b bar) holds() bool { return round(b.measured, 1000) <= round(b.limit, 1000) }

func newReport(out io.Writer) *report { return &report{out: out, start: time.Now()} }

func (r *report) printf(format string, args ...any) {
	fmt.Fprintf(io.MultiWriter(r.out, &r.text), format, args...)
}

func (r *report) machine(s settings) {
	r.printf("%s, %s/%s, %d cores, %d rounds%s.\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.GOMAXPROCS(0), s.rounds, pick(s, "", ", short"))
}

func (r *report) heading(title, note string) {
	r.printf("\n### %s\n\n", title)
	if note != "" {
		r.printf("%s\n\n", note)
	}
}

// table prints rows of cells under a header, aligned so that it reads in a
// terminal as well as in Markdown.
func (r *report) table(header []string, rows [][]string) {
	width := make([]int, len(header))
	for i := range width {
		width[i] = 3 // of the rule
	}
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	line := func(cells []string) {
		var b strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if i == 0 {
				b.WriteString("| " + cell + pad + " |")
			} else {
				b.WriteString(" " + pad + cell + " |")
			}
		}
		r.printf("%s\n", b.String())
	}
	line(header)
	rule := make([]string, len(header))
	for i := range rule {
		rule[i] = strings.Repeat("-", width[i]-1) + ":"
		if i == 0 {
			rule[i] = strings.Repeat("-", width[i])
		}
	}
	line(rule)
	for _, row := range rows {
		line(row)
	}
}

// bar records that measured should be at most limit.
func (r *report) bar(what string, measured, limit float64, unit string) {
	r.bars = append(r.bars, bar{what, measured, limit, unit})
}

// verdict lists the bars.
func (r *report) verdict() {
	if len(r.bars) == 0 {
		return
	}
	r.heading("Bars", "")
	missed := 0
	var rows [][]string
	for _, b := range r.bars {
		word := "ok"
		if !b.holds() {
			word = "MISSED"
			missed++
		}
		rows = append(rows, []string{b.what, "≤ " + number(b.limit) + b.unit, number(b.measured) + b.unit, word})
	}
	r.table([]string{"what", "bar", "measured", ""}, rows)
	r.printf("\n%d of %d bars hold; the run took %v.\n", len(r.bars)-missed, len(r.bars), time.Since(r.start).Round(time.Second))
}

const (
	beginMarker = "<!-- bench:begin -->"
	endMarker   = "<!-- bench:end -->"
)

// writeInto replaces what stands between the markers of a file, or makes a file
// of its own if there is none.
func (r *report) writeInto(path string) error {
	old, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		old, err = []byte(beginMarker+"\n"+endMarker+"\n"), nil
	}
	if err != nil {
		return err
	}
	text, err := between(string(old), r.text.String())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func between(text, body string) (string, error) {
	head, rest, ok := strings.Cut(text, beginMarker)
	_, tail, closed := strings.Cut(rest, endMarker)
	if !ok || !closed {
		return "", fmt.Errorf("want the markers %s and %s", beginMarker, endMarker)
	}
	return head + beginMarker + "\n" + strings.TrimSpace(body) + "\n" + endMarker + tail, nil
}

// number prints a value with about three significant digits.
func number(v float64) string {
	switch {
	case v == float64(int64(v)) && v < 1e5:
		return fmt.Sprintf("%d", int64(v))
	case v >= 1e5:
		return thousands(int64(v))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plusMinus prints a median and its spread.
func plusMinus(s series) string {
	return fmt.Sprintf("%s ±%.0f%%", number(s.median()), 100*s.spread())
}

// plural prints a count and what is counted.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
