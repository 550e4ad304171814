package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/messages"
)

// Explanation describes how a request would be decided, and why. No store is asked.
type Explanation struct {
	// Path is the cleaned path of the request. Client is the client's address.
	Path, Client string
	// Also lists other readings of the request, such as "POST /login": applications interpret some
	// paths, and header fields that override the method, in different ways. Limits apply if any
	// reading matches; exemptions apply only if all readings match.
	Also []string
	// Skipped is the name of the policy that exempts the request, or "". If Skipped is set, all
	// later fields are empty.
	Skipped string
	// Tiers and Policies list the tiers and policies of the set, in the order of the spec, each
	// with its outcome. Tiers after the last one that a reading belongs to are left out.
	Tiers, Policies []Considered
	// Tier, Route and Cost are the tier, the route and the cost of the request.
	Tier, Route string
	Cost        int64
	// Results holds a result for each rule that applies. If readings differ in the subject or the
	// scope, a rule has several results. The results have no usages, because no store is asked.
	Results []Result
	// Numbers describes the limits whose maximum comes from a claim.
	Numbers []Number
	// RequestID is the name of the header that identifies a request; "" means none. Repeats have
	// the same id as the original request and are not charged. Named reports whether this request
	// has an id. Derived is the time within which repeats without an id are recognized by their
	// content; 0 if they are not recognized.
	RequestID string
	Named     bool
	Derived   time.Duration
	// Failure determines what happens when the store fails. Bans determines what happens to a
	// subject that keeps being denied; it is nil if there are no bans.
	Failure stint.FailurePolicy
	Bans    *stint.BanPolicy
	// Hold is the time for which the estimated cost is held without a heartbeat; 0 if the cost is
	// charged at once.
	Hold time.Duration
	// After describes how the charge is corrected after the response; "" if it is not corrected.
	After string
}

// Considered is a tier or policy, and whether it applies.
type Considered struct {
	Name    string `json:"name"`
	Applies bool   `json:"applies"`
	// Why says why the tier or policy applies or does not apply.
	Why string `json:"why"`
}

// Number describes a limit whose maximum comes from a claim.
type Number struct {
	// Rule is the name of the tier or policy.
	Rule  string      `json:"rule"`
	Limit stint.Limit `json:"limit"`
	Claim string      `json:"claim"`
	Why   string      `json:"why"`
}

// Explain explains how a request would be decided. The overrides may be nil.
func (s *Set) Explain(in *Input, overrides Overrides) *Explanation {
	var f facts
	f.read(in, s)
	e := &Explanation{Path: f.first.path, Client: unknownClient}
	for _, r := range f.others {
		if text := r.method + " " + r.path; !r.last && !slices.Contains(e.Also, text) {
			e.Also = append(e.Also, text)
		}
	}
	if a := f.clientAddr(); a.IsValid() {
		e.Client = string(f.resolver.AppendSubject(nil, a))
	}
	v := Verdict{overrides: overrides}
	var r stint.Request
	only := s.ask(&f, &v, &r)
	e.Skipped, e.Tier, e.Route, e.Cost = v.Skipped, v.Tier, v.Route, v.Cost
	if v.Skipped != "" {
		return e
	}
	s.explainTiers(&f, e)
	s.explainPolicies(&f, e)
	e.Results = v.Results
	for i := range v.Results {
		r := v.Results[i].Rule
		if !slices.ContainsFunc(v.Results[:i], func(other Result) bool { return other.Rule == r }) {
			e.explainNumbers(&f, r)
		}
	}
	if only.id != nil {
		e.RequestID, e.Named, e.Derived = only.id.header, r.ID != "", only.id.derive
	}
	e.Failure, e.Bans = *r.Failure, r.Bans
	e.After, e.Hold = v.after.String(), r.Hold
	if v.usage != nil {
		e.After = strings.TrimSuffix("budgets count the tokens that the response reports, or else an estimate; "+e.After, "; ")
	}
	return e
}

// explainTiers explains the tiers, up to the last one that a reading of the request belongs to.
func (s *Set) explainTiers(f *facts, e *Explanation) {
	last := 0
	for i := range f.count() {
		f.look(i)
		t, _ := s.tierOf(f)
		last = max(last, t.index)
	}
	for _, t := range s.tiers[:last+1] {
		var c Considered
		for i := 0; i < f.count() && !c.Applies; i++ {
			f.look(i)
			of, _ := s.tierOf(f)
			if c = t.considered(f); c.Applies && of != t {
				c.Applies, c.Why = false, fmt.Sprintf("the tier %q comes first", of.name)
			}
		}
		e.Tiers = append(e.Tiers, c)
	}
}

func (t *tier) considered(f *facts) Considered {
	m := t.clause.miss(f, false)
	why := t.why(m)
	if m == fits {
		if by := t.asker(f, nil).by; by == nil {
			m, why = missIdentity, "the request has no identity "+messages.OneOf(identityNames(t.who))+f.distrusted(t.who)
		} else {
			why = strings.TrimPrefix(why+", and the request has the identity "+by.name, "it takes all, and ")
		}
	}
	return Considered{Name: t.name, Applies: m == fits, Why: why}
}

