package observe

import (
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

// Observe implements [stint.Observer]. It counts the events from guards, the Envoy service, stacks
// and outbound registries.
//
// A decision is counted once, where it was requested: by a guard, by the Envoy service, or for an
// outbound call. The decision of the underlying stack is not counted again. For stacks that
// limiters use directly, see [Monitor.StackObserver].
func (m *Monitor) Observe(_ context.Context, event stint.Event) {
	switch e := event.(type) {
	case *policy.Verdict:
		m.verdict(e)
	case *policy.Threshold:
		m.reached.add(e, m.names)
	case *policy.Settlement:
		m.settlement(e)
	case *resilience.Decided:
		m.decided(e)
	case *resilience.StoreCall:
		m.storeCalled(e)
	case *resilience.BreakerChange:
		m.store.breaker.Store(int32(max(slices.Index(breakerStates[:], e.To), 0)))
		m.watch.breaker(e.To, time.Now())
	case *outbound.Call:
		m.called(e)
	case *outbound.Cooldown:
		m.outbound.get(clean(e.API)).cooldowns.Add(1)
	}
}
