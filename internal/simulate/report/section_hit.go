package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/simulate"
)

// hit returns the section on the subjects that were denied, or would have been denied if all limits
// were enforced.
func (b *builder) hit(r *simulate.Result) section {
	s := section{ID: "hit", Title: "Denied subjects"}
	o := &r.Outcome
	switch {
	case o.Total.Requests == 0:
		return s
	case len(o.Hit) == 0:
		s.Blocks = []block{paragraph{Text: "No subject."}}
	default:
		s.Blocks = []block{b.hitTable(o), paragraph{Text: "The worst wait is the longest time that a subject was " +
			"asked to wait. Longest is the longest time from one denial to another with nothing allowed in between."}}
	}
	return s
}

func (b *builder) hitTable(o *simulate.Outcome) table {
	t := table{Columns: []column{
		{Name: "subject", Long: true}, {Name: "requests", Number: true, Spare: 2}, {Name: "denied", Number: true},
		{Name: "of requests", Number: true, Spare: 1}, {Name: "in shadow", Number: true, Spare: 1},
		{Name: "worst wait", Number: true}, {Name: "longest", Number: true, Spare: 3},
		{Name: "first", Spare: 4}, {Name: "last", Spare: 5}, {Name: "by", Long: true},
	}}
	more := o.Subjects.Hit
	for i := range o.Hit {
		h := &o.Hit[i]
		if h.Denied > 0 {
			more--
		}
		t.Rows = append(t.Rows, []cell{
			{Text: label.Line(h.Subject)}, {Text: figures.Number(h.Requests)}, deniedCell(h.Denied),
			{Text: share(h.Denied, h.Requests)}, {Text: figures.Number(h.Shadowed)},
			{Text: worstWait(h)}, {Text: lengthOrNone(h.Longest)},
			{Text: b.at(h.First)}, {Text: b.at(h.Last)}, {Text: hitBy(h)},
		})
	}
	t.leaveOut(more, "other was denied", "others were denied")
	return t.without("in shadow")
}

func worstWait(h *simulate.Hit) string {
	if h.Never {
		return "forever"
	}
	return lengthOrNone(h.WorstWait)
}

// lengthOrNone formats a duration. For 0, it returns "".
func lengthOrNone(d simulate.Duration) string {
	if d == 0 {
		return ""
	}
	return figures.Length(time.Duration(d))
}

// hitBy names the limit that denied a subject most often, and mentions a ban if there was one. For
// the other limits, it gives only their number.
func hitBy(h *simulate.Hit) string {
	var names []string
	if len(h.By) > 0 {
		first := &h.By[0]
		name := fmt.Sprintf("%s: %s", rule(first.Policy, first.Tier), first.Limit)
		if first.Denied == 0 {
			name += " in shadow"
		}
		names = append(names, name)
	}
	if h.Banned > 0 {
		names = append(names, "a ban")
		if len(h.By) > 0 && h.Banned > h.By[0].Denied {
			slices.Reverse(names)
		}
	}
	text := strings.Join(names, ", ")
	if more := len(h.By) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (b *builder) bans(r *simulate.Result) section {
	s := section{ID: "bans", Title: "Bans"}
	o := &r.Outcome
	if o.Subjects.Bans == 0 {
		return s
	}
	t := table{Columns: []column{
		{Name: "subject", Long: true}, {Name: "bans", Number: true}, {Name: "total", Number: true},
		{Name: "first denied"}, {Name: "last denied", Spare: 1},
	}}
	more := o.Subjects.Banned
	for i := range o.Hit {
		h := &o.Hit[i]
		if h.Bans == 0 {
			continue
		}
		more--
		total := figures.Length(time.Duration(h.BannedFor))
		t.Rows = append(t.Rows, cells(label.Line(h.Subject), figures.Number(h.Bans), total, b.at(h.First),
			b.at(h.Last)))
	}
	t.leaveOut(more, "other was banned", "others were banned")
	s.Blocks = []block{
		paragraph{Text: fmt.Sprintf(
			"%s would have been banned %s, for %s in total; %s denied by a ban already in force.",
			count(o.Subjects.Banned, "subject", "subjects"), times(o.Subjects.Bans),
			figures.Length(time.Duration(o.Subjects.BannedFor)),
			count(o.Total.Banned, "request was", "requests were"))},
		t,
	}
	return s
}

// times formats a number of times, as "once" or "2 times".
func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return figures.Number(n) + " times"
}
