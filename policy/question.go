package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// ask fills in the question to the store about a request, and in the verdict all that is known before the answer. Nobody
// knows what the application makes of a request that has several readings: what limits any of them is enforced.
func (j *judge) ask(f *facts, v *Verdict, r *stint.Request) {
	if i := j.exemptBy(f); i >= 0 {
		v.Skipped, v.slot = j.exempt[i].name, j.skippedSlot(i)
		return
	}
	v.rules = v.ruleRoom[:0]
	r.And = v.andRoom[:0]
	f.reading = f.first
	who, only := j.askReading(f, v, r)
	for _, f.reading = range f.others {
		_, further := j.askReading(f, v, r)
		only.join(&further)
	}
	if len(f.others) > 0 {
		v.keepStrictest(r)
		v.keepFew(r)
	}
	v.Cost, v.after = only.cost, only.after
	if v.Cost == 0 && v.after.settles() {
		v.Cost = 1 // what is not charged cannot be settled
	}
	for i, rule := range v.rules {
		if rule.Costs {
			r.ClaimAt(i).Cost = v.Cost
		}
	}
	for i := range v.pending {
		if s := &v.pending[i]; s.rule.Costs {
			s.claim.Cost = v.Cost
		}
	}
	if r.ID = only.id.of(f, who); r.ID != "" {
		r.IDLife = only.id.life
	}
	r.Bans, r.Failure = only.bans, only.failure
}

// askReading adds what limits one reading of a request, and returns who is asking and what else there is to say of it.
func (j *judge) askReading(f *facts, v *Verdict, r *stint.Request) (string, terms) {
	t, who := j.tierOf(f)
	f.before = who.subject
	var room [8]*policy
	matched := room[:0]
	only := terms{cost: 1, failure: t.failure, id: j.id, bans: t.bans}
	route, slot := otherScope, noRoute
	for i, p := range j.policies {
		if p.miss(f, t) != fits {
			continue
		}
		matched = append(matched, p)
		if slot == noRoute && p.when.isRoute() {
			route, slot = p.name, i
		}
		only.add(p, f)
	}
	if v.Tier == "" {
		v.who, v.Tier, v.slot = who.subject, t.name, j.slot(t, slot)
		if slot != noRoute {
			v.Route = route
		}
	}
	v.add(r, f, &t.unit, t.rules, who, t.scopeOf(route))
	for _, p := range matched {
		if own := p.rules[t.index]; own.requests != nil || own.costs != nil {
			v.add(r, f, &p.unit, own, p.askerIn(f, who), p.scope(f, route))
		}
	}
	return who.subject, only
}

// add adds the claims of a tier's or policy's rules, unless they are there already.
func (v *Verdict) add(to *stint.Request, f *facts, u *unit, rules rules, who asker, scope string) {
	enforced := v.enforceAll || u.enforced(who.subject)
	for _, r := range [...]*Rule{rules.requests, rules.costs} {
		if r == nil || len(f.others) > 0 && v.has(to, r, who.subject, scope) {
			continue
		}
		c := stint.Claim{
			Subject: who.subject, Scope: scope, Limits: r.Limits, Cost: 1,
			Shared: who.by.shared(f),
		}
		switch {
		case !enforced && len(v.pending) == stint.MaxClaims: // the rest has no consequences
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

// has reports whether a rule has been added for a subject and scope.
func (v *Verdict) has(to *stint.Request, r *Rule, subject, scope string) bool {
	for i, rule := range v.rules {
		if c := to.ClaimAt(i); rule == r && c.Subject == subject && c.Scope == scope {
			return true
		}
	}
	return slices.ContainsFunc(v.pending, func(s shadowClaim) bool {
		return s.rule == r && s.claim.Subject == subject && s.claim.Scope == scope
	})
}

// none is the limit of requests that have more readings than can be judged.
var none = []stint.Limit{{Name: "readings", Max: 0, Window: time.Minute}}

// keepFew denies a request whose readings are limited by more than one question can be about. Nobody sends such a one by
// accident.
func (v *Verdict) keepFew(r *stint.Request) {
	n := 0
	for _, rule := range v.rules {
		n += len(rule.Limits)
	}
	if len(v.rules) <= stint.MaxClaims && n <= stint.MaxTotal {
		return
	}
	denies := *v.rules[0]
	denies.Limits = none
	r.Limits, r.And, v.rules = none, nil, append(v.rules[:0], &denies)
}

// keepStrictest leaves of limits that share a count, as those of two tiers do, only the strictest: a request names each
// count once.
func (v *Verdict) keepStrictest(r *stint.Request) {
	rules, claims := slices.Clone(v.rules), make([]stint.Claim, len(v.rules))
	for i := range claims {
		claims[i] = *r.ClaimAt(i)
	}
	v.rules, r.And = v.rules[:0], r.And[:0]
	for i, c := range claims {
		rule := rules[i]
		kept := make([]stint.Limit, 0, len(c.Limits))
		for _, l := range c.Limits {
			if isStrictest(&l, i, claims) {
				kept = append(kept, l)
			}
		}
		if len(kept) == 0 {
			continue
		}
		if !slices.Equal(kept, c.Limits) {
			part := *rule
			part.Limits, c.Limits = kept, kept
			rule = &part
		}
		if len(v.rules) == 0 {
			r.Claim = c
		} else {
			r.And = append(r.And, c)
		}
		v.rules = append(v.rules, rule)
	}
}

// isStrictest reports whether a limit of the ith claim admits the least in the long run of those that share its count. If
// another one admits less at once, it gets that burst.
func isStrictest(l *stint.Limit, i int, claims []stint.Claim) bool {
	atOnce := l.Capacity()
	for j := range claims {
		if j == i || claims[j].Subject != claims[i].Subject || claims[j].Scope != claims[i].Scope {
			continue
		}
		for k := range claims[j].Limits {
			m := &claims[j].Limits[k]
			if !m.SameID(l) {
				continue
			}
			if cmp.Or(cmp.Compare(m.Max, l.Max), cmp.Compare(j, i)) < 0 {
				return false
			}
			atOnce = min(atOnce, m.Capacity())
		}
	}
	if atOnce < l.Capacity() {
		if l.Algorithm == stint.Sliding {
			atOnce -= atOnce % l.Max // its burst is a multiple
		}
		l.Burst = atOnce
	}
	return true
}

// terms are what a request has only one of: each is what the first matching policy says that says anything.
type terms struct {
	cost    int64
	after   *after
	id      *requestID
	failure *stint.FailurePolicy
	bans    *stint.BanPolicy

	hasCost, hasID, hasFailure bool
}

func (o *terms) add(p *policy, f *facts) {
	if p.cost != nil && !o.hasCost {
		o.cost, o.hasCost = p.cost.of(f), true
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

// join adds what is to be said of another reading: the highest cost, the strictest mode of failure, bans if either has them,
// a true cost if either has one, and only if both agree what gives something back.
func (o *terms) join(other *terms) {
	o.cost = max(o.cost, other.cost)
	o.after = o.after.join(other.after)
	if o.id != other.id {
		o.id = nil
	}
	if strictness[other.failure.Mode] > strictness[o.failure.Mode] {
		o.failure = other.failure
	}
	if o.bans == nil {
		o.bans = other.bans
	}
}

// strictness orders modes of failure.
var strictness = [...]int{stint.FailAllow: 0, stint.FailLocal: 1, stint.FailError: 2, stint.FailDeny: 3}
