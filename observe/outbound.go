package observe

import (
	"errors"
	"sync/atomic"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
)

type calls struct {
	series    *series
	waits     *histogram
	cooldowns atomic.Int64
}

// newCalls returns a function that creates the counters of an API, including its series in the
// ledger.
func newCalls(l *ledger) func(api string) *calls {
	return func(api string) *calls {
		return &calls{waits: newHistogram(),
			series: l.get(seriesName{tier: outboundTier, policy: api, outbound: true})}
	}
}

func (m *Monitor) called(e *outbound.Call) {
	c := m.outbound.get(clean(e.API))
	why := within
	in := shardOf(&why)
	if e.Err != nil {
		why = failure(e.Err)
		if denied, ok := errors.AsType[*stint.DeniedError](e.Err); ok {
			why = denial(&stint.Decision{Banned: denied.Banned, Unavailable: denied.Unavailable})
		}
	}
	c.series.count(in, why)
	c.waits.add(in, e.Wait)
}

// WatchOutbound sets the function from which the monitor gets the number of waiting calls, which
// events do not contain. The function is usually [outbound.Registry.Stats].
func (m *Monitor) WatchOutbound(stats func() []outbound.Stats) { m.outboundStats.Store(&stats) }

// Outbound returns the statistics of calls to third-party APIs, or nil if [Monitor.WatchOutbound]
// was not called.
func (m *Monitor) Outbound() []outbound.Stats {
	stats := m.outboundStats.Load()
	if stats == nil {
		return nil
	}
	return (*stats)()
}
