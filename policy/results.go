package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// ask fills in the question to the store about a request, and everything in the verdict that is
// known before the answer. It returns the terms of the request. The application may act on any
// reading of a request that has several, so the limits of all readings are enforced.
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
	v.Cost, v.after = only.cost, only.after
	if only.atLeast {
		joined := after{}
		if v.after != nil {
			joined = *v.after
		}
		joined.atLeast = true
		v.after = &joined
	}
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
	r.Claims, r.Hold = v.claims, only.hold // a store does not keep the claims
	r.ID, r.IDLife = only.id.of(f, v, who)
	r.Bans, r.Failure = only.bans, only.failure
	return only
}

// askReading adds the rules that limit one reading of a request, and returns the subject and the
// terms of the reading.
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

// add adds the rules of a tier or policy that are not in the results yet. Enforced results come
// before those in shadow.
func (v *Verdict) add(f *facts, u *unit, rules []*Rule, who asker, scope string) {
	shadow := !v.enforceAll && !u.enforced(who.subject)
	for _, rule := range rules {
		if len(f.others) > 0 && v.has(rule, who.subject, scope) {
			continue
		}
		if shadow && len(v.Results)-v.enforced == stint.MaxClaims {
			continue // enough for a report
		}
		result := Result{Rule: rule, Shadow: shadow, Claim: stint.Claim{
			Subject: who.subject, Scope: scope, Limits: rule.limitsOf(f, who.subject, v.overrides), Cost: 1,
			Shared: who.by.shared(f),
		}}
		if shadow || v.enforced == len(v.Results) {
			v.Results = append(v.Results, result)
		} else {
			v.Results = slices.Insert(v.Results, v.enforced, result)
		}
		if !shadow {
			v.enforced++
		}
	}
}

// has reports whether the results contain a rule for a subject and scope.
func (v *Verdict) has(rule *Rule, subject, scope string) bool {
	return slices.ContainsFunc(v.Results, func(r Result) bool {
		return r.Rule == rule && r.Subject == subject && r.Scope == scope
	})
}

// none is the limit that denies requests with more readings than can be judged.
var none = []stint.Limit{{Name: "readings", Max: 0, Window: time.Minute}}

// keepFew denies a request that has too many readings, or whose readings have more limits than fit
// in one question. No client sends such a request by accident.
func (s *Set) keepFew(f *facts, v *Verdict) {
	n := 0
	for i := range v.Results[:v.enforced] {
		n += len(v.Results[i].Limits)
	}
	if !f.tooMany && v.enforced <= stint.MaxClaims && n <= stint.MaxTotal {
		return
	}
	if v.enforced == 0 && !s.refuse(f, v) {
		return
	}
	v.Results = slices.Delete(v.Results, 1, v.enforced)
	v.Results[0].Limits, v.enforced = none, 1
}

// refuse adds an enforced result for a request without any, because one of its missing readings may
// be limited. The result has the first rule that is enforced for the caller. It reports false if
// there is no such rule.
func (s *Set) refuse(f *facts, v *Verdict) bool {
	f.look(0)
	_, who := s.tierOf(f)
	for _, rule := range s.rules {
		if v.enforceAll || rule.unit.enforced(who.subject) {
			v.Results = slices.Insert(v.Results, 0, Result{Rule: rule, Claim: stint.Claim{
				Subject: who.subject, Cost: 1, Shared: who.by.shared(f)}})
			v.enforced = 1
			return true
		}
	}
	return false
}

// keepStrictest keeps only the strictest of the limits that share a count, as limits of two tiers
// do, because a request names each count once.
func (v *Verdict) keepStrictest() {
	all := slices.Clone(v.Results)
	v.Results = v.Results[:0]
	enforced := all[:v.enforced]
	for i, r := range enforced {
		kept := make([]stint.Limit, 0, len(r.Limits))
		for _, l := range r.Limits {
			if isStrictest(&l, i, enforced) {
				kept = append(kept, l)
			}
		}
		if r.Limits = kept; len(kept) > 0 {
			v.Results = append(v.Results, r)
		}
	}
	v.enforced, v.Results = len(v.Results), append(v.Results, all[v.enforced:]...)
}

// isStrictest reports whether l, a limit of the ith result, admits the least in the long run among
// the limits that share its count. If another one has a smaller burst, l gets that burst.
func isStrictest(l *stint.Limit, i int, results []Result) bool {
	atOnce := l.Capacity()
	for j := range results {
		if j == i || results[j].Subject != results[i].Subject || results[j].Scope != results[i].Scope {
			continue
		}
		for k := range results[j].Limits {
			m := &results[j].Limits[k]
			if !contract.SameID(m, l) {
				continue
			}
			if cmp.Or(cmp.Compare(m.Max, l.Max), cmp.Compare(j, i)) < 0 {
				return false
			}
			atOnce = min(atOnce, m.Capacity())
		}
	}
	if atOnce < l.Capacity() {
		if l.Algorithm == stint.AlgorithmSliding {
			atOnce -= atOnce % l.Max // its burst must be a multiple of Max
		}
		l.Burst = atOnce
	}
	return true
}
