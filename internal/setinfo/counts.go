package setinfo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// Count identifies one of the counts that a subject may have, by its rule and scope.
type Count struct {
	// Rule is the rule with the limits.
	Rule *policy.Rule
	// Scope is the scope of the count. If Divided is true, there is a count for each value of an
	// attribute, such as a variable in a path. These values are unknown, or too many to list; the
	// scopes of the counts begin with Scope and a colon.
	Scope   string
	Divided bool
	// Shadow reports whether the rule is not enforced for the subject.
	Shadow bool
	// Bans reports whether bans apply to the count, including bans that an operator makes.
	Bans bool
}

// Counts returns the counts that a subject such as "user:42" may have: all rules and scopes that
// can be found without a request. The counts may belong to several tiers, although each request is
// in only one tier. Counts returns nil if no tier or policy counts such subjects.
func Counts(set *policy.Set, subject string) []Count {
	spec := set.Spec()
	var counts []Count
	for i := range spec.Tiers {
		t := &spec.Tiers[i]
		add := func(policyName string, scopes []string, divided bool) {
			for _, scope := range scopes {
				for _, r := range set.Rules() {
					if r.Policy == policyName && r.Tier == t.Name {
						counts = append(counts, Count{
							Rule: r, Scope: scope, Divided: divided, Shadow: !r.EnforcedFor(subject),
							Bans: t.Bans != nil || spec.Bans != nil,
						})
					}
				}
			}
		}
		member := makes(spec, t.Identity, subject)
		if member {
			add("", tierScopes(spec, t), false)
		}
		for k := range spec.Policies {
			p := &spec.Policies[k]
			if len(p.Identity) == 0 && member || makes(spec, p.Identity, subject) {
				scopes, all := policyScopes(spec, p, t)
				add(p.Name, scopes, !all)
			}
		}
	}
	return counts
}

// Kinds returns the types of the subjects that the set counts, in the order in which tiers and
// policies use them. The type is the part of a subject before the colon, such as "user".
func Kinds(set *policy.Set) []string {
	var kinds []string
	for _, id := range counted(set.Spec()) {
		kinds = append(kinds, id.Type)
	}
	return kinds
}

// makes reports whether one of the named identities makes subjects of the same type as the given
// subject.
func makes(spec *policy.Spec, names []string, subject string) bool {
	kind, identifier, _ := strings.Cut(subject, ":")
	return slices.ContainsFunc(names, func(name string) bool {
		if name == Everyone {
			return subject == name
		}
		return kind == identityNamed(spec, name).Type && identifier != ""
	})
}

// These constants are scopes of tiers. If a request has no route, otherScope stands for the route.
// If its method is unknown, otherScope stands for the method.
const (
	globalScope = "global"
	otherScope  = "other"
)

// tierScopes returns the scopes in which a tier counts. If the tier counts each route separately,
// the last scope is for requests without a route.
func tierScopes(spec *policy.Spec, t *policy.Tier) []string {
	switch t.Scope {
	case "route":
		return routesOf(spec, t, nil)
	case "none":
		return []string{""}
	}
	return []string{cmp.Or(t.Scope, globalScope)}
}

// routesOf returns the routes that requests of a tier may have. Given a policy, routesOf returns
// only the routes of requests to which this policy applies.
func routesOf(spec *policy.Spec, t *policy.Tier, of *policy.Policy) []string {
	var names []string
	for i := range spec.Policies {
		p := &spec.Policies[i]
		if p.Skip {
			continue
		}
		isRoute := p.Match != nil && len(p.Match.Path)+len(p.Match.Method)+len(p.Match.Host) > 0
		if _, _, applies := p.LimitsFor(t.Name); isRoute && applies {
			names = append(names, p.Name)
		}
		if p == of && isRoute {
			return names // the first matching policy is the route
		}
	}
	return append(names, otherScope)
}

// maxScopes is the maximum number of scopes of a policy that are listed individually.
const maxScopes = 64

// policyScopes returns the scopes in which a policy counts the requests of a tier. If they are
// unknown or too many, it returns the policy's name and false.
func policyScopes(spec *policy.Spec, p *policy.Policy, t *policy.Tier) ([]string, bool) {
	scopes := []string{p.Name}
	for _, per := range p.Per {
		values := valuesOf(spec, per, p, t)
		if len(values) == 0 || len(values)*len(scopes) > maxScopes {
			return []string{p.Name}, false
		}
		var divided []string
		for _, scope := range scopes {
			for _, value := range values {
				divided = append(divided, string(keypart.AppendEscaped([]byte(scope+":"), []byte(value), ':')))
			}
		}
		scopes = divided
	}
	return scopes, true
}

// valuesOf returns the values that an attribute, such as "method", may have in those requests of a
// tier that a policy applies to. It returns nil if they are unknown.
func valuesOf(spec *policy.Spec, per string, p *policy.Policy, t *policy.Tier) []string {
	switch per {
	case "route":
		return routesOf(spec, t, p)
	case "method":
		return methodsOf(p.Match)
	case "host":
		var hosts []string
		for _, host := range p.Match.Host {
			if strings.HasPrefix(host, "*") {
				return nil
			}
			hosts = append(hosts, strings.ToLower(strings.TrimSuffix(host, ".")))
		}
		return hosts
	}
	return nil
}

// methodsOf returns the methods that a match accepts. otherScope stands for all unknown methods.
func methodsOf(m *policy.Match) []string {
	if m == nil || len(m.Method) == 0 {
		return append(slices.Clone(syntax.Methods[:]), otherScope)
	}
	var known []string
	for _, method := range syntax.Methods {
		if slices.Contains(m.Method, method) || method == "HEAD" && slices.Contains(m.Method, "GET") {
			known = append(known, method)
		}
	}
	if slices.ContainsFunc(m.Method, func(method string) bool { return !slices.Contains(syntax.Methods[:], method) }) {
		known = append(known, otherScope)
	}
	return known
}
