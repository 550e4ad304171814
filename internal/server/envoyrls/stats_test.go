package envoyrls_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// gather returns all counters of the stats, by name and labels.
func gather(t *testing.T, stats *envoyrls.Stats) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(stats)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "ratelimit_service_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}

// TestStats: hits are counted under the names of envoyproxy/ratelimit, near the limit above a share
// of it, and a changed configuration goes on counting.
func TestStats(t *testing.T) {
	const rules = `
domain: shop
descriptors:
  - key: user
    descriptors:
      - {key: path, value: "10.0.0.1:80", rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
`
	stats := envoyrls.NewStats(0.8)
	service := newService(t, inMemory(t, nil), parse(t, rules), envoyrls.Options{Window: envoyrls.Fixed, Stats: stats})
	question := ask("shop", "user=a,path=10.0.0.1:80", "shadow=x", "free=y", "unknown=z")
	for i := range 12 {
		if i == 6 {
			service.Swap(parse(t, rules))
		}
		if _, err := service.ShouldRateLimit(t.Context(), question); err != nil {
			t.Fatal(err)
		}
	}
	stats.Configured(nil)
	stats.Configured(errors.New("refused"))
	got := gather(t, stats)
	const user, shadow = " domain=shop key1=user key2=path_10_0_0_1_80", " domain=shop key1=shadow key2="
	for name, want := range map[string]float64{
		"rate_limit_total_hits" + user: 12, "rate_limit_within_limit" + user: 10, "rate_limit_near_limit" + user: 2,
		"rate_limit_over_limit" + user: 2, "rate_limit_shadow_mode" + user: 0,
		"rate_limit_total_hits" + shadow: 12, "rate_limit_within_limit" + shadow: 1,
		"rate_limit_over_limit" + shadow: 11, "rate_limit_shadow_mode" + shadow: 11,
		"total_requests grpc_method=ShouldRateLimit":        12,
		"response_time_seconds grpc_method=ShouldRateLimit": 12,
		"should_rate_limit_error err_type=redis_error":      0,
		"config_load_success":                               1, "config_load_error": 1,
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
	if t.Failed() {
		t.Logf("all: %v", got)
	}
}
