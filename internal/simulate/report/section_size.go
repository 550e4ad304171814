package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/sizing"
)

// size returns the section on what a Redis would have needed.
func (b *builder) size(r *simulate.Result) section {
	s := section{ID: "size", Title: "What it takes of Redis"}
	if r.Outcome.Size.Second.Decisions == 0 {
		return s
	}
	own := b.needs(&r.Outcome)
	s.Blocks = append(s.Blocks, own)
	if r.Against != nil && r.Against.Size.Second.Decisions > 0 {
		own.Title = b.config()
		other := b.needs(r.Against)
		other.Title = b.against()
		s.Blocks = []block{own, other}
	}
	s.Blocks = append(s.Blocks, paragraph{Text: "Memory, CPU and network are estimates, from figures that were " +
		"measured on one machine. CPU and network are those of the busiest second: plain if each decision is a call " +
		"to Redis, batched if 64 callers share calls. docs/sizing.md has the figures, how to measure your own, and " +
		"when to use a Cluster or leases."})
	return s
}

// needs returns a table of what one configuration needs.
func (b *builder) needs(o *simulate.Outcome) table {
	n := &o.Size
	t := table{Columns: []column{{}, {Long: true}}}
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
	fact("memory", "about "+size(n.Memory))
	for _, way := range []struct {
		name string
		*simulate.Need
	}{{"plain", &n.Plain}, {"batched", &n.Batched}} {
		fact(way.name, fmt.Sprintf("%s Redis cores at %s use; %s/s in, %s/s out, %s/s to each replica",
			significant(way.Cores), figures.Percent(sizing.Target), size(way.In), size(way.Out), size(way.Replicated)))
	}
	return t
}

// significant formats a number with two significant digits, or as a whole number.
func significant(x float64) string {
	switch {
	case x >= 10 || x == 0:
		return figures.Number(int64(math.Round(x)))
	case x < 0.001:
		return "<0.001"
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}
