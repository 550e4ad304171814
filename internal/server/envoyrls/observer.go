package envoyrls

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

const tier = "envoy"

// observe sends the observer a [*policy.Verdict] for each descriptor of a decided request, or a
// single verdict if the request could not be decided. Only the first verdict of a request contains
// the time that the request took.
//
// The Route of a verdict and the policy of its rule are the path of the limit in the configuration,
// such as "messaging.to_number". For a limit that the request contains, they are the domain
// followed by "(override)". If no limit matched, the Route is "". These names never contain values
// from a request, so they can be used as labels. There is no verdict for descriptors with negative
// hits.
func (s *Service) observe(ctx context.Context, c *call, took time.Duration, err error) {
	if s.options.Observer == nil {
		return
	}
	v := &c.verdict
	if err != nil {
		*v = policy.Verdict{Tier: tier, Took: took, Err: err}
		s.options.Observer.Observe(ctx, v)
		return
	}
	for i := range c.items {
		it := &c.items[i]
		if it.refund {
			continue
		}
		shadow := s.options.ShadowMode || it.rule != nil && it.rule.shadow
		*v = policy.Verdict{Tier: tier, Cost: it.hits, Took: took, Results: v.Results[:0], Decision: stint.Decision{
			Allowed: !it.over || shadow, Degraded: it.degraded, Unavailable: it.unavailable,
		}}
		took = 0
		if it.rule != nil {
			v.Route = it.rule.key
		}
		if it.counted() {
			v.Decision.RetryAfter = it.usage.RetryAfter
			rule := &it.rule.observed[s.options.Window]
			v.Results = append(v.Results, policy.Result{
				Rule: rule, Claim: stint.Claim{Subject: it.subject, Limits: rule.Limits, Cost: it.hits},
				Usages: c.usage[:1], Denied: it.over, Shadow: shadow,
			})
			c.usage[0] = it.usage
		}
		s.options.Observer.Observe(ctx, v)
	}
}
