package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/simulate"
)

func (b *builder) size(r *simulate.Result) section {
	s := section{ID: "size", Title: "Load on Redis"}
	if r.Outcome.Size.Second.Decisions == 0 {
		return s
	}
	if r.Against != nil && r.Against.Size.Second.Decisions > 0 {
		s.Blocks = []block{b.load(b.config(), &r.Outcome), b.load(b.against(), r.Against)}
	} else {
		s.Blocks = []block{b.load("", &r.Outcome)}
	}
	s.Blocks = append(s.Blocks, paragraph{Text: "docs/sizing.md shows the CPU, memory and network that subjects and " +
		"decisions take, and when to use a Cluster or leases."})
	return s
}

func (b *builder) load(title string, o *simulate.Outcome) table {
	n := &o.Size
	t := table{Title: title, Columns: []column{{}, {Long: true}}}
	fact := func(name, text string) { t.Rows = append(t.Rows, cells(name, text)) }
	seen := figures.Number(o.Subjects.Seen)
	if o.Subjects.Others.Requests > 0 {
		seen = "the first " + seen
	}
	fact("subjects", fmt.Sprintf("%s, at most %s at once", seen, figures.Number(n.Subjects)))
	fact("decisions", fmt.Sprintf("%s in the busiest second (%s), %s a second in the busiest minute",
		figures.Number(n.Second.Decisions), fullTime(n.Second.At), significant(float64(n.Minute.Decisions)/60)))
	if n.Second.Settlements > 0 {
		fact("settlements", figures.Number(n.Second.Settlements)+" in the same second")
	}
	return t
}

// significant formats a number with two significant digits, or as a whole number if it is 10 or
// more.
func significant(x float64) string {
	switch {
	case x >= 10 || x == 0:
		return figures.Number(int64(math.Round(x)))
	case x < 0.001:
		return "<0.001"
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}
