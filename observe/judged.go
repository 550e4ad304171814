package observe

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// Judged implements [policy.Observer]. What is denied is counted under the policy that denies it, and all else under the
// request's route.
func (m *Monitor) Judged(_ context.Context, v *policy.Verdict, took time.Duration, err error) {
	in, page := shardOf(v), m.ledger.page(v.Set())
	d := &v.Decision
	s, why := m.ledger.ofVerdict(page, v), within
	switch {
	case err != nil:
		why = failure(err)
	case !d.Allowed:
		why = denial(d)
		var limit *stint.Limit
		if rule, state := v.Decisive(); rule != nil && !d.Banned && !d.Unavailable {
			s, limit = m.ledger.ofRule(page, rule), state.Limit
		}
		m.violated(s, why, v.Subject(), limit, d)
	case v.Skipped != "":
		why = skipped
	default:
		why = allowance(d, len(v.Shadowed) > 0, len(v.Rules()) > 0)
		if why == shadowed {
			rule := v.Shadowed[0]
			m.violated(m.ledger.ofRule(page, rule), why, v.Subject(), &rule.Limits[0], d)
		}
	}
	s.count(in, why)
	m.timed(in, took)
}

// Timed counts how long it took to come to what [Monitor.Ruled] was told of without a time: several rulings at once.
func (m *Monitor) Timed(took time.Duration) { m.timed(shardOf(&took), took) }

// timed counts how long a decision took, if that is known.
func (m *Monitor) timed(in shard, took time.Duration) {
	if took >= 0 {
		m.decisions.add(in, took)
	}
}

// violated tells the feed and the list of offenders of a denial, or of what would be one but for shadow. The limit is kept
// for a second; nil if no limit is to blame.
func (m *Monitor) violated(s *series, why reason, subject string, limit *stint.Limit, d *stint.Decision) {
	if why != shadowed && why != unavailable {
		m.offenders.add(subject, s.name.policy, m.clock.now())
	}
	if m.feed.full() {
		return
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
	why := within
	switch {
	case r.Err != nil:
		why = failure(r.Err)
	case !r.Decision.Allowed:
		why = denial(&r.Decision)
	default:
		why = allowance(&r.Decision, r.Shadowed, r.Limit != nil)
	}
	if why == shadowed || why.outcome() == deniedOutcome {
		m.violated(s, why, r.Subject, r.Limit, &r.Decision)
	}
	in := shardOf(r)
	s.count(in, why)
	m.timed(in, r.Took)
}
