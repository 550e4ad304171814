package report

import (
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/simulate"
)

func (b *builder) headroom(r *simulate.Result) section {
	s := section{ID: "headroom", Title: "Headroom of the other subjects"}
	t := table{Columns: []column{
		{Name: "tier, policy", Long: true}, {Name: "limit"}, {Name: "subjects", Number: true},
		{Name: "half", Number: true, Spare: 3}, {Name: "90%", Number: true, Spare: 2}, {Name: "99%", Number: true},
		{Name: "all", Number: true}, {Name: "0 to 100%", Spare: 1},
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
			{Text: rule(l.Policy, l.Tier)}, {Text: limitOf(l)}, {Text: figures.Number(h.Subjects)},
			{Text: figures.Percent(h.P50)}, {Text: figures.Percent(h.P90)}, {Text: figures.Percent(h.P99)},
			{Text: figures.Percent(h.Max), Tone: fullness(h.Max, near, plain)}, {Heights: h.Histogram, Tone: allowed},
		})
	}
	if len(t.Rows) == 0 {
		return s
	}
	t.leaveOut(idle, "limit applied to no other subject", "limits applied to no other subject")
	s.Blocks = append(s.Blocks, paragraph{Text: "The share of a limit that subjects used at their busiest, for subjects " +
		"that were never denied: 99 of 100 never used more than the value under 99%. " +
		"The histogram shows how many used up to 10%, more than that and up to 20%, and so on."}, t, b.busiest(&r.Outcome))
	return s
}

// limitOf formats a limit, with the claim that sets its maximum if there is one.
func limitOf(l *simulate.LimitUse) string {
	if l.Claim == "" {
		return l.Limit.String()
	}
	return l.Limit.String() + " or claim " + l.Claim
}

// near is the share of a limit's capacity at or above which usage is highlighted, because the
// subject may reach the limit on a busier day.
const near = 0.8

// fullness returns the tone for the used share of a limit: [denied] if the share is at least bound,
// and otherwise the given tone.
func fullness(share, bound float64, below tone) tone {
	if share >= bound {
		return denied
	}
	return below
}

// busiestEach is the maximum number of subjects that are listed for each limit.
const busiestEach = 3

func (b *builder) busiest(o *simulate.Outcome) table {
	t := table{Title: "The busiest windows", Columns: []column{
		{Name: "tier, policy", Long: true, Spare: 1}, {Name: "limit"}, {Name: "subject", Long: true},
		{Name: "used", Number: true}, {Name: "of limit", Number: true}, {Spare: 2}, {Name: "until", Spare: 3},
	}}
	for i := range o.Limits {
		l := &o.Limits[i]
		who, what := rule(l.Policy, l.Tier), limitOf(l)
		for _, busy := range l.Busiest[:min(len(l.Busiest), busiestEach)] {
			t.Rows = append(t.Rows, []cell{
				{Text: who}, {Text: what}, {Text: label.Line(busy.Subject)},
				{Text: figures.Number(busy.Used)}, {Text: figures.Percent(busy.Share)},
				{Drawn: true, Share: busy.Share, Tone: fullness(busy.Share, 1, allowed)}, {Text: b.at(busy.At)},
			})
			who, what = "", ""
		}
	}
	return t
}
