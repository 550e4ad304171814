package faults

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
)

var (
	measure = flag.Bool("measure", false, "hold times to what is promised, and print the table")
	output  = flag.String("o", "", "write the table into this `file`, between its markers")
)

// TestMain is a child if it was started as one; see [spawn].
func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := lives[name](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if !*measure {
		_ = flag.Set("test.parallel", "6") // rows wait more than they compute
	}
	goroutines := runtime.NumGoroutine()
	code := m.Run()
	if err := redistest.LeftGoroutines(goroutines); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if *measure && len(table.rows) > 0 {
		text := table.String()
		fmt.Print(text)
		if *output != "" && code == 0 {
			if err := writeInto(*output, text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// table gathers what was measured.
var table results

type results struct {
	mu   sync.Mutex
	rows []row
}

// row is one fault, what is promised, and what was seen.
type row struct {
	id, fault, promise string
	figures            []string
}

// fault runs one row of the table as a test. The test fails if an outcome is not as promised. Times
// are held to the promise only with -measure; without it, rows run beside each other.
func fault(t *testing.T, id, what, promise string, run func(*report)) {
	t.Helper()
	if !*measure {
		t.Parallel()
	}
	faultAlone(t, id, what, promise, run)
}

// faultAlone is fault for a row that counts the goroutines or the memory of this process, or needs
// the processor for itself.
func faultAlone(t *testing.T, id, what, promise string, run func(*report)) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	r := &report{T: t, row: row{id: id, fault: what, promise: promise}}
	t.Cleanup(func() { // after the cleanups of the run
		if *measure {
			redistest.CheckGoroutines(t, goroutines)
		}
		if !t.Failed() {
			table.mu.Lock()
			defer table.mu.Unlock()
			table.rows = append(table.rows, r.row)
		}
	})
	run(r)
}

// report is what a row's test works with.
type report struct {
	*testing.T
	row row
}

// saw notes a figure for the table.
func (r *report) saw(format string, args ...any) {
	r.Helper()
	figure := fmt.Sprintf(format, args...)
	r.Log(figure)
	r.row.figures = append(r.row.figures, figure)
}

// within notes how long something took, and fails if that is longer than promised and times are
// being measured.
func (r *report) within(what string, took, most time.Duration) {
	r.Helper()
	r.saw("%s %s", what, short(took))
	if *measure && took > most {
		r.Errorf("%s took %v; at most %v is promised", what, took, most)
	}
}

// short rounds a duration to three digits or so.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// pick returns measured when times are measured, and quick otherwise.
func pick[T any](measured, quick T) T {
	if *measure {
		return measured
	}
	return quick
}

func (r *results) String() string {
	slices.SortStableFunc(r.rows, func(a, b row) int { return compareIDs(a.id, b.id) })
	var b strings.Builder
	b.WriteString("| | fault or input | promise | measured |\n|---|---|---|---|\n")
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.id, row.fault, row.promise, strings.Join(row.figures, "; "))
	}
	return b.String()
}

// compareIDs orders F3 before F3b before F10; what has no number comes last.
func compareIDs(a, b string) int {
	number := func(id string) int {
		n := 1000
		_, _ = fmt.Sscanf(id, "F%d", &n)
		return n
	}
	return cmp.Or(number(a)-number(b), strings.Compare(a, b))
}

const (
	beginMarker = "<!-- faults:begin -->"
	endMarker   = "<!-- faults:end -->"
)

func writeInto(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), beginMarker)
	_, tail, closed := strings.Cut(rest, endMarker)
	if !ok || !closed {
		return fmt.Errorf("%s: want the markers %s and %s", path, beginMarker, endMarker)
	}
	return os.WriteFile(path, []byte(head+beginMarker+"\n"+text+endMarker+tail), 0o644)
}
