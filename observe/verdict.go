package observe

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// verdict counts a decision. If a rule denied the request or, in shadow, would have denied it, the
// decision is counted under the rule's tier and policy. Otherwise, it is counted under the route of
// the request.
func (m *Monitor) verdict(v *policy.Verdict) {
	in := shardOf(v)
	if v.Took > 0 {
		m.decisions.add(in, v.Took)
	}
	if v.Err == nil && v.Decision.Allowed {
		m.offenders.suspects.allowed(v.Results)
		m.newcomers.allowed(v.Results)
	}
	var why reason
	switch n := len(v.Results); {
	case v.Err != nil:
		why = failure(v.Err)
	case !v.Decision.Allowed:
		m.denied(in, v)
		return
	case v.Skipped != "":
		why = skipped
	case n > 0 && v.Results[n-1].Shadow:
		m.shadowed(in, v)
		return
	default:
		why = allowance(&v.Decision, n > 0)
	}
	m.ledger.ofRoute(v).count(in, why)
}

// shadowed counts an allowed request for which rules in shadow were checked.
func (m *Monitor) shadowed(in shard, v *policy.Verdict) {
	m.offenders.shadow.verdict(in, v)
	var would *policy.Result // the first result that would have denied the request
	for i := range v.Results {
		if r := &v.Results[i]; r.Shadow && r.Denied {
			would = r
			break
		}
	}
	if would == nil || v.Decision.Degraded {
		// A verdict of the Envoy service has no Set. In such a verdict, limits in shadow count as
		// limits, too.
		limited := !v.Results[0].Shadow || v.Set == nil
		m.ledger.ofRoute(v).count(in, allowance(&v.Decision, limited))
		return
	}
	s := m.ledger.ofRule(would.Rule)
	s.count(in, shadowed)
	if !m.feed.full() {
		m.show(s, shadowed, v, would)
	}
}

func (m *Monitor) denied(in shard, v *policy.Verdict) {
	d := &v.Decision
	s, result := (*series)(nil), v.Decisive()
	if result != nil && !d.Banned && !d.Unavailable {
		s = m.ledger.ofRule(result.Rule)
	} else {
		s, result = m.ledger.ofRoute(v), nil // no limit denied the request
	}
	why := denial(d)
	nth := s.count(in, why)
	if why != unavailable {
		by := s.name.policy
		if by == "" && result != nil && s.name.tier != "" {
			by = "tier " + s.name.tier
		}
		m.offenders.add(v.Subject(), by, d.Banned, m.clock.now(), nth)
	}
	switch {
	case !m.offenders.flood.Load():
		m.denials.add(s, why, v, result, 1)
	case chosen(nth):
		m.denials.add(s, why, v, result, floodShare)
	}
	if !m.feed.full() {
		m.show(s, why, v, result)
	}
}

// show adds a request to the feed that was denied or, in shadow, would have been denied. result is
// the result that denies it, or nil if the cause is a ban or an unavailable store.
func (m *Monitor) show(s *series, why reason, v *policy.Verdict, result *policy.Result) {
	d := &v.Decision
	switch {
	case why != deniedDegraded:
	case d.Banned:
		why = banned
	default:
		why = overLimit
	}
	var limit stint.Limit
	if result != nil {
		limit = *result.Decisive().Limit
	}
	m.feed.add(violation{
		at: time.Now(), subject: v.Subject(), tier: s.name.tier, policy: s.name.policy, limit: limit,
		reason: why.String(), retryAfter: d.RetryAfter, degraded: d.Degraded,
	})
}
