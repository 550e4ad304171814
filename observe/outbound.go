package observe

import (
	"errors"
	"sync/atomic"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
)

// calls are those to one of other people's APIs.
type calls struct {
	api       string
	series    *series
	waits     *histogram
	cooldowns atomic.Int64
}

// newCalls returns the counters of an API, whose series is among all others.
func newCalls(l *ledger) func(api string) *calls {
	return func(api string) *calls {
		return &calls{api: api, waits: newHistogram(),
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

// WatchOutbound has the monitor ask [outbound.Registry.Stats] for what no event says: how many
// calls wait.
func (m *Monitor) WatchOutbound(stats func() []outbound.Stats) { m.outboundStats.Store(&stats) }

// Outbound returns what became of calls to other people's APIs, if it was given to
// [Monitor.WatchOutbound].
func (m *Monitor) Outbound() []outbound.Stats {
	stats := m.outboundStats.Load()
	if stats == nil {
		return nil
	}
	return (*stats)()
}

// waiting returns how many callers wait for each API.
func (m *Monitor) waiting() map[string]int64 {
	waiting := map[string]int64{}
	for _, s := range m.Outbound() {
		waiting[s.Name] = s.Waiting
	}
	return waiting
}
