package report

import (
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/simulate"
)

// headroom is the section on those who were not denied, and on who is busiest.
func (n *words) headroom(r *simulate.Result) section {
	s := section{ID: "headroom", Title: "Everyone else's headroom"}
	t := table{Columns: []column{
		{Name: "tier, policy", Long: true}, {Name: "limit"}, {Name: "subjects", Number: true}, {Name: "half", Number: true, Spare: 3},
		{Name: "90 %", Number: true, Spare: 2}, {Name: "99 %", Number: true}, {Name: "all", Number: true}, {Name: "0 to 100 %", Spare: 1},
	}}
	idle := int64(0)
	for i := range r.Outcome.Limits {
		l := &r.Outcome.Limits[i]
		h := &l.Headroom
		if h.Subjects == 0 {
			idle++
			continue
		}
		t.Rows = append(t.Rows, []cell{
			{Text: rule(l.Policy, l.Tier)}, {Text: l.Limit.String()}, {Text: number(h.Subjects)}, {Text: percent(h.P50)}, {Text: percent(h.P90)},
			{Text: percent(h.P99)}, {Text: percent(h.Max), Tone: closeTo(h.Max)}, {Heights: h.Histogram, Tone: allowed},
		})
	}
	if len(t.Rows) == 0 {
		return s
	}
	if idle > 0 {
		t.LeftOut = count(idle, "limit applied to nobody else", "limits applied to nobody else")
	}
	s.Blocks = append(s.Blocks, paragraph{Text: "How much of a limit those used at their busiest whom nothing ever denied: " +
		"99 of 100 of them never used more than what is under 99 %. The drawing is how many used up to 10 %, up to 20 % and so on."}, t)
	if busiest := n.busiest(&r.Outcome); len(busiest.Rows) > 0 {
		s.Blocks = append(s.Blocks, busiest)
	}
	return s
}

// near is the share of a limit from which on the next busy day may hit it.
const near = 0.8

func closeTo(share float64) tone {
	if share >= near {
		return denied
	}
	return plain
}

// busiestEach is how many subjects are listed for each limit.
const busiestEach = 3

// busiest lists the busiest windows of each limit.
func (n *words) busiest(o *simulate.Outcome) table {
	t := table{Title: "The busiest windows", Columns: []column{
		{Name: "tier, policy", Long: true, Spare: 1}, {Name: "limit"}, {Name: "subject", Long: true}, {Name: "used", Number: true}, {Name: "share", Number: true}, {Spare: 2}, {Name: "until", Spare: 3},
	}}
	for i := range o.Limits {
		l := &o.Limits[i]
		who, what := rule(l.Policy, l.Tier), l.Limit.String()
		for _, b := range l.Busiest[:min(len(l.Busiest), busiestEach)] {
			t.Rows = append(t.Rows, []cell{
				{Text: who}, {Text: what}, {Text: label.Line(b.Subject)}, {Text: number(b.Used)}, {Text: percent(b.Share)},
				{Drawn: true, Share: b.Share, Tone: fullness(b.Share)}, {Text: n.at(b.At)},
			})
			who, what = "", ""
		}
	}
	return t
}

// fullness is how the use of a limit is meant.
func fullness(share float64) tone {
	if share >= 1 {
		return denied
	}
	return allowed
}
