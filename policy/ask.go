package policy

import (
	"slices"

	"github.com/stint-limiter/stint"
)

// ask fills in r, the request to the store, and the fields of the verdict that are known before the
// store answers. It returns the terms of the request. If a request has several readings, the
// application may act on any of them, so ask enforces the limits of all readings.
func (s *Set) ask(f *facts, v *Verdict, r *stint.Request) (only terms) {
	if v.Skipped = s.exemptBy(f); v.Skipped != "" {
		return only
	}
	f.look(0)
	who, only := s.askReading(f, v)
	for i := range f.others {
		f.look(1 + i)
		_, further := s.askReading(f, v)
		only.join(&further)
	}
	if len(f.others) > 0 {
		v.keepStrictest()
	}
	if len(f.others) > 0 || f.tooMany {
		s.keepFew(f, v)
	}
	v.Cost, v.after, v.atLeast = only.cost, only.after, only.atLeast
	if v.Cost == 0 && v.after.settles() {
		v.Cost = 1 // a request that is not charged cannot be settled
	}
	if v.after != nil {
		v.SettleHeader, v.SettlesBytes = v.after.header, v.after.bytes > 0
	}
	if only.usage != nil && slices.ContainsFunc(v.Results, func(r Result) bool { return r.Rule.Costs }) {
		v.usage = only.usage
		v.estimate(f, &only)
	}
	for i := range v.Results {
		result := &v.Results[i]
		if result.Rule.Costs && v.usage == nil {
			result.Cost, result.Costs = v.Cost, only.costsOf(result.Limits)
		}
		if !result.Shadow {
			v.claims = append(v.claims, result.Claim)
		}
	}
	r.Claims, r.Hold = v.claims, only.hold // a store does not retain the claims, so v can reuse them
	r.ID, r.IDLife = only.id.of(f, v, who)
	r.Bans, r.Failure = only.bans, only.failure
	return only
}

// askReading adds to v a result for each rule that limits the current reading. It returns the
// subject by which the tier counts the request, and the terms of the reading.
func (s *Set) askReading(f *facts, v *Verdict) (string, terms) {
	t, who := s.tierOf(f)
	f.before = who.subject
	var room [8]*policy
	matched := room[:0]
	only := terms{cost: 1, failure: t.failure, id: s.id, bans: t.bans}
	route := otherScope
	for _, p := range s.policies {
		if !p.mayFit(f) || p.miss(f, t) != fits {
			continue
		}
		matched = append(matched, p)
		if route == otherScope && p.when.isRoute() {
			route = p.name
		}
		only.add(p, f)
	}
	if v.Tier == "" {
		v.who, v.Tier = who.subject, t.name
		if route != otherScope {
			v.Route = route
		}
	}
	v.add(f, &t.unit, t.rules, who, t.scopeOf(route))
	for _, p := range matched {
		if own := p.rules[t.index]; len(own) > 0 {
			v.add(f, &p.unit, own, p.askerIn(f, who), p.scope(f, route))
		}
	}
	return who.subject, only
}
