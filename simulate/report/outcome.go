package report

import (
	"fmt"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/simulate"
)

// outcome is the section on what the configuration would have done.
func (n *words) outcome(r *simulate.Result) section {
	s := section{ID: "outcome", Title: "What would have happened"}
	o := &r.Outcome
	if o.Total.Requests == 0 {
		return s
	}
	s.Blocks = append(s.Blocks, totals(&o.Total), n.newTimeline("Requests over time", &o.Series))
	for _, t := range []table{tiers(o), routes(o), methods(o), policies(o)} {
		if len(t.Rows) > 0 {
			s.Blocks = append(s.Blocks, t)
		}
	}
	return s
}

// totals are those of all requests.
func totals(c *simulate.Count) table {
	t := table{Columns: []column{{}, {Number: true}, {Number: true}, {Spare: 1}, {Long: true}}}
	line := func(name string, n int64, kind tone, note string) {
		t.Rows = append(t.Rows, []cell{
			{Text: name}, {Text: number(n)}, {Text: share(n, c.Requests)}, {Drawn: true, Share: ratio(n, c.Requests), Tone: kind}, {Text: note},
		})
	}
	line("allowed", c.Allowed, allowed, "")
	line("denied", c.Denied, denied, "")
	if c.Banned > 0 {
		line("by a ban", c.Banned, denied, "of those denied")
	}
	if c.Shadowed > 0 {
		line("in shadow", c.Shadowed, plain, "of those allowed: denied if everything were enforced")
	}
	if c.Exempt > 0 {
		line("exempt", c.Exempt, plain, "of those allowed: nothing limits them")
	}
	return t
}

// newCounted is a table of counts: first the columns that say of what.
func newCounted(title string, names ...string) table {
	t := table{Title: title}
	for _, name := range names {
		t.Columns = append(t.Columns, column{Name: name, Long: true})
	}
	t.Columns = append(t.Columns, []column{
		{Name: "requests", Number: true}, {Name: "denied", Number: true}, {Name: "share", Number: true}, {Spare: 1},
		{Name: "banned", Number: true, Spare: 2}, {Name: "in shadow", Number: true, Spare: 3},
	}...)
	return t
}

// countCells are the cells under the other columns.
func countCells(c *simulate.Count) []cell {
	return []cell{
		{Text: number(c.Requests)}, deniedCell(c.Denied), {Text: share(c.Denied, c.Requests)},
		{Drawn: true, Share: ratio(c.Denied, c.Requests), Tone: denied}, {Text: number(c.Banned)}, {Text: number(c.Shadowed)},
	}
}

// namedTable is of what has a name. Those without requests are counted below it.
func namedTable(title, column string, all []simulate.Named, nameless string) table {
	t := newCounted(title, column)
	idle := int64(0)
	for i := range all {
		if all[i].Requests == 0 {
			if all[i].Name != "" {
				idle++
			}
			continue
		}
		name := label.Line(all[i].Name)
		if name == "" {
			name = nameless
		}
		t.Rows = append(t.Rows, append([]cell{{Text: name}}, countCells(&all[i].Count)...))
	}
	if idle > 0 {
		t.LeftOut = count(idle, "had no request", "had no requests")
	}
	return t.without("banned", "in shadow")
}

func tiers(o *simulate.Outcome) table { return namedTable("By tier", "tier", o.Tiers, "") }

// routes includes requests that a policy exempts, under its name.
func routes(o *simulate.Outcome) table {
	all := append([]simulate.Named(nil), o.Routes...)
	if len(all) <= 1 && len(o.Exempt) == 0 { // no route has a name
		return table{}
	}
	for _, e := range o.Exempt {
		e.Name += " (exempt)"
		all = append(all, e)
	}
	return namedTable("By route", "route", all, "none of them")
}

// mostMethods is how many methods are listed.
const mostMethods = 10

// methods are those of routes that were denied something: of the others the table of routes tells enough.
func methods(o *simulate.Outcome) table {
	t := newCounted("By method and route, of those that are denied something", "method", "route")
	more := int64(0)
	for i := range o.Methods {
		m := &o.Methods[i]
		switch {
		case m.Denied == 0 && m.Shadowed == 0:
			continue
		case len(t.Rows) == mostMethods:
			more++
			continue
		}
		route := label.Line(m.Route)
		if route == "" {
			route = "none of them"
		}
		t.Rows = append(t.Rows, append(cells(label.Line(m.Method), route), countCells(&m.Count)...))
	}
	if more > 0 {
		t.LeftOut = fmt.Sprintf("%s with fewer requests", count(more, "other", "others"))
	}
	return t.without("banned", "in shadow")
}

// policies is what each rule had a say in. Those that applied to nothing are counted below.
func policies(o *simulate.Outcome) table {
	t := table{Title: "By limits", Columns: []column{
		{Name: "tier, policy", Long: true}, {Name: "applied to", Number: true}, {Name: "denied", Number: true}, {Name: "share", Number: true}, {Spare: 1},
		{Name: "in shadow", Number: true}, {Name: "enforced", Number: true, Spare: 2},
	}}
	idle, partly := int64(0), false
	for i := range o.Policies {
		p := &o.Policies[i]
		if p.Requests == 0 {
			idle++
			continue
		}
		partly = partly || p.Enforced < 1
		t.Rows = append(t.Rows, []cell{
			{Text: rule(p.Policy, p.Tier)}, {Text: number(p.Requests)}, deniedCell(p.Denied), {Text: share(p.Denied, p.Requests)},
			{Drawn: true, Share: ratio(p.Denied, p.Requests), Tone: denied}, {Text: number(p.Shadowed)}, {Text: percent(p.Enforced)},
		})
	}
	if idle > 0 {
		t.LeftOut = count(idle, "applied to nothing", "applied to nothing")
	}
	if !partly {
		t = t.cut(len(t.Columns) - 1)
	}
	return t.without("in shadow")
}

// ratio is a part of a whole; 0 of nothing.
func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
