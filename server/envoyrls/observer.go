package envoyrls

import rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

// Outcome is what became of a descriptor.
type Outcome uint8

const (
	// Within is a descriptor with room under its limit.
	Within Outcome = iota
	// Over is one without.
	Over
	// Shadowed is one without room that is let through because its limit is in shadow mode.
	Shadowed
	// Unlimited is one whose limit is that there is none.
	Unlimited
	// Unmatched is one that no limit is configured for, or whose limit another one replaces.
	Unmatched
)

// Observer is told what becomes of descriptors. It is called while Envoy waits, by many goroutines at once.
type Observer interface {
	// Decided is called once for each descriptor of each request that was answered. The rule is where its limit stands in
	// the configuration, such as "messaging.to_number", or for limits that requests bring along the domain and
	// "(override)"; it is "" for descriptors that are Unmatched. It never holds what only a request says, so it can be a
	// label. Hits are negative for a refund.
	Decided(rule string, hits int64, o Outcome)
}

// observe tells the observer what was decided.
func (s *Service) observe(c *call) {
	for i := range c.items {
		it, rule := &c.items[i], ""
		if it.rule != nil {
			rule = it.rule.key
		}
		hits := it.hits
		if it.refund {
			hits = -hits
		}
		s.options.Observer.Decided(rule, hits, it.outcome())
	}
}

// outcome is what an observer hears of an item.
func (it *item) outcome() Outcome {
	switch {
	case it.rule == nil:
		return Unmatched
	case it.rule.unlimited:
		return Unlimited
	case !it.over:
		return Within
	case it.code() == rlsv3.RateLimitResponse_OK:
		return Shadowed
	}
	return Over
}
