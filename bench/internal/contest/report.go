package contest

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"time"
)

// Report prints tables as they are added and keeps them, with the bars, for a file.
type Report struct {
	out   io.Writer
	text  bytes.Buffer
	bars  []*Bar
	start time.Time
}

// NewReport begins a report.
func NewReport(out io.Writer) *Report { return &Report{out: out, start: time.Now()} }

// Printf adds text.
func (r *Report) Printf(format string, args ...any) {
	fmt.Fprintf(io.MultiWriter(r.out, &r.text), format, args...)
}

// Heading begins a section, with a note unless note is empty.
func (r *Report) Heading(title, note string) {
	r.Printf("\n### %s\n\n", title)
	if note != "" {
		r.Printf("%s\n\n", note)
	}
}

// Table adds a table in the format of [Table].
func (r *Report) Table(header []string, rows [][]string) { r.Printf("%s", Table(header, rows)) }

// begin prints the machine and the settings of the run.
func (r *Report) begin(s Settings, about string) {
	r.Printf("%s, %s/%s, %d cores, %d rounds%s%s.\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.GOMAXPROCS(0), s.Rounds, Pick(s, "", ", short"), about)
}

// verdict lists the bars.
func (r *Report) verdict() {
	took := time.Since(r.start).Round(time.Second)
	if len(r.bars) == 0 {
		r.Printf("\nThe run took %v.\n", took)
		return
	}
	r.Heading("Bars", "")
	held := 0
	var rows [][]string
	for _, b := range r.bars {
		if b.missed == 0 {
			held++
		}
		rows = append(rows, b.cells())
	}
	r.Table([]string{"what", "bar", "measured", ""}, rows)
	r.Printf("\n%d of %d bars hold; the run took %v.\n", held, len(r.bars), took)
}
