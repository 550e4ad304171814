package envoyrls

import (
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint"
)

// Outcome is what became of a descriptor.
type Outcome uint8

const (
	// Within is a descriptor with room under its limit.
	Within Outcome = iota
	// Over is one without.
	Over
	// Shadowed is one without room that is let through because its limit, or everything, is in shadow mode.
	Shadowed
	// Unlimited is one whose limit is that there is none.
	Unlimited
	// Unmatched is one that no limit is configured for, or whose limit another one replaces.
	Unmatched
)

// Observer is told what becomes of requests and their descriptors. It is called while Envoy waits, by many goroutines at
// once.
type Observer interface {
	// Decided is called once for each descriptor of each request that was decided. The descriptor must not be kept.
	Decided(d *Descriptor)
	// Answered follows every request that could be read: how long it took, and the error if it could not be decided.
	Answered(took time.Duration, err error)
}

// Descriptor is a descriptor with what became of it.
type Descriptor struct {
	// Rule is where its limit stands in the configuration, such as "messaging.to_number", or for limits that requests bring
	// along the domain and "(override)"; it is "" for descriptors that are Unmatched. It never holds what only a request
	// says, so it can be a label.
	Rule string
	// Hits are negative for a refund.
	Hits    int64
	Outcome Outcome
	// Subject is its counter, in which is what the request says. It is "" without a limit.
	Subject string
	// Limit must not be changed; nil if there is none. RetryAfter is how long it has no room for the hits, or [stint.Never].
	Limit      *stint.Limit
	RetryAfter time.Duration
	// Degraded says that it was decided without the store, and Unavailable that it was denied for that alone.
	Degraded, Unavailable bool
}

// observe tells the observer what was decided.
func (s *Service) observe(c *call) {
	for i := range c.items {
		it := &c.items[i]
		d := Descriptor{Hits: it.hits, Outcome: it.outcome(), Degraded: it.degraded, Unavailable: it.unavailable}
		if it.refund {
			d.Hits = -d.Hits
		}
		if d.Outcome == Over && s.options.ShadowMode {
			d.Outcome = Shadowed
		}
		if it.rule != nil {
			d.Rule = it.rule.key
		}
		if it.counted() {
			d.Subject, d.Limit, d.RetryAfter = it.subject, &it.rule.limits[s.options.Window][0], it.usage.RetryAfter
		}
		s.options.Observer.Decided(&d)
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
