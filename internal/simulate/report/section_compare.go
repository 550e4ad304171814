package report

import (
	"fmt"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/simulate"
)

func (b *builder) compared(r *simulate.Result) section {
	s := section{ID: "compared", Title: "Compared with " + b.against()}
	c := r.Comparison
	if c == nil || r.Against == nil {
		return s
	}
	s.Blocks = []block{
		b.difference(c), b.agreement(c, r.Outcome.Total.Requests), b.bySide(r),
		b.newTimeline("Requests over time, by "+b.against(), &r.Against.Series),
		b.changes("Subjects denied more than before", c.Losing, c.Lose),
		b.changes("Subjects denied less than before", c.Gaining, c.Gain),
	}
	return s
}

// difference summarizes the comparison in one sentence.
func (b *builder) difference(c *simulate.Comparison) paragraph {
	if c.OnlyDenied == 0 && c.OnlyAgainst == 0 {
		return paragraph{Text: fmt.Sprintf("%s and %s make the same decision on every request.", b.config(), b.against())}
	}
	return paragraph{Text: fmt.Sprintf("With %s instead of %s, %s denied more, and %s denied less.",
		b.config(), b.against(),
		count(c.Losing, "subject is", "subjects are"), count(c.Gaining, "subject is", "subjects are"))}
}

// agreement returns a table of the numbers of requests that both configurations allow, that both
// deny, and that only one of them denies.
func (b *builder) agreement(c *simulate.Comparison, all int64) table {
	t := table{Columns: []column{{Long: true}, {Number: true}, {Number: true}, {Spare: 1}, {}}}
	t.addPart("allowed by both", c.AllowedByBoth, all, allowed, ofAll)
	t.addPart("denied by both", c.DeniedByBoth, all, denied, ofAll)
	t.addPart("denied by "+b.config()+" only", c.OnlyDenied, all, denied, ofAll)
	t.addPart("denied by "+b.against()+" only", c.OnlyAgainst, all, denied, ofAll)
	return t
}

// bySide returns a table of the denials by each rule, by bans and in total, under both
// configurations.
func (b *builder) bySide(r *simulate.Result) table {
	type key struct{ policy, tier string }
	t := table{Title: "Denied by limits", Columns: []column{
		{Name: "tier, policy", Long: true}, {Name: b.config(), Number: true}, {Name: b.against(), Number: true},
	}}
	type sides [2]struct {
		denied int64
		exists bool
	}
	rules := map[key]*sides{}
	var order []key
	for i, o := range []*simulate.Outcome{&r.Outcome, r.Against} {
		for _, p := range o.Policies {
			k := key{p.Policy, p.Tier}
			if rules[k] == nil {
				rules[k] = new(sides)
				order = append(order, k)
			}
			rules[k][i].denied += p.Denied
			rules[k][i].exists = true
		}
	}
	for _, k := range order {
		row := cells(rule(k.policy, k.tier), "–", "–")
		for i, side := range rules[k] {
			if side.exists {
				row[1+i] = deniedCell(side.denied)
			}
		}
		if rules[k][0].denied > 0 || rules[k][1].denied > 0 {
			t.Rows = append(t.Rows, row)
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

// changes returns a table of the listed subjects, which one configuration denies more often than
// the other. all is the number of all such subjects, listed or not.
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
