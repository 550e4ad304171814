package observe

import (
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-limiter/stint/internal/errkind"
)

var _ prometheus.Collector = (*Monitor)(nil)

// collection is a scrape in progress.
type collection struct {
	ch    chan<- prometheus.Metric
	descs map[string]*prometheus.Desc
}

// Collect implements [prometheus.Collector]. No label value comes from a request, so clients cannot
// create arbitrary series.
func (m *Monitor) Collect(ch chan<- prometheus.Metric) {
	c := &collection{ch, m.descs}
	for name, s := range m.ledger.all() {
		if !name.outbound {
			c.series(s)
		}
	}
	for name, count := range m.lost.all() {
		c.counter("settlements_lost_total", count.Load(), name.tier, name.policy, name.op, name.reason)
	}
	for name, units := range m.cuts.all() {
		c.counter("settlement_units_lost_total", units.Load(), name.tier, name.policy)
	}
	for name, count := range m.reached.counts.all() {
		c.counter("thresholds_total", count.Load(), name.tier, name.policy, strconv.Itoa(name.percent))
	}
	for _, w := range slices.Concat(m.reached.webhooks, m.alerts.webhooks) {
		c.counter("webhook_messages_total", w.posted.Load(), w.name, "posted")
		c.counter("webhook_messages_total", w.failed.Load(), w.name, "failed")
		c.counter("webhook_messages_total", w.dropped.Load(), w.name, "dropped")
		c.gauge("webhook_waiting", float64(len(w.queue)), w.name)
	}
	for name, h := range m.holds.all() {
		c.counter("holds_settled_total", h.settled.Load(), name.tier, name.policy)
		c.counter("holds_expired_total", h.expired.Load(), name.tier, name.policy)
		c.counter("usage_estimated_total", h.estimated.Load(), name.tier, name.policy)
		c.seconds("settlement_delay_seconds_total", h.delay.Load(), name.tier, name.policy)
	}
	c.histogram("decision_duration_seconds", m.decisions)
	c.storeCounters(m.store)
	health := m.watch.health()
	c.storeHealth(&health)
	for source, r := range m.reloads.all() {
		c.source(source, r)
	}
	waiting := map[string]int64{} // numbers of waiting calls, by API
	for _, s := range m.Outbound() {
		waiting[s.Name] = s.Waiting
	}
	for api, to := range m.outbound.all() {
		c.calls(api, to, waiting[api])
	}
	c.counter("log_dropped_total", m.logDropped())
	for _, a := range *m.lastAlerts.Load() {
		c.gauge("alert", truth(a.State == alertFiring), a.Name)
	}
	c.gauge("build_info", 1, m.version, runtime.Version())
}

func (c *collection) counter(name string, n int64, labels ...string) {
	c.ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.CounterValue, float64(n), labels...)
}

func (c *collection) seconds(name string, nanoseconds int64, labels ...string) {
	c.ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.CounterValue,
		time.Duration(nanoseconds).Seconds(), labels...)
}

func (c *collection) gauge(name string, value float64, labels ...string) {
	c.ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, value, labels...)
}

// histogram collects h with only the bounds 1, 2.5 and 5 of each decade, which are enough for
// graphs.
func (c *collection) histogram(name string, h *histogram, labels ...string) {
	b := h.snapshot()
	buckets := map[float64]uint64{}
	var below uint64
	for i, bound := range bounds {
		below += uint64(b[i])
		if step := steps[i%stepsPerDecade]; step == 100 || step == 250 || step == 500 {
			buckets[bound.Seconds()] = below
		}
	}
	count := below + uint64(b[boundCount])
	c.ch <- prometheus.MustNewConstHistogram(c.descs[name], count, h.sum().Seconds(), buckets, labels...)
}

// series collects the counts of all reasons that have occurred. It always collects those of
// overLimit and within, because Prometheus can compute a rate only if the series exists before its
// first event.
func (c *collection) series(s *series) {
	for r := range reasonCount {
		if n := s.tally.sum(int(r)); n > 0 || r == within || r == overLimit {
			c.counter("decisions_total", n, s.name.tier, s.name.policy, r.outcome(), r.String())
		}
	}
}

func (c *collection) storeCounters(s *storeCounters) {
	for op, name := range storeOps {
		if op == len(storeOps)-1 && s.calls[op].tally.sum(sumIndex) == 0 {
			continue // omit "other" until there is such a call
		}
		c.histogram("store_call_duration_seconds", s.calls[op], name)
		for kind := range s.errors[op] {
			c.counter("store_errors_total", s.errors[op][kind].Load(), name, errkind.Kinds[kind].String())
		}
	}
	c.counter("store_requests_total", s.carried.Load())
	for mode, name := range fallbackModes {
		c.counter("fallback_decisions_total", s.fallbacks.sum(mode), name)
	}
	for by, name := range savers {
		c.counter("saved_decisions_total", s.saved.sum(by), string(name))
	}
	for state, name := range breakerStates {
		c.gauge("breaker_state", truth(int(s.breaker.Load()) == state), string(name))
	}
}

// storeHealth collects the metrics that exist for the kind of store in h. It omits values that may
// be out of date.
func (c *collection) storeHealth(h *StoreHealth) {
	c.gauge("store_up", truth(h.Up))
	if h.Instances > 0 {
		c.gauge("instances", float64(h.Instances))
	}
	switch h.Kind {
	case "memory":
		c.gauge("subjects", float64(h.Subjects))
		c.gauge("memory_bytes", float64(h.Bytes))
		c.gauge("memory_max_bytes", float64(h.MaxBytes))
	case "redis":
		c.gauge("redis_up", truth(h.Up && h.Redis != nil))
	}
	if r := h.Redis; h.fresh(time.Now()) {
		c.gauge("redis_ops_per_second", r.OpsPerSecond)
		c.gauge("redis_memory_bytes", float64(r.UsedMemory))
		c.gauge("redis_memory_max_bytes", float64(r.MaxMemory))
		c.gauge("redis_memory_share", r.MemoryShare)
		c.gauge("redis_cpu_share", r.CPUShare)
		c.counter("redis_evicted_keys_total", r.Evicted)
		c.counter("redis_clock_steps_total", r.ClockSteps)
		c.gauge("redis_clients", float64(r.Clients))
		c.gauge("redis_keys", float64(r.Keys))
	}
}

func (c *collection) source(name string, r *reloads) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.counter("config_reloads_total", r.changed, name, "changed")
	c.counter("config_reloads_total", r.unchanged, name, "unchanged")
	c.counter("config_reloads_total", r.refused, name, "refused")
	c.gauge("config_last_reload_success", truth(!r.bad), name)
	if !r.expires.IsZero() {
		c.gauge("certificate_expires_timestamp_seconds", float64(r.expires.Unix()), name)
	}
	if r.fingerprint != "" {
		c.gauge("config_info", 1, name, r.fingerprint)
	}
	if !r.good.IsZero() {
		c.gauge("config_last_reload_timestamp_seconds", float64(r.good.UnixMilli())/1000, name)
	}
}

func (c *collection) calls(api string, to *calls, waiting int64) {
	n := to.series.tally.counts()
	c.counter("outbound_calls_total", n.Allowed, api, allowedOutcome)
	c.counter("outbound_calls_total", n.Denied, api, deniedOutcome)
	c.counter("outbound_calls_total", n.Failed, api, failedOutcome)
	c.histogram("outbound_wait_seconds", to.waits, api)
	c.gauge("outbound_waiting", float64(waiting), api)
	c.counter("outbound_cooldowns_total", to.cooldowns.Load(), api)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
