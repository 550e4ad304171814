package policy

import (
	"slices"
	"strings"
)

// Place is where a subject may be counted.
type Place struct {
	// Rule says how it is limited there.
	Rule *Rule
	// Scope is the part of the subject that is counted there. If it is Divided, there are counts for each value of what
	// divides it, such as a path's variable, which the configuration cannot tell; they are in scopes that begin with
	// this one and a colon.
	Scope   string
	Divided bool
	// Shadow says that the rule has no consequences for this subject.
	Shadow bool
	// Bans says that bans are obeyed there, also those made by hand.
	Bans bool
}

// Places returns where a subject such as "user:42" may be counted: every rule and scope, as far as the configuration can
// tell without a request. Of several tiers it is in one at a time. It returns nil if no identity makes such subjects.
func (s *Set) Places(subject string) []Place {
	var places []Place
	for _, t := range s.tiers {
		member := makes(t.who, subject)
		if member {
			places = appendPlaces(places, t, t.rules, subject, s.tierScopes(t), false)
		}
		for _, p := range s.policies {
			if !p.tiers[t.index] || p.who == nil && !member || p.who != nil && !makes(p.who, subject) {
				continue
			}
			scopes, all := s.policyScopes(p, t)
			places = appendPlaces(places, t, p.rules[t.index], subject, scopes, !all)
		}
	}
	return places
}

func appendPlaces(places []Place, t *tier, r rules, subject string, scopes []string, divided bool) []Place {
	for _, scope := range scopes {
		for _, rule := range [...]*Rule{r.requests, r.costs} {
			if rule != nil {
				places = append(places, Place{
					Rule: rule, Scope: scope, Divided: divided, Shadow: !rule.unit.enforced(subject), Bans: t.bans != nil,
				})
			}
		}
	}
	return places
}

// Kinds returns what subjects begin with before a colon, such as "user", in the order of the configuration.
func (s *Set) Kinds() []string {
	var kinds []string
	for _, id := range s.counted() {
		kinds = append(kinds, id.typ)
	}
	return kinds
}

// counted returns the identities that tiers and policies count by, each once.
func (s *Set) counted() []*identity {
	var all []*identity
	add := func(who []*identity) {
		for _, id := range who {
			if !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	for _, t := range s.tiers {
		add(t.who)
	}
	for _, p := range s.policies {
		add(p.who)
	}
	return all
}

// makes reports whether one of the identities makes such subjects.
func makes(who []*identity, subject string) bool {
	kind, identifier, _ := strings.Cut(subject, ":")
	return slices.ContainsFunc(who, func(id *identity) bool {
		if id.kind == byNothing {
			return subject == id.typ
		}
		return kind == id.typ && identifier != ""
	})
}

// tierScopes returns the scopes that a tier counts in.
func (s *Set) tierScopes(t *tier) []string {
	if t.scope == scopeRoute {
		return s.routesOf(t, nil)
	}
	return []string{t.scopeOf(otherScope)}
}

// routesOf returns the routes that requests of a tier may have, or of those to which a policy applies.
func (s *Set) routesOf(t *tier, of *policy) []string {
	var names []string
	for _, p := range s.policies {
		if p.tiers[t.index] && p.when.isRoute() {
			names = append(names, p.name)
		}
		if p == of && p.when.isRoute() {
			return names // the first that matches is the route
		}
	}
	return append(names, otherScope)
}

// maxScopes is into how many scopes a policy may be divided that are told one by one.
const maxScopes = 64

// policyScopes returns the scopes that a policy counts in for a tier, or its name and false if they cannot be told.
func (s *Set) policyScopes(p *policy, t *tier) ([]string, bool) {
	scopes := []string{p.name}
	for _, d := range p.per {
		values := s.values(d, p, t)
		if len(values) == 0 || len(values)*len(scopes) > maxScopes {
			return []string{p.name}, false
		}
		var divided []string
		for _, scope := range scopes {
			for _, value := range values {
				divided = append(divided, string(appendEscaped([]byte(scope+":"), []byte(value), ':')))
			}
		}
		scopes = divided
	}
	return scopes, true
}

// values returns what a divider may be for requests of a policy and a tier, nil if that cannot be told.
func (s *Set) values(d divider, p *policy, t *tier) []string {
	switch d.kind {
	case perRoute:
		return s.routesOf(t, p)
	case perMethod:
		return p.when.methodsKnown()
	case perHost:
		if wild := slices.ContainsFunc(p.when.hosts, func(h string) bool { return strings.HasPrefix(h, "*") }); !wild {
			return p.when.hosts
		}
	}
	return nil
}

// methodsKnown returns the methods that fit, as they divide counts: otherScope stands for those that nobody knows.
func (c *condition) methodsKnown() []string {
	if c == nil || len(c.methods) == 0 {
		return append(slices.Clone(knownMethods), otherScope)
	}
	var known []string
	for _, m := range knownMethods {
		if c.hasMethod(m) {
			known = append(known, m)
		}
	}
	if slices.ContainsFunc(c.methods, func(m string) bool { return !slices.Contains(knownMethods, m) }) {
		known = append(known, otherScope)
	}
	return known
}
