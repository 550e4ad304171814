package observe

import (
	"errors"
	"sync/atomic"
	"time"

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
		return &calls{api: api, waits: newHistogram(), series: l.get(seriesName{tier: outboundTier, policy: api, outbound: true})}
	}
}

// Called implements [outbound.Observer].
func (m *Monitor) Called(api string, wait time.Duration, err error) {
	c := m.outbound.get(clean(api))
	in, why := shardOf(&wait), within
	if err != nil {
		why = failure(err)
		if denied, ok := errors.AsType[*stint.DeniedError](err); ok {
			why = overLimit
			if denied.Banned {
				why = banned
			}
		}
	}
	c.series.count(in, why)
	c.waits.add(in, wait)
}

// CooledDown implements [outbound.Observer].
func (m *Monitor) CooledDown(api string, _ time.Duration) {
	m.outbound.get(clean(api)).cooldowns.Add(1)
}

// Told implements [outbound.Observer]. A store that cannot be told is counted by [Monitor.StoreCalled].
func (m *Monitor) Told(string, error) {}

// WatchOutbound has the monitor ask [outbound.Registry.Stats] for what it is not told of: how many calls wait.
func (m *Monitor) WatchOutbound(stats func() []outbound.Stats) { m.outboundStats.Store(&stats) }

// Outbound returns what became of calls to other people's APIs, as far as somebody tells: see [Monitor.WatchOutbound].
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
