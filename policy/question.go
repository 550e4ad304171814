package policy

import "github.com/stint-limiter/stint"

// question is what a request comes to: what to ask the store.
type question struct {
	request stint.Request // without claims if nothing limits it
	id      *requestID    // how the request may name itself
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
	only := terms{failure: t.failure, id: j.id}
	for _, p := range j.policies {
		if p.miss(f, t) != fits {
			continue
		}
		matched = append(matched, p)
		if v.Route == "" && p.when.isRoute() {
			v.Route = p.name
		}
		only.add(p, f)
	}
	v.Cost, v.after = only.cost, only.after
	if !only.hasCost || v.Cost == 0 && v.after.settles() {
		v.Cost = 1 // what is not charged cannot be settled
	}

	route := v.Route
	if route == "" {
		route = otherScope
	}
	v.rules = v.ruleRoom[:0]
	q.request.And = v.andRoom[:0]
	q.add(v, f, &t.unit, t.rules, who, t.scopeOf(route))
	for _, p := range matched {
		if r := p.rules[t.index]; r.requests != nil || r.costs != nil {
			q.add(v, f, &p.unit, r, p.asker(f, who), p.scope(f, route))
		}
	}
	q.id = only.id
	if q.request.ID = only.id.of(f, who.subject); q.request.ID != "" {
		q.request.IDLife = only.id.life
	}
	q.request.Bans = t.bans
	q.request.Failure = only.failure
}

// add adds the claims of a tier's or policy's rules.
func (q *question) add(v *Verdict, f *facts, u *unit, rules rules, who asker, scope string) {
	enforced := u.enforced(who.subject)
	for _, r := range [...]*Rule{rules.requests, rules.costs} {
		if r == nil {
			continue
		}
		c := stint.Claim{
			Subject: who.subject, Scope: scope, Limits: r.Limits, Cost: 1,
			Shared: who.by.shared(f),
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

// terms are what a request has only one of: each is what the first matching policy says that says anything.
type terms struct {
	cost    int64
	after   *after
	id      *requestID
	failure *stint.FailurePolicy

	hasCost, hasID, hasFailure bool
}

func (o *terms) add(p *policy, f *facts) {
	// Of two readings of a path nobody knows the right one; the dearest is not a bargain.
	if p.cost != nil && (!o.hasCost || f.count > 1) {
		o.cost, o.hasCost = max(o.cost, p.cost.of(f)), true
	}
	if o.after == nil {
		o.after = p.after
	}
	if p.id != nil && !o.hasID {
		o.id, o.hasID = p.id, true
	}
	if p.failure != nil && !o.hasFailure {
		o.failure, o.hasFailure = p.failure, true
	}
}
