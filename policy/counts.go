package policy

import (
	"slices"

	"github.com/stint-limiter/stint"
)

// Counts returns the tier of a caller and the counts that the caller's claims alone determine:
// those of the tier, and those of every policy that could apply to a request from the caller. The
// limits include the effects of claims and overrides. If no claim identifies the caller, the tier
// is "" and there are no counts. The results have no usages, because no store is asked.
//
// Counts omits the following:
//   - counts by address, header or cookie
//   - the count that all callers share
//   - counts of policies with Per
//   - counts of rules in shadow
func (g *Guard) Counts(in *Input) (tier string, counts []Result) {
	set := g.set.Load()
	f := facts{}
	f.read(in, set)
	t, who := set.tierOf(&f)
	if !who.by.byClaims() {
		return "", nil
	}
	add := func(u *unit, rules []*Rule, who asker, scope string) {
		for _, rule := range rules {
			if !g.enforceAll && !u.enforced(who.subject) {
				continue
			}
			counts = append(counts, Result{Rule: rule, Claim: stint.Claim{Subject: who.subject, Scope: scope,
				Limits: rule.limitsOf(&f, who.subject, g.overrides), Cost: 1}})
		}
	}
	routes := []string{""}
	if t.scope == scopeRoute {
		routes = set.routesOf(t)
	}
	for _, route := range routes {
		add(&t.unit, t.rules, who, t.scopeOf(route))
	}
	for _, p := range set.policies {
		if own := p.askerIn(&f, who); len(p.per) == 0 && p.tiers[t.index] && own.by.byClaims() && p.mayConcern(&f) {
			add(&p.unit, p.rules[t.index], own, p.name)
		}
	}
	g.log.oddClaim(&f)
	return t.name, counts
}

// byClaims reports whether the identity is determined by claims alone. The identity may be nil.
func (id *identity) byClaims() bool {
	return id != nil && (id.kind == byClaim || id.kind == byAll &&
		!slices.ContainsFunc(id.parts, func(part *identity) bool { return !part.byClaims() }))
}

// routesOf returns the routes that requests of a tier can have. The last one is otherScope, for
// requests without a route.
func (s *Set) routesOf(t *tier) (names []string) {
	for _, p := range s.policies {
		if p.tiers[t.index] && p.when.isRoute() {
			names = append(names, p.name)
		}
	}
	return append(names, otherScope)
}

// mayConcern reports whether a request with the claims in f could fit the clause.
func (c *clause) mayConcern(f *facts) bool {
	if c.when != nil && !c.when.fitsClaims(f) {
		return false
	}
	u := c.unless
	return u == nil || !u.fitsClaims(f) || len(u.hosts)+len(u.paths)+len(u.methods)+len(u.headers)+len(u.networks) > 0
}

func (c *condition) fitsClaims(f *facts) bool {
	return !slices.ContainsFunc(c.claims, func(w requirement) bool { return !w.fits(f.claim(w.name)) })
}
