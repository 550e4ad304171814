package observe

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-limiter/stint/internal/errkind"
)

var _ prometheus.Collector = (*Monitor)(nil)

// collection is a scrape under way.
type collection struct {
	ch chan<- prometheus.Metric
	*metrics
}

// Collect implements [prometheus.Collector]. Labels are names from the configuration and words of
// this module, never what a request says.
func (m *Monitor) Collect(ch chan<- prometheus.Metric) {
	c := &collection{ch, m.metrics}
	for _, s := range m.ledger.all() {
		if !s.name.outbound {
			c.series(s)
			c.lost(s)
		}
	}
	c.histogram(c.decisionDuration, m.decisions)
	c.storeCounters(m.store)
	health := m.watch.health()
	c.storeHealth(&health)
	for _, r := range m.reloads.all() {
		c.source(r)
	}
	waiting := m.waiting()
	for _, to := range m.outbound.all() {
		c.calls(to, waiting[to.api])
	}
	for _, a := range *m.lastAlerts.Load() {
		c.gauge(c.alert, truth(a.State == alertFiring), a.Name)
	}
	c.gauge(c.buildInfo, 1, m.version, runtime.Version())
}

func (c *collection) counter(d *prometheus.Desc, n int64, labels ...string) {
	c.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (c *collection) gauge(d *prometheus.Desc, value float64, labels ...string) {
	c.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// histogram collects three bounds of each decade, which are enough for graphs: 1, 2.5 and 5.
func (c *collection) histogram(d *prometheus.Desc, h *histogram, labels ...string) {
	b := h.snapshot()
	buckets := map[float64]uint64{}
	var below uint64
	for i, bound := range bounds {
		below += uint64(b[i])
		if step := steps[i%stepsPerDecade]; step == 100 || step == 250 || step == 500 {
			buckets[bound.Seconds()] = below
		}
	}
	c.ch <- prometheus.MustNewConstHistogram(d, below+uint64(b[boundCount]), h.sum().Seconds(), buckets, labels...)
}

// series collects the reasons that there were, and the usual two always: a rate needs a series that
// exists before its first event.
func (c *collection) series(s *series) {
	for r := range reasonCount {
		if n := s.tally.sum(int(r)); n > 0 || r == within || r == overLimit {
			c.counter(c.decisions, n, s.name.tier, s.name.policy, r.outcome(), r.String())
		}
	}
}

func (c *collection) storeCounters(s *storeCounters) {
	for op, name := range storeOps {
		if op == len(storeOps)-1 && s.calls[op].tally.sum(sumIndex) == 0 {
			continue // there is no other
		}
		c.histogram(c.storeCallDuration, s.calls[op], name)
		for kind := range s.errors[op] {
			c.counter(c.storeErrors, s.errors[op][kind].Load(), name, errkind.Kinds[kind])
		}
	}
	c.counter(c.storeRequests, s.carried.Load())
	for mode, name := range fallbackModes {
		c.counter(c.fallbacks, s.fallbacks.sum(mode), name)
	}
	for by, name := range savers {
		c.counter(c.saved, s.saved.sum(by), name)
	}
	for state, name := range breakerStates {
		c.gauge(c.breakerState, truth(int(s.breaker.Load()) == state), name)
	}
}

// Kinds of stores; see [StoreHealth].
const (
	memoryKind = "memory"
	redisKind  = "redis"
)

// storeHealth collects the health of the store, as far as that applies to it, and nothing that may
// be out of date.
func (c *collection) storeHealth(h *StoreHealth) {
	c.gauge(c.storeUp, truth(h.Up))
	if h.Instances > 0 {
		c.gauge(c.instances, float64(h.Instances))
	}
	switch h.Kind {
	case memoryKind:
		c.gauge(c.subjects, float64(h.Subjects))
		c.gauge(c.memory, float64(h.Bytes))
		c.gauge(c.maxMemory, float64(h.MaxBytes))
	case redisKind:
		c.gauge(c.redisUp, truth(h.Up && h.Redis != nil))
	}
	if r := h.Redis; r != nil && h.Up {
		c.gauge(c.redisOps, r.OpsPerSecond)
		c.gauge(c.redisMemory, float64(r.UsedMemory))
		c.gauge(c.redisMaxMemory, float64(r.MaxMemory))
		c.counter(c.redisEvicted, r.Evicted)
		c.gauge(c.redisClients, float64(r.Clients))
		c.gauge(c.redisKeys, float64(r.Keys))
	}
}

func (c *collection) source(r *reloads) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.counter(c.reloads, r.changed, r.source, reloadChanged)
	c.counter(c.reloads, r.unchanged, r.source, reloadUnchanged)
	c.counter(c.reloads, r.refused, r.source, reloadRefused)
	c.gauge(c.reloadSuccess, truth(!r.bad), r.source)
	if !r.good.IsZero() {
		c.gauge(c.reloadTime, float64(r.good.UnixMilli())/float64(time.Second/time.Millisecond), r.source)
	}
}

func (c *collection) calls(to *calls, waiting int64) {
	n := to.series.tally.counts()
	c.counter(c.outboundCalls, n.Allowed, to.api, allowedOutcome)
	c.counter(c.outboundCalls, n.Denied, to.api, deniedOutcome)
	c.counter(c.outboundCalls, n.Failed, to.api, failedOutcome)
	c.histogram(c.outboundWait, to.waits, to.api)
	c.gauge(c.outboundWaiting, float64(waiting), to.api)
	c.counter(c.outboundCooldowns, to.cooldowns.Load(), to.api)
}

// truth returns 1 for true.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
