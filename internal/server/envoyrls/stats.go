package envoyrls

import (
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats counts requests in Prometheus metrics with the names that envoyproxy/ratelimit uses, for
// dashboards that were made for that service. It has five series per configured limit, so it is off
// by default. If a descriptor is over its limit, all its hits count as over the limit.
type Stats struct {
	near float64

	requests, errors prometheus.Counter
	took             prometheus.Histogram
	loaded, refused  prometheus.Counter // numbers of configurations that were loaded and refused

	// These count hits, by domain and keys. They keep the counts of limits that are no longer
	// configured.
	total, over, nearLimit, within, shadow *prometheus.CounterVec
}

type counts struct{ total, over, near, within, shadow prometheus.Counter }

const statsPrefix = "ratelimit_service_"

// NewStats returns Stats with all counters at zero. near is a fraction of every limit; hits above
// this fraction count as near the limit.
func NewStats(near float64) *Stats {
	method := prometheus.Labels{"grpc_method": "ShouldRateLimit"}
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: statsPrefix + name, Help: help, ConstLabels: labels})
	}
	hits := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: statsPrefix + "rate_limit_" + name, Help: help},
			[]string{"domain", "key1", "key2"})
	}
	return &Stats{
		near:     near,
		requests: counter("total_requests", "Requests from Envoy.", method),
		errors: counter("should_rate_limit_error", "Requests that could not be decided.",
			prometheus.Labels{"err_type": "redis_error"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: statsPrefix + "response_time_seconds",
			Help: "Time until a request was decided.", ConstLabels: method}),
		loaded:  counter("config_load_success", "Configurations put in force.", nil),
		refused: counter("config_load_error", "Configurations refused.", nil),

		total:     hits("total_hits", "Hits."),
		over:      hits("over_limit", "Hits over the limit."),
		nearLimit: hits("near_limit", "Hits near the limit."),
		within:    hits("within_limit", "Hits within the limit."),
		shadow:    hits("shadow_mode", "Hits over a limit in shadow mode."),
	}
}

// address matches an IPv4 address. statLabels does not split an address at its dots.
var address = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// statLabels returns the domain and the first two keys of a limit. It splits the path of the limit
// at dots, like the StatsD mapping of envoyproxy/ratelimit.
func statLabels(key string) []string {
	key = strings.NewReplacer(":", "_", "|", "_").Replace(key)
	key = address.ReplaceAllStringFunc(key, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
	labels := make([]string, 3)
	copy(labels, strings.SplitN(key, ".", 4))
	return labels
}

func (s *Stats) attach(c *Config) {
	for _, r := range c.rules {
		labels := statLabels(r.key)
		r.counts = &counts{
			total: s.total.WithLabelValues(labels...), over: s.over.WithLabelValues(labels...),
			near: s.nearLimit.WithLabelValues(labels...), within: s.within.WithLabelValues(labels...),
			shadow: s.shadow.WithLabelValues(labels...),
		}
	}
}

// Configured counts a loaded configuration or, if err is not nil, a refused one.
func (s *Stats) Configured(err error) {
	if err != nil {
		s.refused.Inc()
	} else {
		s.loaded.Inc()
	}
}

func (s *Stats) count(c *call, took time.Duration, err error) {
	s.requests.Inc()
	s.took.Observe(took.Seconds())
	if err != nil {
		s.errors.Inc()
		return
	}
	for i := range c.items {
		it := &c.items[i]
		// A limit that a request contains has no metrics, so its counts are nil.
		if !it.counted() || it.refund || it.rule.counts == nil {
			continue
		}
		n, hits := it.rule.counts, float64(it.hits)
		n.total.Add(hits)
		if it.over {
			if n.over.Add(hits); it.rule.shadow {
				n.shadow.Add(hits)
			}
			continue
		}
		n.within.Add(hits)
		if near := it.usage.Used - int64(s.near*float64(it.rule.max())); near > 0 {
			n.near.Add(float64(min(near, it.hits)))
		}
	}
}

func (s *Stats) collectors() []prometheus.Collector {
	return []prometheus.Collector{s.requests, s.errors, s.took, s.loaded, s.refused,
		s.total, s.over, s.nearLimit, s.within, s.shadow}
}

// Describe implements [prometheus.Collector].
func (s *Stats) Describe(to chan<- *prometheus.Desc) {
	for _, c := range s.collectors() {
		c.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (s *Stats) Collect(to chan<- prometheus.Metric) {
	for _, c := range s.collectors() {
		c.Collect(to)
	}
}
