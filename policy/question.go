package policy

import "github.com/stint-limiter/stint"

// ask fills in the question to the store about a request, and in the verdict all that is known before the answer.
func (j *judge) ask(f *facts, v *Verdict, r *stint.Request) {
	if i := j.exemptBy(f); i >= 0 {
		v.Skipped, v.slot = j.exempt[i].name, j.skippedSlot(i)
		return
	}
	t, who := j.tierOf(f)
	v.who, f.last = who.subject, who.subject
	v.Tier, v.slot = t.name, j.slot(t, noRoute)

	var room [8]*policy
	matched := room[:0]
	only := terms{failure: t.failure, id: j.id}
	for i, p := range j.policies {
		if p.miss(f, t) != fits {
			continue
		}
		matched = append(matched, p)
		if v.Route == "" && p.when.isRoute() {
			v.Route, v.slot = p.name, j.slot(t, i)
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
	r.And = v.andRoom[:0]
	v.add(r, f, &t.unit, t.rules, who, t.scopeOf(route))
	for _, p := range matched {
		if own := p.rules[t.index]; own.requests != nil || own.costs != nil {
			v.add(r, f, &p.unit, own, p.askerIn(f, who), p.scope(f, route))
		}
	}
	if r.ID = only.id.of(f, who.subject); r.ID != "" {
		r.IDLife = only.id.life
	}
	r.Bans = t.bans
	r.Failure = only.failure
}

// add adds the claims of a tier's or policy's rules.
func (v *Verdict) add(to *stint.Request, f *facts, u *unit, rules rules, who asker, scope string) {
	enforced := v.enforceAll || u.enforced(who.subject)
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
			v.pending = append(v.pending, shadowClaim{r, c})
		case len(v.rules) == 0:
			to.Claim = c
			v.rules = append(v.rules, r)
		default:
			to.And = append(to.And, c)
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
