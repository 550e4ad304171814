package simulate

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// outcome returns what was counted.
func (t *tally) outcome(maxSubjects int) Outcome {
	o := Outcome{
		Methods:  []MethodCount{},
		Policies: t.rules,
		Series:   t.series.result(),
		Limits:   t.limitUses(),
		Subjects: t.subjects(maxSubjects),
		Hit:      t.hitList(),
	}
	o.byName(t)
	return o
}

// byName adds up requests by what has a name.
func (o *Outcome) byName(t *tally) {
	tiers, routes, exempt := map[string]*Count{}, map[string]*Count{}, map[string]*Count{}
	byMethod := map[[2]string]*Count{}
	sum := func(m map[string]*Count, name string) *Count {
		if m[name] == nil {
			m[name] = new(Count)
		}
		return m[name]
	}
	for i := range t.places {
		p := &t.places[i]
		for k := range p.methods {
			c := &p.methods[k]
			if c.Requests == 0 {
				continue
			}
			o.Total.add(c)
			if p.skipped != "" {
				sum(exempt, p.skipped).add(c)
				continue
			}
			sum(tiers, p.tier).add(c)
			sum(routes, p.route).add(c)
			key := [2]string{methodNames[k], p.route}
			if byMethod[key] == nil {
				byMethod[key] = new(Count)
			}
			byMethod[key].add(c)
		}
	}
	o.Tiers = named(tiers, t.set.Tiers(), true)
	o.Routes = append(named(routes, t.set.Policies(), false), named(routes, []string{""}, true)...)
	o.Exempt = named(exempt, t.set.Policies(), false)
	for key, c := range byMethod {
		o.Methods = append(o.Methods, MethodCount{Method: key[0], Route: key[1], Count: *c})
	}
	slices.SortFunc(o.Methods, func(a, b MethodCount) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Route, b.Route), strings.Compare(a.Method, b.Method))
	})
}

// named returns counts in the order of names, those of nothing only if all are wanted.
func named(counts map[string]*Count, names []string, all bool) []Named {
	list := []Named{}
	for _, name := range names {
		switch c := counts[name]; {
		case c != nil:
			list = append(list, Named{name, *c})
		case all:
			list = append(list, Named{Name: name})
		}
	}
	return list
}

// subjects adds up what there is to say of all subjects.
func (t *tally) subjects(most int) Subjects {
	sum := Subjects{Cap: most, Others: t.others, Forgotten: t.store.Stats().Evicted}
	for _, s := range t.table.named {
		if !s.shared {
			sum.Seen++
		}
		h := s.hits
		if h == nil {
			continue
		}
		if h.denied > 0 {
			sum.Hit++
		}
		if h.shadowed > 0 {
			sum.Shadowed++
		}
		if h.bans > 0 {
			sum.Banned++
		}
		sum.Bans += h.bans
		sum.BannedFor += span(h.bannedFor)
	}
	return sum
}

// hitList returns the subjects that were hit the most.
func (t *tally) hitList() []Hit {
	most := newTop(t.top, func(a, b *subject) int {
		return cmp.Or(cmp.Compare(b.hits.denied, a.hits.denied), cmp.Compare(b.hits.shadowed, a.hits.shadowed), strings.Compare(a.name, b.name))
	})
	for _, s := range t.table.named {
		if s.hits != nil {
			most.add(s)
		}
	}
	list := []Hit{}
	for _, s := range most.list {
		list = append(list, t.hitOf(s))
	}
	return list
}

func (t *tally) hitOf(s *subject) Hit {
	h := s.hits
	hit := Hit{
		Subject: s.name, Requests: s.requests, Denied: h.denied, Shadowed: h.shadowed,
		First: instant(h.first), Last: instant(h.last), Longest: span(h.longest),
		WorstWait: Duration(h.worst), Never: h.never,
		By: []Blame{}, Bans: h.bans, BannedFor: span(h.bannedFor),
	}
	if h.denied > 0 {
		hit.LongestAt = instant(h.longestAt)
	}
	slices.SortFunc(h.by, func(a, b blame) int {
		return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(b.shadowed, a.shadowed), cmp.Compare(a.limit, b.limit))
	})
	for _, b := range h.by {
		l := &t.limits[b.limit]
		hit.By = append(hit.By, Blame{Policy: l.rule.Policy, Tier: l.rule.Tier, Limit: *l.Limit, Denied: b.denied, Shadowed: b.shadowed})
	}
	return hit
}

// span turns microseconds into a duration, the longest there is if need be.
func span(us int64) Duration {
	return Duration(min(us, math.MaxInt64/int64(time.Microsecond)) * int64(time.Microsecond))
}
