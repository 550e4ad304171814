package report

import (
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/simulate"
)

func (b *builder) outcome(r *simulate.Result) section {
	s := section{ID: "outcome", Title: "What would have happened"}
	o := &r.Outcome
	if o.Total.Requests == 0 {
		return s
	}
	s.Blocks = []block{
		totals(&o.Total), b.newTimeline("Requests over time", &o.Series), tiers(o), routes(o), methods(o), policies(o),
	}
	return s
}

// totals returns a table of the numbers of requests that were allowed and denied.
func totals(c *simulate.Count) table {
	t := table{Columns: []column{{}, {Number: true}, {Number: true}, {Spare: 1}, {Long: true}}}
	t.addPart("allowed", c.Allowed, c.Requests, allowed, ofAll)
	t.addPart("denied", c.Denied, c.Requests, denied, ofAll)
	if c.Banned > 0 {
		t.addPart("by a ban", c.Banned, c.Denied, denied, "of the denied")
	}
	if c.Shadowed > 0 {
		t.addPart("in shadow", c.Shadowed, c.Allowed, plain,
			"of the allowed: would be denied if everything were enforced")
	}
	if c.Exempt > 0 {
		t.addPart("exempt", c.Exempt, c.Allowed, plain, "of the allowed: no limits apply")
	}
	return t
}

const ofAll = "of all requests"

// addPart adds a row that shows a part of a whole: as a number, as a percentage and as a bar.
func (t *table) addPart(name string, n, whole int64, color tone, of string) {
	t.Rows = append(t.Rows, []cell{
		{Text: name}, {Text: figures.Number(n)}, {Text: share(n, whole)}, bar(n, whole, color), {Text: of},
	})
}

// newCountTable returns a table of counts. The first columns name what is counted.
func newCountTable(title string, names ...string) table {
	t := table{Title: title}
	for _, name := range names {
		t.Columns = append(t.Columns, column{Name: name, Long: true})
	}
	t.Columns = append(t.Columns, []column{
		{Name: "requests", Number: true}, {Name: "denied", Number: true},
		{Name: "of requests", Number: true}, {Spare: 1},
		{Name: "banned", Number: true, Spare: 2}, {Name: "in shadow", Number: true, Spare: 3},
	}...)
	return t
}

// countCells returns the cells of a count, for the columns after the names.
func countCells(c *simulate.Count) []cell {
	return []cell{
		{Text: figures.Number(c.Requests)}, deniedCell(c.Denied), {Text: share(c.Denied, c.Requests)},
		bar(c.Denied, c.Requests, denied),
		{Text: figures.Number(c.Banned)}, {Text: figures.Number(c.Shadowed)},
	}
}

// namedTable returns a table of named counts. A line below the table states how many names have no
// requests.
func namedTable(title, column string, all []simulate.NamedCount, nameless string) table {
	t := newCountTable(title, column)
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
	t.leaveOut(idle, "had no request", "had no requests")
	return t.without("banned", "in shadow")
}

func tiers(o *simulate.Outcome) table { return namedTable("By tier", "tier", o.Tiers, "") }

// routes returns the table of routes. It includes the requests that policies exempt, under the
// names of the policies.
func routes(o *simulate.Outcome) table {
	all := append([]simulate.NamedCount(nil), o.Routes...)
	if len(all) <= 1 && len(o.Exempt) == 0 { // no request has a route
		return table{}
	}
	for _, e := range o.Exempt {
		e.Name += " (exempt)"
		all = append(all, e)
	}
	return namedTable("By route", "route", all, "no route")
}

// mostMethods is the maximum number of rows in the table of methods.
const mostMethods = 10

// methods returns a table of requests by method and route. It shows only methods with denials,
// including denials in shadow. Without denials, the table of routes is enough.
func methods(o *simulate.Outcome) table {
	t := newCountTable("By method and route, where requests were denied", "method", "route")
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
			route = "no route"
		}
		t.Rows = append(t.Rows, append(cells(label.Line(m.Method), route), countCells(&m.Count)...))
	}
	t.leaveOut(more, "other with fewer requests", "others with fewer requests")
	return t.without("banned", "in shadow")
}

// policies returns a table of what each rule decided. A line below the table states how many rules
// applied to no request.
func policies(o *simulate.Outcome) table {
	t := table{Title: "By limits, of the requests that they apply to", Columns: []column{
		{Name: "tier, policy", Long: true}, {Name: "requests", Number: true}, {Name: "denied", Number: true},
		{Name: "of requests", Number: true}, {Spare: 1},
		{Name: "in shadow", Number: true}, {Name: "enforced for", Number: true, Spare: 2},
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
			{Text: rule(p.Policy, p.Tier)}, {Text: figures.Number(p.Requests)}, deniedCell(p.Denied),
			{Text: share(p.Denied, p.Requests)}, bar(p.Denied, p.Requests, denied),
			{Text: figures.Number(p.Shadowed)}, {Text: figures.Percent(p.Enforced) + " of subjects"},
		})
	}
	t.leaveOut(idle, "applied to nothing", "applied to nothing")
	if !partly {
		t = t.cut(len(t.Columns) - 1)
	}
	return t.without("in shadow")
}
