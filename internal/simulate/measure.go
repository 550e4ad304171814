package simulate

import (
	"context"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/policy"
)

// add measures a request with its outcome.
func (r *recommender) add(in *policy.Input, o policy.Outcome) error {
	ctx := context.Background()
	r.request = stint.Request{}
	v, request := &r.verdict, &r.request
	if err := r.guard.Ask(in, v, request); err != nil || len(v.Results) == 0 {
		return err
	}
	request.Bans = nil
	r.needs = r.needs[:0]
	for i := range v.Results {
		result := &v.Results[i]
		r.needs = append(r.needs, r.needsOf(result.Subject, r.rules[result.Rule.Index].windows))
	}
	for {
		for i := range v.Results {
			contract.ClaimAt(&request.Claim, request.And,
				i).Limits = r.rules[v.Results[i].Rule.Index].limitsFor(r.needs[i])
		}
		decision, err := r.store.Take(ctx, *request)
		if err != nil {
			return err
		}
		if !decision.Allowed {
			if !r.markExceeded(v, &decision) {
				return nil // it costs more than any limit allows
			}
			continue // without the exact limits that denied it
		}
		if !decision.Repeat {
			r.count(v, request, &decision)
		}
		v.Decision = decision
		if follow := r.guard.Follow(ctx, v); follow != nil {
			follow(o)
		}
		return nil
	}
}

// idle replaces the limits of a rule that has no windows to measure.
var idle = []stint.Limit{stint.Per(largestMax, time.Minute)}

// limitsFor returns the limits that measure a subject with these needs: the large limit of each
// window, followed by the exact limits that are not exceeded.
func (m *ruleWindows) limitsFor(list []need) []stint.Limit {
	if len(m.windows) == 0 {
		return idle
	}
	exceeded := uint(0)
	for i := range list {
		if list[i].exceeded {
			exceeded |= 1 << i
		}
	}
	if limits, ok := m.limits[exceeded]; ok {
		return limits
	}
	var limits []stint.Limit
	for _, w := range m.windows {
		limits = append(limits, w.largeLimit)
	}
	for i, w := range m.windows {
		if exceeded&(1<<i) == 0 {
			limits = append(limits, w.exactLimit)
		}
	}
	m.limits[exceeded] = limits
	return limits
}

// needsOf returns the needs of a subject in some windows. If there are too many subjects, new ones
// are measured, but neither kept nor counted.
func (r *recommender) needsOf(subject string, windows []*window) []need {
	n := r.subjects[subject]
	if n == nil {
		n = &subjectNeeds{kept: len(r.subjects) < r.maxSubjects}
		if n.kept {
			r.subjects[strings.Clone(subject)] = n
		}
	}
	return n.of(windows)
}

// of returns the needs in the windows of a rule. It adds them if there are none.
func (n *subjectNeeds) of(windows []*window) []need {
	if len(windows) == 0 {
		return nil
	}
	for _, list := range n.rules {
		if list[0].window == windows[0].number {
			return list
		}
	}
	list := make([]need, len(windows))
	for i, w := range windows {
		list[i].window, list[i].kept = w.number, n.kept
	}
	n.rules = append(n.rules, list)
	return list
}

// markExceeded marks the exact limits that denied a request. It reports whether there are any.
func (r *recommender) markExceeded(v *policy.Verdict, decision *stint.Decision) bool {
	any := false
	r.eachWindow(v, decision, func(_ int, _ *window, n *need, _, exact *stint.Usage) {
		if exact != nil && exact.RetryAfter != 0 {
			n.exceeded, any = true, true
		}
	})
	return any
}

// count counts the usage after a request that was charged.
func (r *recommender) count(v *policy.Verdict, request *stint.Request, decision *stint.Decision) {
	r.eachWindow(v, decision, func(i int, w *window, n *need, large, exact *stint.Usage) {
		claim := contract.ClaimAt(&request.Claim, request.And, i)
		if claim.Cost == 0 || !n.kept {
			return
		}
		w.Requests++
		bucketMax := r.meter(claim, w, decision.Charge.At)
		largeMax := max(w.maxFor(large.Used), bucketMax)
		n.large = max(n.large, largeMax)
		index := r.scale.index(largeMax)
		w.large[index]++
		if exact != nil {
			exactMax := max(w.maxFor(exact.Used), bucketMax)
			n.exact = max(n.exact, exactMax)
			index = r.scale.index(exactMax)
		}
		w.exact[index]++ // if the exact maximum is unknown, it is at most the large one
	})
}

// meter adds a charged claim to its meter. It returns the smallest maximum whose burst admits it.
func (r *recommender) meter(claim *stint.Claim, w *window, at int64) int64 {
	if w.Burst == 1 {
		return 0
	}
	key := meterKey{claim.Subject, claim.Scope, w.number}
	m := r.meters[key]
	if m == nil {
		m = new(meter)
		key.subject, key.scope = strings.Clone(key.subject), strings.Clone(key.scope)
		r.meters[key] = m
	}
	return m.add(at, claim.Cost, time.Duration(w.Window).Microseconds(), w.Burst)
}

// settlingStore is the store of a recommender. It settles the meters along with the charges.
type settlingStore struct {
	Timeless
	recommender *recommender
}

// Amend implements [stint.Store]. A replay settles each request before the next one.
func (s settlingStore) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	changed, err := s.Timeless.Amend(ctx, c, a)
	if changed && a.Kind == stint.AmendSettle {
		for i := range 1 + len(c.And) {
			s.recommender.settle(contract.ClaimAt(&c.Claim, c.And, i), a.Cost)
		}
	}
	return changed, err
}

// settle changes the last charge of a claim in its meters. The name of the first limit identifies
// the rule of a claim.
func (r *recommender) settle(claim *stint.Claim, cost int64) {
	for i := range r.verdict.Results {
		own := contract.ClaimAt(&r.request.Claim, r.request.And, i)
		if own.Subject != claim.Subject || own.Scope != claim.Scope || own.Limits[0].Name != claim.Limits[0].Name {
			continue
		}
		for _, w := range r.rules[r.verdict.Results[i].Rule.Index].windows {
			if m := r.meters[meterKey{claim.Subject, claim.Scope, w.number}]; m != nil {
				m.amend(cost - claim.Cost)
			}
		}
	}
}

// eachWindow calls f for each window of each claim i with the usages of its two limits. The usage
// of the exact limit is nil if it is exceeded.
func (r *recommender) eachWindow(v *policy.Verdict, decision *stint.Decision,
	f func(i int, w *window, n *need, large, exact *stint.Usage),
) {
	usages := decision.Usages()
	for i := range v.Results {
		windows := r.rules[v.Results[i].Rule.Index].windows
		next := max(len(windows), 1) // after the large limits, or after idle
		for k, w := range windows {
			n, exact := &r.needs[i][k], (*stint.Usage)(nil)
			if !n.exceeded {
				exact = &usages[next]
				next++
			}
			f(i, w, n, &usages[k], exact)
		}
		usages = usages[next:]
	}
}

// maxFor returns the smallest maximum whose capacity is at least used.
func (w *window) maxFor(used int64) int64 { return (used + w.Burst - 1) / w.Burst }
