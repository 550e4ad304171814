package policy

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// add adds results for the rules of a tier or policy, except for results that v already has. It
// puts enforced results before results in shadow.
func (v *Verdict) add(f *facts, u *unit, rules []*Rule, who asker, scope string) {
	shadow := !v.enforceAll && !u.enforced(who.subject)
	for _, rule := range rules {
		if len(f.others) > 0 && v.has(rule, who.subject, scope) {
			continue
		}
		if shadow && len(v.Results)-v.enforced == stint.MaxClaims {
			continue
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

func (v *Verdict) has(rule *Rule, subject, scope string) bool {
	return slices.ContainsFunc(v.Results, func(r Result) bool {
		return r.Rule == rule && r.Subject == subject && r.Scope == scope
	})
}

// enforceAll is the value of unit.enforce if the rules are enforced for all subjects. Rules in
// rollout have a lower value, and rules in shadow have 0.
const enforceAll = 1 << 20

// enforced reports whether the unit's limits are enforced for a subject. All processes choose the
// same subjects, and the choice never changes. If the share grows, subjects are only added.
func (u *unit) enforced(subject string) bool {
	if u.enforce == enforceAll || u.enforce == 0 {
		return u.enforce != 0
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, u.name+"\x00"+subject)
	// Mix the bits: the last byte hardly affects the high bits of FNV, so subjects that differ only
	// in their last letter would be chosen together.
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	return uint32(sum>>44) < u.enforce
}

// none replaces the limits of a request that has too many readings or limits, so that the request
// is denied.
var none = []stint.Limit{{Name: "readings", Max: 0, Window: time.Minute}}

// keepFew denies a request that has too many readings, or whose readings have more limits than fit
// in one request to the store. No client sends such a request by accident. If no rule is enforced
// for the caller, keepFew does nothing.
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

// refuse adds an enforced result to v, the verdict on a request that has too many readings. Without
// one, the request could not be denied, although one of the missing readings may be limited. The
// result has the first rule that is enforced for the caller. refuse reports false if there is no
// such rule.
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

// keepStrictest removes limits that share a count with a stricter one, because a request to the
// store may contain each count only once. For example, limits of two tiers can share a count.
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

// isStrictest reports whether l, a limit of result i, is the first limit with the lowest Max among
// the limits that share its count. If it is, and another of these limits has a smaller capacity,
// isStrictest lowers the burst of l to that capacity.
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
			atOnce -= atOnce % l.Max // the burst of a sliding limit must be a multiple of Max
		}
		l.Burst = atOnce
	}
	return true
}
