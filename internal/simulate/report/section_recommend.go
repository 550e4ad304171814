package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/simulate"
)

func (b *builder) recommended(r *simulate.Result) section {
	s := section{ID: "recommended", Title: "Recommended limits"}
	idle := int64(0)
	for i := range r.Recommendations {
		one := &r.Recommendations[i]
		if one.Subjects == 0 {
			idle++
			continue
		}
		s.Blocks = append(s.Blocks, choices(one), curve(one))
	}
	if len(s.Blocks) > 0 {
		s.Blocks = append([]block{paragraph{Text: "The smallest limits that leave a share of subjects untouched. " +
			"The requests are those that the round limit would have denied if it were the only one."}}, s.Blocks...)
	}
	if idle > 0 {
		s.Blocks = append(s.Blocks, paragraph{Text: count(idle, "limit applies", "limits apply") +
			" to no subject in this log: nothing can be recommended."})
	}
	return s
}

// heading returns the title of the table of a recommendation: the rule and window, and how many
// requests and subjects they apply to.
func heading(r *simulate.Recommendation) string {
	text := fmt.Sprintf("%s, per %s", rule(r.Policy, r.Tier), figures.Length(time.Duration(r.Window)))
	if r.Burst > 1 {
		text += fmt.Sprintf(", burst %dx", r.Burst)
	}
	switch {
	case r.Name != "" && r.Configured == nil:
		text += ", " + r.Name
	case r.Costs && r.Name == "":
		text += ", costs"
	}
	if r.Configured != nil {
		text += fmt.Sprintf(" (configured: %s)", r.Configured)
	}
	return fmt.Sprintf("%s: %s of %s",
		text, count(r.Requests, "request", "requests"), count(r.Subjects, "subject", "subjects"))
}

func choices(r *simulate.Recommendation) table {
	t := table{Title: heading(r), Columns: []column{
		{Name: "subjects untouched", Number: true}, {Name: "smallest limit", Spare: 2}, {Name: "round"},
		{Name: "subjects hit", Number: true}, {Name: "requests", Number: true, Spare: 1},
	}}
	for i := range r.Choices {
		c := &r.Choices[i]
		t.Rows = append(t.Rows, []cell{
			{Text: exactly(c.Share)}, {Text: c.Exact.String()}, {Text: c.Limit.String(), Tone: allowed},
			{Text: figures.Number(c.Affected.Subjects)}, {Text: figures.Number(c.Affected.Requests)},
		})
	}
	return t
}

// curve returns a table of the effects of limits, with the limits in ascending order. It leaves out
// limits that affect more than half of the subjects, and limits with about the same effect as the
// row above. It always includes limits that are configured or recommended, and the last one.
func curve(r *simulate.Recommendation) table {
	t := table{Columns: []column{
		{Name: "limit", Number: true}, {Name: "hit", Number: true}, {Name: "of subjects", Number: true},
		{Spare: 1}, {Name: "of requests", Number: true, Spare: 2}, {Long: true},
	}}
	kept := simulate.Point{Subjects: r.Subjects}
	for i, p := range r.Curve {
		marks := marked(r, p.Max)
		last := i == len(r.Curve)-1
		if marks == "" && !last && (2*p.Subjects > r.Subjects || 10*p.Subjects > 7*kept.Subjects) {
			continue
		}
		kept = p
		t.Rows = append(t.Rows, []cell{
			{Text: r.Limit(p.Max).String()}, {Text: figures.Number(p.Subjects)}, {Text: share(p.Subjects, r.Subjects)},
			bar(p.Subjects, r.Subjects, denied), {Text: share(p.Requests, r.Requests)},
			{Text: marks, Tone: allowed},
		})
	}
	return t
}

// marked returns a mark for a limit that is configured or recommended, and "" for any other limit.
func marked(r *simulate.Recommendation, limit int64) string {
	var marks []string
	if r.Configured != nil && r.Configured.Max == limit {
		marks = append(marks, "configured")
	}
	for i := range r.Choices {
		if c := &r.Choices[i]; c.Limit.Max == limit {
			marks = append(marks, exactly(c.Share)+" of subjects")
		}
	}
	if len(marks) == 0 {
		return ""
	}
	return "← " + strings.Join(marks, ", ")
}
