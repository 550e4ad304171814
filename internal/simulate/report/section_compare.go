package report

import (
	"fmt"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/simulate"
)

// compared returns the section on how two configurations differ.
func (b *builder) compared(r *simulate.Result) section {
	s := section{ID: "compared", Title: "Compared with " + b.against()}
	c := r.Comparison
	if c == nil || r.Against == nil {
		return s
	}
	s.Blocks = []block{
		b.difference(c), b.agreement(c, r.Outcome.Total.Requests), b.bySide(r),
		b.newTimeline("Requests over time, by "+b.against(), &r.Against.Series),
	}
	for _, side := range []struct {
		title string
		all   int64
		list  []simulate.Change
	}{
		{"Subjects denied more than before", c.Losing, c.Lose},
		{"Subjects denied less than before", c.Gaining, c.Gain},
	} {
		if len(side.list) > 0 {
			s.Blocks = append(s.Blocks, b.changes(side.title, side.all, side.list))
		}
	}
	return s
}

// difference returns the comparison in one sentence.
func (b *builder) difference(c *simulate.Comparison) paragraph {
	if c.OnlyDenied == 0 && c.OnlyAgainst == 0 {
		return paragraph{Text: fmt.Sprintf("%s and %s make the same decision on every request.", b.config(), b.against())}
	}
	return paragraph{Text: fmt.Sprintf("With %s instead of %s, %s denied more, and %s denied less.",
		b.config(), b.against(),
		count(c.Losing, "subject is", "subjects are"), count(c.Gaining, "subject is", "subjects are"))}
}

// agreement counts the requests by the decisions of both configurations.
func (b *builder) agreement(c *simulate.Comparison, all int64) table {
	t := table{Columns: []column{{Long: true}, {Number: true}, {Number: true}, {Spare: 1}, {}}}
	for _, line := range []struct {
		name string
		n    int64
		tone tone
	}{
		{"allowed by both", c.AllowedByBoth, allowed},
		{"denied by both", c.DeniedByBoth, denied},
		{"denied by " + b.config() + " only", c.OnlyDenied, denied},
		{"denied by " + b.against() + " only", c.OnlyAgainst, denied},
	} {
		t.Rows = append(t.Rows, []cell{
			{Text: line.name}, {Text: figures.Number(line.n)}, {Text: share(line.n, all)},
			{Drawn: true, Share: ratio(line.n, all), Tone: line.tone},
			{Text: "of all requests"},
		})
	}
	return t
}

// bySide counts the denials by each rule and by bans, and in total, for both configurations.
func (b *builder) bySide(r *simulate.Result) table {
	type key struct{ policy, tier string }
	t := table{Title: "Denied by limits", Columns: []column{
		{Name: "tier, policy", Long: true}, {Name: b.config(), Number: true}, {Name: b.against(), Number: true},
	}}
	here, there := map[key]int64{}, map[key]int64{}
	var order []key
	for _, side := range []struct {
		outcome *simulate.Outcome
		denied  map[key]int64
	}{{&r.Outcome, here}, {r.Against, there}} {
		for _, p := range side.outcome.Policies {
			k := key{p.Policy, p.Tier}
			_, inOne := here[k]
			_, inOther := there[k]
			if !inOne && !inOther {
				order = append(order, k)
			}
			side.denied[k] += p.Denied
		}
	}
	side := func(denied map[key]int64, k key) cell {
		if n, there := denied[k]; there {
			return deniedCell(n)
		}
		return cell{Text: "–"}
	}
	for _, k := range order {
		if here[k] > 0 || there[k] > 0 {
			t.Rows = append(t.Rows, []cell{{Text: rule(k.policy, k.tier)}, side(here, k), side(there, k)})
		}
	}
	if here, there := r.Outcome.Total.Banned, r.Against.Total.Banned; here > 0 || there > 0 {
		t.Rows = append(t.Rows, []cell{{Text: "a ban in force"}, deniedCell(here), deniedCell(there)})
	}
	t.Rows = append(t.Rows, []cell{
		{Text: "total"}, deniedCell(r.Outcome.Total.Denied), deniedCell(r.Against.Total.Denied),
	})
	return t
}

// changes lists the subjects that gain or lose.
func (b *builder) changes(title string, all int64, list []simulate.Change) table {
	t := table{Title: title, Columns: []column{
		{Name: "subject", Long: true}, {Name: b.config(), Number: true}, {Name: b.against(), Number: true},
		{Name: "difference", Number: true},
	}}
	for _, c := range list {
		difference := figures.Number(c.Denied - c.Against)
		if c.Denied > c.Against {
			difference = "+" + difference
		}
		t.Rows = append(t.Rows, []cell{
			{Text: label.Line(c.Subject)}, deniedCell(c.Denied), deniedCell(c.Against), {Text: difference},
		})
	}
	t.leaveOut(all-int64(len(list)), "other", "others")
	return t
}
