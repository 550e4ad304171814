package observe

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// Judged implements [policy.Observer]. What is denied, or would be but for shadow, is counted under the policy that does
// so, and all else under the request's route.
func (m *Monitor) Judged(_ context.Context, v *policy.Verdict, took time.Duration, err error) {
	in, page := shardOf(v), m.ledger.page(v.Set())
	m.timed(in, took)
	d := &v.Decision
	switch {
	case err != nil:
		m.ledger.ofVerdict(page, v).count(in, failure(err))
	case !d.Allowed:
		m.judgedNo(in, page, v)
	case v.Skipped != "":
		m.ledger.ofVerdict(page, v).count(in, skipped)
	default:
		m.offenders.trials.judged(in, v)
		why := allowance(d, len(v.Shadowed) > 0, len(v.Rules()) > 0)
		if why != shadowed {
			m.ledger.ofVerdict(page, v).count(in, why)
			return
		}
		rule := v.Shadowed[0]
		s := m.ledger.ofRule(page, rule)
		s.count(in, why)
		if !m.feed.full() {
			m.show(s, why, v.Subject(), onlyLimit(rule), d)
		}
	}
}

// judgedNo is Judged of a denial.
func (m *Monitor) judgedNo(in shard, page *page, v *policy.Verdict) {
	d := &v.Decision
	var s *series
	if rule := decisive(v); rule != nil && !d.Banned && !d.Unavailable {
		s = m.ledger.ofRule(page, rule)
	} else {
		s = m.ledger.ofVerdict(page, v)
	}
	why, subject := denial(d), v.Subject()
	m.denied(s, why, subject, s.count(in, why))
	if !m.feed.full() {
		m.show(s, why, subject, limitOf(v), d)
	}
}

// decisive is the rule of [policy.Verdict.Decisive], which need not be looked for if there is one.
func decisive(v *policy.Verdict) *policy.Rule {
	if rules := v.Rules(); len(rules) == 1 {
		return rules[0]
	}
	rule, _ := v.Decisive()
	return rule
}

// limitOf is the limit that matters most; nil if there is none.
func limitOf(v *policy.Verdict) *stint.Limit {
	rule, state := v.Decisive()
	if rule == nil {
		return nil
	}
	return state.Limit
}

// onlyLimit is that of a rule with one. Which of several had no room is not known of rules in shadow.
func onlyLimit(r *policy.Rule) *stint.Limit {
	if len(r.Limits) != 1 {
		return nil
	}
	return &r.Limits[0]
}

// Timed counts how long it took to come to what [Monitor.Ruled] was told of without a time: several rulings at once.
func (m *Monitor) Timed(took time.Duration) { m.timed(shardOf(&took), took) }

// timed counts how long a decision took, if that is known.
func (m *Monitor) timed(in shard, took time.Duration) {
	if took >= 0 {
		m.decisions.add(in, took)
	}
}

// denied tells the list of offenders of the nth denial of its kind.
func (m *Monitor) denied(s *series, why reason, subject string, nth int64) {
	if why != unavailable {
		m.offenders.add(subject, s.name.policy, m.clock.now(), nth)
	}
}

// show adds a denial to the feed, or what would be one but for shadow. The limit is kept for a second; nil if none is
// known.
func (m *Monitor) show(s *series, why reason, subject string, limit *stint.Limit, d *stint.Decision) {
	if d.Banned || d.Unavailable { // for which no limit is to blame
		limit = nil
	}
	switch {
	case why != deniedDegraded:
	case d.Banned:
		why = banned
	default:
		why = overLimit
	}
	m.feed.add(event{
		at: time.Now(), subject: subject, tier: s.name.tier, policy: s.name.policy, limit: limit,
		reason: why.String(), retryAfter: d.RetryAfter, degraded: d.Degraded,
	})
}

// clock is a clock that is right to the second, and costs nothing to read.
type clock struct{ at atomic.Pointer[time.Time] }

func (c *clock) set(now time.Time) { c.at.Store(&now) }
func (c *clock) now() time.Time    { return *c.at.Load() }

// Ruling is a decision that no guard has made.
type Ruling struct {
	// Tier and Policy are what it is counted under. They are from the configuration, never from a request.
	Tier, Policy string
	// Subject is whom it is about, and Limit the one that matters most, which must not change; nil if there is none.
	Subject string
	Limit   *stint.Limit
	// Decision is what was decided, unless Err says why nothing was.
	Decision stint.Decision
	Err      error
	// Shadowed says that it would have been denied, but for shadow.
	Shadowed bool
	// Took is how long it took, or [policy.Untimed].
	Took time.Duration
}

// Ruled counts a decision that no guard has made: about one of Envoy's descriptors, for instance. The ruling is not kept.
func (m *Monitor) Ruled(r *Ruling) {
	s := m.ledger.get(seriesName{tier: clean(r.Tier), policy: clean(r.Policy)})
	in := shardOf(r)
	m.timed(in, r.Took)
	switch d := &r.Decision; {
	case r.Err != nil:
		s.count(in, failure(r.Err))
	case !d.Allowed:
		why := denial(d)
		m.denied(s, why, r.Subject, s.count(in, why))
		m.show(s, why, r.Subject, r.Limit, d)
	default:
		why := allowance(d, r.Shadowed, r.Limit != nil)
		s.count(in, why)
		m.offenders.trials.rules(in, r, why)
		if why == shadowed {
			m.show(s, why, r.Subject, r.Limit, d)
		}
	}
}