// explainPolicies explains every policy. No policy with Skip applies, because explainPolicies is
// called only for requests that are not exempt.
func (s *Set) explainPolicies(f *facts, e *Explanation) {
	for _, p := range s.all {
		c := Considered{Name: p.name}
		for i := range f.count() {
			f.look(i)
			t, _ := s.tierOf(f)
			m := p.miss(f, t)
			c.Applies, c.Why = m == fits && !p.skips, p.why(m)
			if m == missTier {
				c.Why = fmt.Sprintf("it has no limits for the tier %q", t.name)
			}
			if (m == fits) != p.skips {
				break // limits apply if any reading matches, exemptions only if all do
			}
		}
		e.Policies = append(e.Policies, c)
	}
}

// explainNumbers explains the limits of rule r whose maximums come from claims.
func (e *Explanation) explainNumbers(f *facts, r *Rule) {
	for i := range r.Claimed {
		l := &r.Claimed[i]
		if l.Claim == "" {
			continue
		}
		value := f.claim(l.Claim)
		n, wrong := l.number(value)
		why := fmt.Sprintf("the claim %s is %s", l.Claim, label.Short(value))
		switch {
		case value == "":
			why = "the request has no claim " + l.Claim + f.distrustedClaim(l.Claim)
		case wrong != "":
			why += ", which is " + wrong
		}
		e.Numbers = append(e.Numbers, Number{Rule: r.Name(), Limit: l.with(n), Claim: l.Claim, Why: why})
	}
}

func identityNames(who []*identity) []string {
	names := make([]string, len(who))
	for i, id := range who {
		names[i] = id.name
	}
	return names
}

// distrusted returns a remark if the request has the header of a claim that identifies callers, but
// the claim was not accepted. Otherwise it returns "".
func (f *facts) distrusted(who []*identity) string {
	for _, id := range who {
		if id.kind == byClaim {
			if text := f.distrustedClaim(id.key); text != "" {
				return text
			}
		}
	}
	return ""
}

// distrustedClaim returns a remark if the request has the header of a claim that was not accepted.
// Otherwise it returns "".
func (f *facts) distrustedClaim(name string) string {
	header, ok := f.asserted[name]
	switch {
	case !ok || f.header(header) == "":
		return ""
	case f.resolver.Trusts(f.in.Peer):
		return fmt.Sprintf(" (%s is accepted only in a single line)", header)
	}
	return fmt.Sprintf(" (%s is accepted only from trusted proxies)", header)
}

func (c *clause) why(m miss) string {
	switch m {
	case fits:
		if c.when == nil {
			return "it takes all"
		}
		return "it matches by " + strings.Join(c.when.parts(), ", ")
	case missMethod:
		return "the method is not " + messages.OneOf(c.when.methods)
	case missPath:
		return "the path does not fit " + messages.OneOf(c.when.pathTexts())
	case missHost:
		return "the host is not " + messages.OneOf(c.when.hosts)
	case missHeader:
		return "the header does not fit: " + describe(c.when.headers)
	case missClaim:
		return "the claim does not fit: " + describe(c.when.claims)
	case missNetwork:
		return fmt.Sprintf("the client is not in %v", c.when.networks)
	case missUnless:
		return "its unless matches, by " + strings.Join(c.unless.parts(), ", ")
	}
	return ""
}

func describe(all []requirement) string {
	var texts []string
	for _, w := range all {
		if w.values == nil {
			texts = append(texts, "wants any "+w.name)
		} else {
			texts = append(texts, "wants "+w.name+" to be "+messages.OneOf(w.values))
		}
	}
	return strings.Join(texts, ", ")
}

// parts returns the names of the non-empty parts of a condition.
func (c *condition) parts() []string {
	var parts []string
	for _, part := range []struct {
		name string
		n    int
	}{
		{"method", len(c.methods)}, {"path", len(c.paths)}, {"host", len(c.hosts)},
		{"header", len(c.headers)}, {"claim", len(c.claims)}, {"network", len(c.networks)},
	} {
		if part.n > 0 {
			parts = append(parts, part.name)
		}
	}
	return parts
}

func (c *condition) pathTexts() []string {
	var texts []string
	for i := range c.paths {
		texts = append(texts, c.paths[i].Text)
	}
	return texts
}

// String describes the corrections. It returns "" if there are none.
func (a *after) String() string {
	if a == nil {
		return ""
	}
	var parts []string
	if a.header != "" {
		parts = append(parts, "budgets are settled by the response header "+a.header+a.debt())
	}
	if a.bytes > 0 {
		parts = append(parts, fmt.Sprintf("budgets are settled at a unit per %d bytes of response body%s", a.bytes, a.debt()))
	}
	for _, status := range a.refund {
		if status < 10 {
			parts = append(parts, fmt.Sprintf("everything is given back after a %dxx", status))
		} else {
			parts = append(parts, fmt.Sprintf("everything is given back after a %d", status))
		}
	}
	return strings.Join(parts, "; ")
}

// debt describes the maximum debt after settling. It returns "" if the maximum is the default.
func (a *after) debt() string {
	if a.maxDebt == 0 {
		return ""
	}
	return fmt.Sprintf(", with a debt of at most %d", a.maxDebt)
}
