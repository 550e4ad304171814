package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/stint-limiter/stint/bench/server/document"
)

// report prints tables as they come and keeps them, with the bars, for a file.
type report struct {
	out   io.Writer
	text  bytes.Buffer
	bars  []*bar
	start time.Time
}

// bar is a promise about a value in every row of a table. It is judged by the worst of them.
type bar struct {
	what  string
	atMin bool // the value should be at least the limit, and else at most
	limit float64

	rows, missed int
	worst        float64
	where        string
}

// atLeast adds a promise.
func (r *report) atLeast(limit float64, what string) *bar {
	b := &bar{what: what, atMin: true, limit: limit}
	r.bars = append(r.bars, b)
	return b
}

// atMost adds a promise.
func (r *report) atMost(limit float64, what string) *bar {
	b := &bar{what: what, limit: limit}
	r.bars = append(r.bars, b)
	return b
}

// row has the bar judge a row.
func (b *bar) row(where string, value float64) {
	if b.rows++; !b.holds(value) {
		b.missed++
	}
	if b.rows == 1 || b.atMin == (value < b.worst) {
		b.worst, b.where = value, where
	}
}

// holds compares as printed.
func (b *bar) holds(value float64) bool {
	if b.atMin {
		return round(value) >= round(b.limit)
	}
	return round(value) <= round(b.limit)
}

func round(v float64) int64 { return int64(v*100 + 0.5) }

func newReport(out io.Writer) *report { return &report{out: out, start: time.Now()} }

func (r *report) printf(format string, args ...any) {
	fmt.Fprintf(io.MultiWriter(r.out, &r.text), format, args...)
}

// machine tells what was measured where.
func (r *report) machine(s settings) {
	r.printf("%s, %s/%s, %d cores, %d rounds of %v%s; %s.\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0),
		s.rounds, s.length(), pick(s, "", ", short"), version("redis-server", "--version"))
}

// version is the first line that a program prints of itself.
func version(program string, arg string) string {
	text, err := exec.Command(program, arg).CombinedOutput() // nginx tells it on standard error
	if err != nil {
		return program + ", version unknown"
	}
	line, _, _ := strings.Cut(string(bytes.TrimSpace(text)), "\n")
	return line
}

func (r *report) heading(title, note string) {
	r.printf("\n### %s\n\n", title)
	if note != "" {
		r.printf("%s\n\n", note)
	}
}

// table prints rows of cells under a header.
func (r *report) table(header []string, rows [][]string) {
	r.printf("%s", document.Table(header, rows))
}

// verdict lists the bars.
func (r *report) verdict() {
	if len(r.bars) > 0 {
		r.heading("Bars", "")
		var rows [][]string
		for _, b := range r.bars {
			sign, word := "≤", "ok"
			if b.atMin {
				sign = "≥"
			}
			if b.missed > 0 {
				word = fmt.Sprintf("MISSED in %d", b.missed)
			}
			rows = append(rows, []string{b.what, fmt.Sprintf("%s %.2f", sign, b.limit), fmt.Sprintf("%.2f", b.worst), b.where, fmt.Sprint(b.rows), word})
		}
		r.table([]string{"what", "bar", "worst", "in", "rows", ""}, rows)
	}
	r.printf("\nThe run took %v.\n", time.Since(r.start).Round(time.Second))
}

// count prints a number in groups of three digits.
func count(v float64) string { return document.Count(int64(v + 0.5)) }

// milliseconds prints microseconds.
func milliseconds(micros float64) string { return fmt.Sprintf("%.2f", micros/1000) }
