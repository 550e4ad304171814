package policy

import "github.com/stint-limiter/stint"

// question is what a request comes to: what to ask the store.
type question struct {
	request stint.Request // without claims if nothing limits it
	shadow  []shadowClaim
}

// shadowClaim is a rule that has no consequences.
type shadowClaim struct {
	rule  *Rule
	claim stint.Claim
}

// ask fills in the question to the store about a request, and in the verdict all that is known before the answer.
func (j *judge) ask(f *facts, v *Verdict, q *question) {
	if v.Skipped = j.exemptBy(f); v.Skipped != "" {
		return
	}
	t, who := j.tierOf(f)
	v.Tier = t.name

	var room [8]*policy
	matched := room[:0]
	var price *cost
	failure := t.failure
	said := false
	for _, p := range j.policies {
		if p.miss(f, t) != fits {
			continue
		}
		matched = append(matched, p)
		if v.Route == "" && p.when != nil {
			v.Route = p.name
		}
		if price == nil {
			price = p.cost
		}
		if v.after == nil {
			v.after = p.after
		}
		if !said && p.failure != nil {
			failure, said = p.failure, true
		}
	}
	v.Cost = price.of(f)

	route := v.Route
	if route == "" {
		route = otherScope
	}
	v.rules = v.ruleRoom[:0]
	q.request.And = v.andRoom[:0]
	q.add(v, &t.unit, t.rules, who, t.scopeOf(route))
	for _, p := range matched {
		if r := p.rules[t.index]; r.requests != nil || r.costs != nil {
			q.add(v, &p.unit, r, p.asker(f, who), p.scope(f, route))
		}
	}
	if j.requestID != "" {
		if id := f.header(j.requestID); id != "" {
			q.request.ID, q.request.IDLife = requestID(id), j.requestIDLife
		}
	}
	q.request.Bans = t.bans
	q.request.Failure = failure
}

// add adds the claims of a tier's or policy's rules.
func (q *question) add(v *Verdict, u *unit, rules rules, who asker, scope string) {
	enforced := u.enforced(who.subject)
	for _, r := range [...]*Rule{rules.requests, rules.costs} {
		if r == nil {
			continue
		}
		c := stint.Claim{
			Subject: who.subject, Scope: scope, Limits: r.Limits, Cost: 1,
			Shared: who.by.kind == byNothing,
		}
		if r.Costs {
			c.Cost = v.Cost
		}
		switch {
		case !enforced:
			q.shadow = append(q.shadow, shadowClaim{r, c})
		case len(v.rules) == 0:
			q.request.Claim = c
			v.rules = append(v.rules, r)
		default:
			q.request.And = append(q.request.And, c)
			v.rules = append(v.rules, r)
		}
	}
}

// requestID is the ID of a request that a header names.
func requestID(value string) string {
	if len(value) <= maxIdentifier {
		return value
	}
	b, _ := appendIdentifier(nil, value, false)
	return string(b)
}
