package envoyrls

import (
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats counts requests under the names of envoyproxy/ratelimit's metrics in Prometheus, for
// dashboards that were made for that service. It has five series per configured limit, so it is off
// by default. If a descriptor is over its limit, all its hits count as over the limit.
type Stats struct {
	// near is the share of a limit above which hits count as near the limit.
	near float64

	mu     sync.Mutex
	limits map[[3]string]*counts // by domain and keys; limits of older configurations are kept

	requests, errors prometheus.Counter
	took             prometheus.Histogram
	loaded, refused  prometheus.Counter // numbers of configurations
}

// counts are the counters of a limit.
type counts struct{ total, over, near, within, shadow atomic.Int64 }

const statsPrefix = "ratelimit_service_"

// NewStats returns Stats with all counters at zero. near is a share of each limit: hits above it
// count as near the limit.
func NewStats(near float64) *Stats {
	method := prometheus.Labels{"grpc_method": "ShouldRateLimit"}
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: statsPrefix + name, Help: help, ConstLabels: labels})
	}
	return &Stats{
		near: near, limits: map[[3]string]*counts{},
		requests: counter("total_requests", "Requests from Envoy.", method),
		errors: counter("should_rate_limit_error", "Requests that could not be decided.",
			prometheus.Labels{"err_type": "redis_error"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: statsPrefix + "response_time_seconds",
			Help: "Time until a request was decided.", ConstLabels: method}),
		loaded:  counter("config_load_success", "Configurations put in force.", nil),
		refused: counter("config_load_error", "Configurations refused.", nil),
	}
}

// address matches an IPv4 address. statLabels does not split an address at its dots.
var address = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// statLabels returns the domain and the first two keys of a limit. It splits the key at dots, like
// the StatsD mapping of envoyproxy/ratelimit.
func statLabels(key string) (labels [3]string) {
	key = strings.NewReplacer(":", "_", "|", "_").Replace(key)
	key = address.ReplaceAllStringFunc(key, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
	copy(labels[:], strings.SplitN(key, ".", 4))
	return labels
}

// attach gives each limit of a configuration its counters.
func (s *Stats) attach(c *Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range c.rules {
		labels := statLabels(r.key)
		if s.limits[labels] == nil {
			s.limits[labels] = &counts{}
		}
		r.counts = s.limits[labels]
	}
}

// Configured counts a configuration that was loaded, or refused if err is not nil.
func (s *Stats) Configured(err error) {
	if err != nil {
		s.refused.Inc()
	} else {
		s.loaded.Inc()
	}
}

// count counts a request.
func (s *Stats) count(c *call, took time.Duration, err error) {
	s.requests.Inc()
	s.took.Observe(took.Seconds())
	if err != nil {
		s.errors.Inc()
		return
	}
	for i := range c.items {
		it := &c.items[i]
		if !it.counted() || it.refund || it.rule.counts == nil { // a limit from a request has no counters
			continue
		}
		n := it.rule.counts
		n.total.Add(it.hits)
		if it.over {
			if n.over.Add(it.hits); it.rule.shadow {
				n.shadow.Add(it.hits)
			}
			continue
		}
		n.within.Add(it.hits)
		if near := it.usage.Used - int64(s.near*float64(it.rule.max())); near > 0 {
			n.near.Add(min(near, it.hits))
		}
	}
}

var statDescs = func() (descs [5]*prometheus.Desc) {
	for i, of := range [...][2]string{
		{"total_hits", "Hits."}, {"over_limit", "Hits over the limit."}, {"near_limit", "Hits near the limit."},
		{"within_limit", "Hits within the limit."}, {"shadow_mode", "Hits over a limit in shadow mode."},
	} {
		descs[i] = prometheus.NewDesc(statsPrefix+"rate_limit_"+of[0], of[1], []string{"domain", "key1", "key2"}, nil)
	}
	return descs
}()

// Describe implements [prometheus.Collector].
func (s *Stats) Describe(to chan<- *prometheus.Desc) {
	for _, m := range s.alone() {
		to <- m.Desc()
	}
	for _, d := range statDescs {
		to <- d
	}
}

// alone returns the metrics that do not belong to a limit.
func (s *Stats) alone() []prometheus.Metric {
	return []prometheus.Metric{s.requests, s.errors, s.took, s.loaded, s.refused}
}

// Collect implements [prometheus.Collector].
func (s *Stats) Collect(to chan<- prometheus.Metric) {
	for _, m := range s.alone() {
		to <- m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for labels, n := range s.limits {
		for i, value := range []*atomic.Int64{&n.total, &n.over, &n.near, &n.within, &n.shadow} {
			to <- prometheus.MustNewConstMetric(statDescs[i], prometheus.CounterValue, float64(value.Load()),
				labels[:]...)
		}
	}
}
